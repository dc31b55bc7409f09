"""``slvmeval annotate codes``: who has done how much, by completion code, for paying workers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.annotate_files import CampaignArgument
from slvmeval.commands.annotate_shared import DatabaseOption, one_campaign, opened_desk

if TYPE_CHECKING:
    from tasks.annotation.desk import WorkerProgress

COLUMNS = ("code", "answers", "standing", "platform", "session", "worker")


def register(annotate: typer.Typer) -> None:
    """Add the command."""
    annotate.command()(codes)


def codes(
    campaign: CampaignArgument = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A new CSV file; it is printed without one.")
    ] = None,
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """List completion codes with how many tasks each worker answered, to check before you pay.

    A worker gets the code with the first answer. Who is not in the list has answered nothing.

    Example: `slvmeval annotate codes spring --out codes.csv --store STORE`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError

    if out is not None and out.exists():
        raise UserInputError(f"{out} is there already: name a new file")
    with opened_desk(store, profile, database) as (_, desk):
        name = one_campaign(desk, campaign)
        workers = [one for one in desk.workers(name) if one.code]
    if out is None:
        typer.echo(_table(workers), nl=False)
        return
    write_atomic(out, _table(workers).encode("utf-8", "replace"))
    shared.say(f"{len(workers)} workers of campaign {name} in {out}")


def _table(workers: list[WorkerProgress]) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for one in workers:
        # what came in an address is kept from being taken for a formula
        session = f"'{one.session}" if one.session[:1] in tuple("=+-@\t\r") and one.session else one.session
        lines.writerow((one.code, one.votes, one.standing, one.platform, session, one.worker))
    return text.getvalue()
