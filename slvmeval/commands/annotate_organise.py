"""``slvmeval annotate links`` and ``erase``: who may come, and whose data are taken out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import annotate_codes, annotate_status, shared
from slvmeval.commands.annotate_files import CampaignArgument
from slvmeval.commands.annotate_shared import DatabaseOption, one_campaign, opened_desk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage_schemas.votes_store import VotesStore
    from tasks.annotation.desk import Desk
    from tasks.annotation.erase import ErasedWorker


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate_status.register(annotate)
    annotate.command()(links)
    annotate.command()(erase)
    annotate_codes.register(annotate)


def links(
    campaign: CampaignArgument = None,
    count: Annotated[int, typer.Option("--count", min=1, max=100_000, help="How many workers may come.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A new CSV file; they are printed without one."),
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="For whom they are; it is kept.")] = "",
    public_url: Annotated[
        str, typer.Option("--public-url", metavar="URL", help="Where workers reach the pages.")
    ] = "http://127.0.0.1:8017",
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Make links by which workers come, each for one worker, who may come back with it as often as needed.

    They are shown only now: the database keeps nothing by which a link could be made again.

    Example: `slvmeval annotate links demo-1 --count 20 --out links.csv --store STORE`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError
    from tasks.annotation.invitation import checked_address, link, link_table

    address = checked_address(public_url)
    if out is not None and out.exists():
        raise UserInputError(f"{out} is there already, and links in it may have been sent: name a new file")
    if out is not None and not out.absolute().parent.is_dir():
        raise UserInputError(f"there is no folder {out.absolute().parent}")
    with opened_desk(store, profile, database) as (_, desk):
        name = one_campaign(desk, campaign)
        tokens = desk.invite(name, count, note)
    if out is None:
        shared.say(*(link(address, name, token) for token in tokens))
        return
    write_atomic(out, link_table(address, name, tokens, note))
    # who has a link can answer in its worker's name
    out.chmod(0o600)
    shared.say(f"{count} links of campaign {name} in {out}; each is for one worker")


def erase(
    worker: Annotated[
        str,
        typer.Argument(
            metavar="[WORKER]", help="Id of the worker, or as much of its beginning as is needed."
        ),
    ] = "",
    platform: Annotated[
        str,
        typer.Option(
            "--platform", metavar="NAME", help="Where the worker came from: prolific, mturk, link, …"
        ),
    ] = "",
    identity: Annotated[
        str,
        typer.Option(
            "--identity",
            metavar="ID",
            help="The worker's id there, or the token of a link, in place of WORKER.",
        ),
    ] = "",
    campaigns: Annotated[
        list[str] | None,
        typer.Option("--campaign", metavar="NAME", help="Only this one; may be given several times."),
    ] = None,
    by: Annotated[
        str,
        typer.Option("--by", metavar="NAME", help="Who does it; the name you are logged in with by default."),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Take out all that is stored of a worker, in all campaigns: votes, times, comments, decisions, events.

    A row of counts without a name stays, and the worker's pairs are shown to others again. Backups and files
    that you exported are not touched; docs/annotation-privacy.md says what they hold.

    Example: `slvmeval annotate erase --platform prolific --identity 5f3c9a --store STORE`
    """
    import getpass
    from dataclasses import asdict

    from storage_schemas.errors import UserInputError
    from storage_schemas.votes_store import VotesStore
    from tasks.annotation.erase import campaigns_of, erase_worker

    if bool(worker) == bool(identity) or bool(identity) != bool(platform):
        raise typer.BadParameter("give WORKER, or --platform with --identity", param_hint="WORKER")
    with opened_desk(store, profile, database) as (opened, desk):
        files = VotesStore(opened)
        asked = campaigns or []
        whom = _one_worker(desk, files, worker, asked) if worker else desk.worker_of(platform, identity)
        found = campaigns_of(desk, files, whom, asked)
        if not found:
            raise UserInputError(f"nothing is stored of worker {whom}{' there' if asked else ''}")
        if not yes:
            _confirm(whom, found)
        done = [erase_worker(desk, files, name, whom, by or getpass.getuser()) for name in found]
    if as_json:
        shared.print_json([asdict(one) for one in done])
        return
    for one in done:
        shared.say(*_in_words(one))


def _one_worker(desk: Desk, files: VotesStore, beginning: str, campaigns: Sequence[str]) -> str:
    from storage_schemas.errors import UserInputError
    from tasks.annotation.erase import workers_like

    found = workers_like(desk, files, beginning, campaigns)
    if beginning in found:
        return beginning
    if len(found) != 1:
        raise UserInputError(
            f"{len(found)} workers have an id like {beginning!r}: `slvmeval annotate quality --all` and the "
            "organiser's pages list them"
        )
    return found[0]


def _confirm(worker: str, campaigns: Sequence[str]) -> None:
    from storage_schemas.errors import UserInputError

    shared.tell(f"all that is stored of worker {worker} in {', '.join(campaigns)} is taken out for good")
    typed = typer.prompt(f"type {worker[:10]} to go on", err=True, default="", show_default=False)
    if typed.strip() != worker[:10]:
        raise UserInputError("nothing was taken out")


def _in_words(one: ErasedWorker) -> list[str]:
    said = [
        f"campaign {one.campaign}: {one.desk_votes} votes, {one.assignments} tasks, {one.events} events and "
        f"{one.decisions} decisions are taken out of the database, {one.file_votes} votes and "
        f"{one.file_decisions} decisions out of the store's files"
    ]
    if one.vote_ids:
        said.append(f"  ids of the votes, to look for in files of yours: {' '.join(one.vote_ids)}")
    return said
