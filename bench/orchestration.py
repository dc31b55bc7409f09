"""The figures of orchestration: the flow compared with the same work called directly."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from bench.measuring import ProcessUsage, child, compare, run
from bench.report import BenchFigure
from bench.settings import Settings

WORKERS = "2"
#: Orchestration has a fixed cost per stage; the paper's sources last 1,141 s on average.
SECONDS = 400.0
#: Numbers of simulated sources.
SIMULATED = (100, 10_000)
STARTS = tuple(float(start) for start in range(0, 176, 25))


def orchestrated_over_direct(settings: Settings) -> BenchFigure:
    """Wall time of the flow, divided by plain processes': eight sources, from first stage to release."""
    folder = settings.films.parts("eight", STARTS, SECONDS)

    def built(way: str) -> ProcessUsage:
        with settings.scratch() as scratch:
            prefect = scratch / "prefect"
            return child("orchestrate", way, scratch / "store", folder, WORKERS, environment=_quiet(prefect))

    compared = compare(
        lambda: built("flow"),
        lambda: built("direct"),
        settings.times(3),
        lambda usage: float(usage.output["work_wall_s"]),
    )
    sides = [(run["numerator"], run["denominator"]) for run in compared.runs]
    if any(flow["output"]["low_checksums"] != direct["output"]["low_checksums"] for flow, direct in sides):
        raise RuntimeError("the two ways did not build the same pairs")
    for side in (side for pair in sides for side in pair):
        del side["output"]["low_checksums"]
    return BenchFigure(
        compared.ratio,
        compared.numerator,
        compared.denominator,
        "s",
        f"run_flow(BUILD, workers={WORKERS}) over plain processes (--direct, {WORKERS} of them), from the "
        "workers ready to the release written: start of server, cluster and processes apart",
        [f"{len(STARTS)} parts of {settings.films.bunny.name}, {SECONDS:g} s each"],
        {
            "pairs": sides[0][0]["output"]["pairs"],
            "ratio_of_cpu": _median(sides, "work_cpu_s"),
            "ratio_with_start": _median(sides, "wall_s"),
        },
        compared.runs,
    )


def overhead_growth(settings: Settings) -> BenchFigure:
    """Overhead per task in the flow, with 10,000 sources compared with 100."""
    sizes: dict[int, dict[str, Any]] = {}
    for sources in SIMULATED:
        with settings.scratch() as scratch:
            flow, direct = (
                run(
                    [
                        sys.executable,
                        "-m",
                        "bench.simulated",
                        way,
                        "--sources",
                        str(sources),
                        "--workers",
                        WORKERS,
                    ],
                    _quiet(scratch / "prefect"),
                ).output
                for way in ("flow", "direct")
            )
        over = flow["wall_s"] - direct["wall_s"]
        sizes[sources] = {
            "flow": flow,
            "direct": direct,
            "overhead_s": round(over, 2),
            "overhead_per_task_s": round(over / flow["tasks"], 4),
            "overhead_per_source_s": round(over / sources, 4),
        }
        if flow["recorded"] != flow["tasks"]:
            raise RuntimeError(f"the server recorded {flow['recorded']} of {flow['tasks']} tasks")
    few, many = (sizes[size]["overhead_per_task_s"] for size in (SIMULATED[0], SIMULATED[-1]))
    return BenchFigure(
        many / few,
        many,
        few,
        "s a task",
        f"simulated sources that sleep, {SIMULATED[-1]} over {SIMULATED[0]}: wall through flow and Dask less "
        f"that of {WORKERS} plain processes, by task",
        [f"{size} simulated sources" for size in SIMULATED],
        {str(size): values for size, values in sizes.items()},
        [],
    )


def _quiet(home: Path) -> dict[str, str]:
    return {"PREFECT_HOME": str(home), "PREFECT_API_URL": ""}


def _median(sides: list[tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]], name: str) -> float:
    return round(
        statistics.median(flow["output"][name] / direct["output"][name] for flow, direct in sides), 4
    )
