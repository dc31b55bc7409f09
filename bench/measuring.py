"""Measure child processes: CPU seconds of the whole process tree, wall seconds, peak memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from infra.executor import SINGLE_THREADED

ROOT = Path(__file__).resolve().parents[1]

#: Environment in which Python stores compiled modules as usual.
PYTHON = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "bench" / "pycache")}


@dataclass(frozen=True)
class ProcessUsage:
    """Resource usage of a child process.

    Parameters
    ----------
    cpu_s
        User and system seconds of the process and of all its waited-for children.
    wall_s
        Wall seconds.
    peak_mb
        Largest resident set of the process itself or of one of its children, 10⁶ bytes.
    output
        The process's report: the last line of its standard output, if that is JSON.
    """

    cpu_s: float
    wall_s: float
    peak_mb: float
    output: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SideBySide:
    """Two alternately measured processes; the ratio is the median of the ratios of adjacent runs."""

    ratio: float
    numerator: float
    denominator: float
    runs: list[dict[str, Any]]


def run(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> ProcessUsage:
    """Run a command from the root of the repository and return its usage.

    Raises
    ------
    RuntimeError
        If it fails, with the end of its output.
    """
    words = [str(word) for word in command]
    variables = {**os.environ, **SINGLE_THREADED, **PYTHON, **(environment or {})}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.monotonic()
        process = subprocess.Popen(words, cwd=ROOT, env=variables, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        lines = output.read().strip().splitlines()
        if process.returncode not in (0, 3):  # 3: built, but something was set aside
            errors.seek(0)
            tail = "\n".join([*lines[-5:], *errors.read().strip().splitlines()[-25:]])
            raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}:\n{tail}")
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    kilobyte = 1 if sys.platform == "darwin" else 1024
    return ProcessUsage(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * kilobyte / 1e6, report)


def child(*arguments: str | Path, environment: dict[str, str] | None = None) -> ProcessUsage:
    """Run one piece of work of :mod:`bench.child` in a separate process."""
    return run([sys.executable, "-m", "bench.child", *arguments], environment)


def compare(
    first: Callable[[], ProcessUsage],
    second: Callable[[], ProcessUsage],
    runs: int,
    value: Callable[[ProcessUsage], float] = lambda usage: usage.cpu_s,
) -> SideBySide:
    """Measure two processes alternately, so that a busy machine affects both equally."""
    pairs: list[tuple[ProcessUsage, ProcessUsage]] = []
    for turn in range(runs):
        if turn % 2:
            later = second()
            pairs.append((first(), later))
        else:
            pairs.append((first(), second()))
    return SideBySide(
        ratio=statistics.median(value(a) / value(b) for a, b in pairs),
        numerator=statistics.median(value(a) for a, _ in pairs),
        denominator=statistics.median(value(b) for _, b in pairs),
        runs=[{"numerator": asdict(a), "denominator": asdict(b)} for a, b in pairs],
    )
