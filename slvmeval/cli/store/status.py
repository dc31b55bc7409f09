"""``slvmeval status``: a store's content and its last build."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from storage_schemas.sizes import size_text

if TYPE_CHECKING:
    from storage_schemas.store import Store

_WATCH_EVERY_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="The store")(status)


class StatusOptions(terminal.DeskParameters):
    """Options of `status`."""

    watch: bool = Field(default=False, description="Follow the running build until it ends.")
    page: Annotated[bool, Given(("--open",))] = Field(
        default=False,
        description="Show the store on a local page until interrupted: releases, builds, galleries, reports, "
        "judges, campaigns, suites, disk.",
    )
    port: terminal.PortOption = 8019
    browser: Annotated[bool, Given(by_set=True)] = Field(
        default=True, description="Open the page in the browser at once."
    )
    output: terminal.FormatOption = "table"


def status(
    options: StatusOptions,
) -> None:
    """Show the running or last build with its worker pools, the releases, and the sizes of a store.

    The page of `--open` can be reached from this machine only, at an address that changes with each start.

    Example: `slvmeval status --store STORE --watch`, `slvmeval status --open --store STORE`
    """
    if options.output != "table":
        refuse(options, "not with --format json or markdown, which print once", "watch", "page")
    if options.page:
        refuse(options, "not with --open", "watch")
        _open_page(options)
        return
    refuse(options, "only with --open", "port", "browser", "database")
    opened = terminal.open_store(options)
    if options.watch:
        _watch(opened)
    from slvmeval.store_status import status_values

    values = status_values(opened)
    rows = [
        (
            f"{release['name']} {version['version']}",
            version["pairs"],
            version["sources"],
            sum(version["set_aside"].values()),
            version["recipe"],
            version["created_at"],
            terminal.counted(version["set_aside"]),
            terminal.counted(version["damaged"]),
        )
        for release in values["releases"]
        for version in release["versions"]
    ]
    columns = ("release, version", "pairs", "sources", "set aside", "recipe", "created", "reasons", "damaged")
    sizes = [(kind, size["count"], size_text(size["bytes"])) for kind, size in values["sizes"].items()]
    terminal.show(
        options.output,
        values,
        lambda: _print_runs(values["runs"]),
        terminal.Grid(f"releases in {opened.root}", columns, rows, numbers=3),
        terminal.Grid("disk usage", ("kind", "count", "size"), sizes, 2),
        f"{size_text(values['bytes_free'])} free",
    )


def _print_runs(runs: list[dict[str, Any]]) -> None:
    from slvmeval.cli.store.build_states import runs_view

    terminal.say(*runs_view(runs))


def _watch(store: Store) -> None:
    from rich.console import Group
    from rich.live import Live

    from slvmeval.cli.store.build_states import runs_view
    from slvmeval.store_status import run_states

    with Live(console=terminal.console(), auto_refresh=False) as live:
        while True:
            runs = run_states(store)
            live.update(Group(*map(terminal.rendered, runs_view(runs))), refresh=True)
            if not runs or runs[0]["status"] != "running":
                return
            time.sleep(_WATCH_EVERY_S)


def _open_page(options: StatusOptions) -> None:
    """Show a store on a local, read-only page that only this machine can reach."""
    opened = terminal.open_store(options)
    from infra.scratch import ScratchFolder
    from slvmeval.web.local_server import prepare_server
    from slvmeval.web.store_page.app import StorePage, create_app
    from slvmeval.web.store_page.overview import campaign_lines

    if options.database is not None:
        # report an unusable store now rather than on the page
        campaign_lines(opened, options.database)
    page = StorePage(opened, options.database)
    with prepare_server(lambda serving: create_app(page, serving), page.secret, options.port) as ready:
        terminal.say(f"open {ready.address}", "for this machine only; end it with Ctrl-C")
        with ScratchFolder() as folder:
            if options.browser:
                typer.launch(_redirection(folder.path, ready.address).as_uri())
            ready.run()


def _redirection(folder: Path, address: str) -> Path:
    """Write a page that redirects to an address: other users can read a browser's command line."""
    page = folder / "open.html"
    page.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">\n', "utf-8"
    )
    return page
