"""``slvmeval annotate``: people judge pairs, and their votes filter a release; or they rate videos."""

from __future__ import annotations

from typing import Annotated

import typer

from slvmeval.cli import terminal
from slvmeval.cli.annotate import backups, exchange, filter, ratings, simulate

annotate = typer.Typer(
    no_args_is_help=True,
    help="Let people judge pairs and filter a release by their votes, or rate generated videos.",
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    exchange.register(annotate)
    ratings.register(annotate)
    filter.register(annotate)
    simulate.register(annotate)
    backups.register(annotate)
    parent.add_typer(annotate, name="annotate", rich_help_panel="Releases")


@annotate.command()
def serve(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="RELEASE|CAMPAIGN",
            help="Campaign or release to serve; by default everything published.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; other than loopback needs --public-url.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8017,
    public_url: Annotated[
        str,
        typer.Option(
            "--public-url",
            metavar="URL",
            help="The address that workers use; by default the campaign's public_url.",
        ),
    ] = "",
    behind_proxy: Annotated[
        str,
        typer.Option(
            "--behind-proxy",
            metavar="ADDRESS[,ADDRESS]",
            help="Trust X-Forwarded-For and -Proto from these addresses only.",
        ),
    ] = "",
    send_files: Annotated[
        str,
        typer.Option(
            "--send-files",
            metavar="HEADER",
            help="Let the proxy send the videos: X-Accel-Redirect (nginx) or X-Sendfile (Apache).",
        ),
    ] = "",
    private_audience: exchange.PrivateOption = False,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="prolific|mturk",
            help="Also admit workers with this platform's parameters, without a token; repeatable.",
        ),
    ] = None,
    texts: exchange.TextsOption = None,
    processes: Annotated[
        int,
        typer.Option(
            "--processes", min=1, help="Number of server processes; more than one needs PostgreSQL."
        ),
    ] = 1,
    per_worker: Annotated[
        int,
        typer.Option("--per-worker", min=0, help="Maximum requests per worker and minute; 0 for no limit."),
    ] = 300,
    per_address: Annotated[
        int,
        typer.Option("--per-address", min=0, help="Maximum requests per address and minute; 0 for no limit."),
    ] = 6000,
    database: terminal.DatabaseOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Serve the annotation pages until interrupted; interrupting loses nothing.

    By default it listens on this machine only. For remote workers put it behind an https proxy, and set its
    address with --public-url.

    Example: `slvmeval annotate serve demo --store STORE`
    """
    from slvmeval.web.annotation.serve import Serving, prepare, run_server
    from tasks.annotation.installation import database_url, media_folder

    root = terminal.open_store(store, profile).root
    settings = Serving(
        store=str(root),
        database=database_url(root, database),
        media=str(media_folder(root)),
        campaigns=(),
        host=host,
        port=port,
        public_url=public_url.rstrip("/"),
        trusted_proxies=behind_proxy,
        send_files=send_files,
        texts="" if texts is None else str(texts),
        platforms=tuple(platform or ()),
        worker_a_minute=per_worker,
        address_a_minute=per_address,
    )
    with prepare(settings, name, private=private_audience, processes=processes) as ready:
        terminal.say(*ready.lines)
        for line in ready.warnings:
            terminal.tell(f"note: {line}")
        run_server(ready, processes)
