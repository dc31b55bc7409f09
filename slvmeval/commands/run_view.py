"""What `slvmeval status` shows of builds: their stages, the worker pools and what became of each aspect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slvmeval.commands import shared

if TYPE_CHECKING:
    from rich.console import RenderableType


def runs_view(runs: list[dict[str, Any]]) -> list[RenderableType]:
    """Return what there is to show of every build that is running, or of the last one."""
    from rich.text import Text

    if not runs:
        return [Text("no build is known in this store")]
    running = [run for run in runs if run["status"] == "running"]
    shown: list[RenderableType] = []
    for run in running or runs[:1]:
        shown += [Text(line) for line in _lines(run)]
        if run["pools"] and run["status"] == "running":
            shown.append(_pools(run["pools"]))
        if run["summary"]:
            shown.append(_summary(run["summary"]))
    return shown


def _lines(run: dict[str, Any]) -> list[str]:
    process = f"process {run['pid']} on {run['host']}"
    what = {
        "running": f"running ({process})",
        "died": f"died ({process} is gone): the same build command goes on where it was",
        "failed": "failed: the same build command goes on where it was",
    }.get(run["status"], run["status"])
    last = "build" if run["status"] == "running" else "last build"
    lines = [f"{last}: {what}; started {run['started_at']}, last heard of {run['updated_at']}"]
    for stage, counts in run["stages"].items():
        aside = f", {counts['set_aside']} set aside" if counts["set_aside"] else ""
        lines.append(f"  {stage:<10} {counts['done']}/{counts['total']}{aside}")
    return lines


def _pools(pools: dict[str, dict[str, Any]]) -> RenderableType:
    columns = ("pool", "jobs", "pending", "workers", "draining", "wanted", "why jobs wait")
    rows = [
        (name, *(pool[key] for key in ("jobs", "pending", "workers", "draining", "wanted")), pool["reason"])
        for name, pool in pools.items()
    ]
    return shared.table("worker pools", columns, rows, numbers=5)


def _summary(rows: list[dict[str, Any]]) -> RenderableType:
    columns = ("aspect", "planned", "built", "set aside", "reasons")
    lines = [
        (row["aspect"], row["planned"], row["built"], row["set_aside"], shared.counted(row["reasons"]))
        for row in rows
    ]
    return shared.table("pairs by aspect", columns, lines, numbers=3)
