"""The states of a store's builds."""

from __future__ import annotations

from typing import Any

from slvmeval.cli import terminal
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store


def refuse_while_running(store: Store, what: str) -> None:
    """Raise an error if a build is running in the store that is to be changed.

    Raises
    ------
    UserInputError
        With the build's machine and process id, and what to do if that process no longer exists.
    """
    from slvmeval.store_status import run_states

    for run in run_states(store):
        if run["status"] == "running":
            what_runs = "a build" if run["what"] == "build" else f"a run of {run['what']}"
            raise UserInputError(
                f"{what_runs} is running in {store.root} (process {run['pid']} on {run['host']}): {what} "
                "would remove data it needs; wait for it (slvmeval status --watch) or stop it; if that "
                f"process no longer exists, remove {run['file']}"
            )


def runs_view(runs: list[dict[str, Any]]) -> list[terminal.Part]:
    """Return the lines to show for every running build, or for the last one."""
    if not runs:
        return ["this store has no builds"]
    running = [run for run in runs if run["status"] == "running"]
    parts: list[terminal.Part] = []
    for run in running or runs[:1]:
        parts += _lines(run)
        if run["pools"] and run["status"] == "running":
            parts.append(_pools(run["pools"]))
        if run["summary"]:
            parts.append(_summary(run["summary"]))
    return parts


def _lines(run: dict[str, Any]) -> list[str]:
    process = f"process {run['pid']} on {run['host']}"
    what = {
        "running": f"running ({process})",
        "died": f"died ({process} is gone): the same build command resumes",
        "failed": "failed: the same build command resumes",
    }.get(run["status"], run["status"])
    last = run["what"] if run["status"] == "running" else "last build"
    lines = [f"{last}: {what}; started {run['started_at']}, last update {run['updated_at']}"]
    for stage, counts in run["stages"].items():
        aside = f", {counts['set_aside']} set aside" if counts["set_aside"] else ""
        lines.append(f"  {stage:<10} {counts['done']}/{counts['total']}{aside}")
    for pool, nodes in run["unfit"].items():
        lines += [f"  node {node} is left out of pool {pool}: {why}" for node, why in nodes.items()]
    return lines


def _pools(pools: dict[str, dict[str, Any]]) -> terminal.Grid:
    columns = ("pool", "jobs", "pending", "workers", "draining", "wanted", "why jobs wait")
    rows = [
        (name, *(pool[key] for key in ("jobs", "pending", "workers", "draining", "wanted")), pool["reason"])
        for name, pool in pools.items()
    ]
    return terminal.Grid("worker pools", columns, rows, numbers=5)


def _summary(rows: list[dict[str, Any]]) -> terminal.Grid:
    columns = ("aspect", "planned", "built", "set aside", "reasons")
    lines = [
        (row["aspect"], row["planned"], row["built"], row["set_aside"], terminal.counted(row["reasons"]))
        for row in rows
    ]
    return terminal.Grid("pairs by aspect", columns, lines, numbers=3)
