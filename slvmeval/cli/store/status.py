"""``slvmeval status``: a store's content and its last build."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slvmeval.cli import terminal
from storage_schemas.sizes import size_text

if TYPE_CHECKING:
    from storage_schemas.store import Store

_WATCH_EVERY_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="The store")(status)


def status(
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the running build until it ends.")] = False,
    as_json: terminal.JsonOption = False,
) -> None:
    """Show the running or last build with its worker pools, the releases, and the sizes of a store.

    Example: `slvmeval status --store STORE --watch`
    """
    opened = terminal.open_store(store, profile)
    if watch:
        _watch(opened)
    values = status_values(opened)
    if as_json:
        terminal.print_json(values)
        return
    from slvmeval.cli.store.build_states import runs_view

    for part in runs_view(values["runs"]):
        terminal.console().print(part)
    rows = [
        (
            f"{release['name']} {version['version']}",
            version["pairs"],
            version["sources"],
            sum(version["set_aside"].values()),
            version["recipe"],
            version["created_at"],
            terminal.counted(version["set_aside"]),
        )
        for release in values["releases"]
        for version in release["versions"]
    ]
    columns = ("release, version", "pairs", "sources", "set aside", "recipe", "created", "reasons")
    terminal.console().print(terminal.table(f"releases in {opened.root}", columns, rows, numbers=3))
    sizes = [(kind, size["count"], size_text(size["bytes"])) for kind, size in values["sizes"].items()]
    terminal.console().print(terminal.table("disk usage", ("kind", "count", "size"), sizes, 2))
    terminal.say(f"{size_text(values['bytes_free'])} free")


def status_values(store: Store) -> dict[str, Any]:
    """Return a store's status as JSON-serialisable values."""
    from slvmeval.cli.store.build_states import run_states
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

    versions = []
    for version in release_versions(store, name):
        release = Release.open(store, name, version)
        versions.append(
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
    return versions


def _watch(store: Store) -> None:
    from rich.console import Group
    from rich.live import Live

    from slvmeval.cli.store.build_states import run_states, runs_view

    with Live(console=terminal.console(), auto_refresh=False) as live:
        while True:
            runs = run_states(store)
            live.update(Group(*runs_view(runs)), refresh=True)
            if not runs or runs[0]["status"] != "running":
                return
            time.sleep(_WATCH_EVERY_S)
