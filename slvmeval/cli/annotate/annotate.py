"""``slvmeval annotate``: people look at pairs, and a release is filtered by what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slvmeval.cli import terminal
from slvmeval.cli.annotate import database as databases
from slvmeval.cli.annotate import exchange, filter

annotate = typer.Typer(
    no_args_is_help=True, help="People look at pairs, and a release is filtered by what they say."
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    exchange.register(annotate)
    filter.register(annotate)
    parent.add_typer(annotate, name="annotate", rich_help_panel="Releases")


@annotate.command()
def serve(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[RELEASE|CAMPAIGN]", help="What is put before people; all that is published by default."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Where it listens; another than this machine needs --public-url.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8017,
    public_url: Annotated[
        str, typer.Option("--public-url", metavar="URL", help="The address by which workers come.")
    ] = "",
    behind_proxy: Annotated[
        str,
        typer.Option(
            "--behind-proxy",
            metavar="ADDRESS[,ADDRESS]",
            help="Believe X-Forwarded-For and -Proto from these addresses, and from no others.",
        ),
    ] = "",
    private_audience: Annotated[
        bool,
        typer.Option(
            "--private-audience",
            help="Also serve sources that may not be passed on: all who come are under your agreement with "
            "their owner.",
        ),
    ] = False,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="prolific|mturk",
            help="Also let in who comes with this platform's parameters, without a token; several times.",
        ),
    ] = None,
    texts: Annotated[
        Path | None, typer.Option("--texts", metavar="DIR", help="Texts of your own, over ours.")
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Processes that answer; more than one needs PostgreSQL.")
    ] = 1,
    per_worker: Annotated[
        int, typer.Option("--per-worker", min=0, help="Most requests of a worker a minute; 0: any number.")
    ] = 300,
    per_address: Annotated[
        int,
        typer.Option("--per-address", min=0, help="Most requests from an address a minute; 0: any number."),
    ] = 6000,
    database: databases.DatabaseOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Serve the pages on which people look at pairs, until it is interrupted; nothing is lost by that.

    It listens on this machine only. For people elsewhere put it behind a server that speaks https, and say
    its address with --public-url.

    Example: `slvmeval annotate serve demo --store STORE`
    """
    from slvmeval.web.annotation.serve import Serving, prepare, run_server
    from tasks.annotation.installation import database_url, media_folder

    root = terminal.open_store(store, profile).root
    asked = Serving(
        store=str(root),
        database=database_url(root, database),
        media=str(media_folder(root)),
        campaigns=(),
        host=host,
        port=port,
        public_url=public_url.rstrip("/"),
        trusted_proxies=behind_proxy,
        texts="" if texts is None else str(texts),
        platforms=tuple(platform or ()),
        worker_a_minute=per_worker,
        address_a_minute=per_address,
    )
    with prepare(asked, name, private=private_audience, processes=processes) as ready:
        terminal.say(*ready.lines)
        for line in ready.warnings:
            terminal.tell(f"note: {line}")
        run_server(ready, processes)
