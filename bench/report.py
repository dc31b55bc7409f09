"""The report: the machine, every figure with its aim, and the raw runs, as JSON and as a table."""

from __future__ import annotations

import json
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.films import FFMPEG
from storage_schemas.commit import write_atomic

RATIOS = "ratios.json"

#: Packages whose version changes the figures.
PACKAGES = (
    "av",
    "numpy",
    "zarr",
    "numcodecs",
    "opencv-contrib-python-headless",
    "pillow",
    "pyarrow",
    "pydantic",
    "spacy",
    "onnxruntime",
    "prefect",
    "prefect-dask",
    "distributed",
)


@dataclass(frozen=True)
class BenchFigure:
    """One measured figure.

    Parameters
    ----------
    ratio
        The figure itself, `numerator` over `denominator` (the median of several runs).
    unit
        Unit of numerator and denominator.
    what
        Description of numerator and denominator, with the command.
    files
        The measured video files.
    details
        Further values.
    runs
        The individual runs.
    """

    ratio: float
    numerator: float
    denominator: float
    unit: str
    what: str
    files: list[str]
    details: dict[str, Any] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Aim:
    """The bound of a figure: at most `value`, or exactly `value`."""

    value: float
    exact: bool = False

    def met(self, ratio: float) -> bool:
        """Return whether a ratio meets the aim."""
        return ratio == self.value if self.exact else ratio <= self.value

    def __str__(self) -> str:
        return f"{'=' if self.exact else '≤'} {self.value:g}"


def machine() -> dict[str, Any]:
    """Return the environment of the figures: processor, memory, Python, libraries, ffmpeg."""
    import av
    import psutil

    libraries = {name: ".".join(map(str, number)) for name, number in av.library_versions.items()}
    printed = subprocess.run(
        [FFMPEG, "-version"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "pyav_libraries": dict(sorted(libraries.items())),
        "ffmpeg": printed.splitlines()[0].split(" Copyright")[0].removeprefix("ffmpeg version "),
    }


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def write_figure(
    folder: Path, key: str, measured: BenchFigure, aim: Aim, about: dict[str, Any]
) -> dict[str, Any]:
    """Write one figure to ``ratios.json``, keeping the others, and return the report.

    Parameters
    ----------
    folder
        Folder of ``ratios.json``.
    about
        Result of :func:`machine`.
    """
    path = folder / RATIOS
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    values = asdict(measured)
    runs = values.pop("runs")
    figure = {
        "ratio": round(values.pop("ratio"), 4),
        "aim": str(aim),
        "met": aim.met(measured.ratio),
        **values,
        "measured_at": now,
        "runs": runs,
    }
    figures = {**report.get("figures", {}), key: figure}
    report = {"machine": about, "measured_at": now, "figures": figures}
    write_atomic(path, (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())
    return report


def print_report(report: dict[str, Any], order: list[str], console: Console | None = None) -> None:
    """Print the figures as a table, in this order."""
    about = report["machine"]
    table = Table()
    table.add_column("figure", no_wrap=True)
    for name in ("ratio", "aim", "met", "numerator", "denominator"):
        table.add_column(name, justify="right")
    table.add_column("unit")
    figures = report["figures"]
    for key in [key for key in order if key in figures]:
        figure = figures[key]
        table.add_row(
            key,
            f"{figure['ratio']:.3f}",
            figure["aim"],
            "[green]yes[/]" if figure["met"] else "[red]no[/]",
            f"{figure['numerator']:,.6g}",
            f"{figure['denominator']:,.6g}",
            figure["unit"],
        )
    shown = console or Console()
    shown.print(
        f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, Python {about['python']}, "
        f"ffmpeg {about['ffmpeg']}"
    )
    shown.print(table)
