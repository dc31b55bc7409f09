"""``slvmeval annotate``: people judge pairs, and their votes filter a release; or they rate videos."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import Field

from flows.annotate.parameters import PrivateAudience
from flows.parameters import RARE, Given
from slvmeval.cli import terminal
from slvmeval.cli.annotate import backups, exchange, filter, payments, ratings, simulate
from slvmeval.cli.declared import CommandGroup

annotate = CommandGroup(
    no_args_is_help=True,
    help="Let people judge pairs and filter a release by their votes, or rate generated videos.",
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    exchange.register(annotate)
    ratings.register(annotate)
    filter.register(annotate)
    simulate.register(annotate)
    payments.register(annotate)
    backups.register(annotate)
    parent.add_typer(annotate, name="annotate", rich_help_panel="Releases")


class ServeOptions(terminal.DeskParameters):
    """Options of `serve`."""

    name: Annotated[str | None, Given(("name",), "RELEASE|CAMPAIGN")] = Field(
        default=None, description="Campaign or release to serve; by default everything published."
    )
    host: Annotated[str, Given(panel=RARE)] = Field(
        default="127.0.0.1", description="Address to listen on; other than loopback needs --public-url."
    )
    port: int = Field(default=8017, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    public_url: Annotated[str, Given(metavar="URL", panel=RARE)] = Field(
        default="", description="The address that workers use; by default the campaign's public_url."
    )
    behind_proxy: Annotated[str, Given(metavar="ADDRESS[,ADDRESS]", by_set=True)] = Field(
        default="", description="Trust X-Forwarded-For and -Proto from these addresses only."
    )
    send_files: Annotated[str, Given(metavar="HEADER", by_set=True)] = Field(
        default="",
        description="Let the proxy send the videos: X-Accel-Redirect (nginx) or X-Sendfile (Apache).",
    )
    private_audience: PrivateAudience = False
    platform: Annotated[tuple[str, ...], Given(metavar="prolific|mturk|prolific-unsigned")] = Field(
        default=(),
        description="Also admit workers of this platform: with Prolific's signed token, or with unsigned "
        "ids.",
    )
    texts: Annotated[exchange.TextsOption, Given(panel=RARE)] = None
    processes: Annotated[int, Given(by_set=True)] = Field(
        default=1, ge=1, description="Number of server processes; more than one needs PostgreSQL."
    )
    per_worker: Annotated[int, Given(("--max-per-worker",), by_set=True)] = Field(
        default=300, ge=0, description="Maximum requests per worker and minute; 0 for no limit."
    )
    per_address: Annotated[int, Given(("--max-per-address",), by_set=True)] = Field(
        default=6000, ge=0, description="Maximum requests per address and minute; 0 for no limit."
    )


@annotate.command()
def serve(
    options: ServeOptions,
) -> None:
    """Serve the annotation pages until interrupted; interrupting loses nothing.

    By default it listens on this machine only. For remote workers put it behind an https proxy, and set its
    address with --public-url.

    Example: `slvmeval annotate serve demo --store STORE`
    """
    from slvmeval.web.annotation.serve import Serving, prepare, run_server
    from tasks.annotation.installation import database_url, media_folder

    root = terminal.open_store(options).root
    settings = Serving(
        store=str(root),
        database=database_url(root, options.database),
        media=str(media_folder(root)),
        campaigns=(),
        host=options.host,
        port=options.port,
        public_url=options.public_url.rstrip("/"),
        trusted_proxies=options.behind_proxy,
        send_files=options.send_files,
        texts="" if options.texts is None else str(options.texts),
        platforms=tuple(options.platform or ()),
        worker_a_minute=options.per_worker,
        address_a_minute=options.per_address,
    )
    with prepare(
        settings, options.name, private=options.private_audience, processes=options.processes
    ) as ready:
        terminal.say(*ready.lines)
        for line in ready.warnings:
            terminal.tell(f"note: {line}")
        run_server(ready, options.processes)
