"""``slvmeval status``: what a store holds, and what its last build is doing."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slvmeval.commands import shared

if TYPE_CHECKING:
    from storage_schemas.store import Store

_WATCH_EVERY_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="The store")(status)


def status(
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the running build until it ends.")] = False,
    as_json: shared.JsonOption = False,
) -> None:
    """Show the last or running build, the releases with their versions, and the sizes of a store.

    Example: `slvmeval status --store STORE --watch`
    """
    opened = shared.open_store(store, profile)
    if watch:
        _watch(opened)
    found = status_values(opened)
    if as_json:
        shared.print_json(found)
        return
    for line in _run_lines(found["runs"]):
        shared.say(line)
    rows = [
        (
            f"{release['name']} {version['version']}",
            version["pairs"],
            version["sources"],
            sum(version["set_aside"].values()),
            version["recipe"],
            version["created_at"],
            shared.counted(version["set_aside"]),
        )
        for release in found["releases"]
        for version in release["versions"]
    ]
    columns = ("release, version", "pairs", "sources", "set aside", "recipe", "made", "reasons")
    shared.console().print(shared.table(f"releases in {opened.root}", columns, rows, numbers=3))
    sizes = [(kind, size["count"], shared.size_text(size["bytes"])) for kind, size in found["sizes"].items()]
    shared.console().print(shared.table("what takes the space", ("kind", "number", "bytes"), sizes, 2))
    shared.say(f"{shared.size_text(found['bytes_free'])} free")


def status_values(store: Store) -> dict[str, Any]:
    """Return what there is to say of a store, JSON-able."""
    from slvmeval.commands.state import run_states
    from storage_schemas.gc import kind_sizes
    from storage_schemas.release import release_names

    runs = run_states(store)
    return {
        "store": str(store.root),
        "run": runs[0] if runs else None,
        "runs": runs,
        "releases": [{"name": name, "versions": _versions(store, name)} for name in release_names(store)],
        "sizes": {size.kind: {"count": size.count, "bytes": size.bytes} for size in kind_sizes(store)},
        "bytes_free": store.free_bytes(),
    }


def _versions(store: Store, name: str) -> list[dict[str, Any]]:
    from storage_schemas.release import Release, release_versions

    found = []
    for version in release_versions(store, name):
        release = Release.open(store, name, version)
        found.append(
            {
                "version": version,
                "pairs": release.manifest.content["pairs"],
                "sources": release.manifest.content["sources"],
                "recipe": release.info["recipe"],
                "created_at": release.info["created_at"],
                "extends": release.info["extends"],
                "content_checksum": release.manifest.content_checksum,
                "set_aside": dict(Counter(row.reason.value for row in release.set_aside())),
            }
        )
    return found


def _run_lines(runs: list[dict[str, Any]]) -> list[str]:
    """Return lines on every build that is running, or on the last one."""
    if not runs:
        return ["no build is known in this store"]
    running = [run for run in runs if run["status"] == "running"]
    return [line for run in running or runs[:1] for line in _one_run(run)]


def _one_run(run: dict[str, Any]) -> list[str]:
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


def _watch(store: Store) -> None:
    from rich.live import Live
    from rich.text import Text

    from slvmeval.commands.state import run_states

    with Live(console=shared.console(), auto_refresh=False) as live:
        while True:
            runs = run_states(store)
            live.update(Text("\n".join(_run_lines(runs))), refresh=True)
            if not runs or runs[0]["status"] != "running":
                return
            time.sleep(_WATCH_EVERY_S)
