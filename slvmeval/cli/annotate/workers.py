"""The worker commands of ``slvmeval annotate``: quality, exclude, clear, links, erase and
codes.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.cli import terminal
from slvmeval.cli.annotate import status
from slvmeval.cli.annotate.database import DatabaseOption, one_campaign, opened_desk
from slvmeval.cli.annotate.exchange import CampaignArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage_schemas.votes import Standing, VotesStore
    from tasks.annotation.desk.desk import Desk
    from tasks.annotation.desk.organiser import WorkerProgress
    from tasks.annotation.sync import ErasedWorker
    from tasks.votes.quality import QualityRule, WorkerQuality


COLUMNS = ("code", "answers", "standing", "platform", "session", "worker")


def codes(
    campaign: CampaignArgument = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A new CSV file; printed by default.")
    ] = None,
    database: DatabaseOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """List completion codes and the number of tasks each worker answered, to check before you pay.

    A worker gets the code with the first answer. Workers not in the list have answered nothing.

    Example: `slvmeval annotate codes spring --out codes.csv --store STORE`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError

    if out is not None and out.exists():
        raise UserInputError(f"{out} already exists: name a new file")
    with opened_desk(store, profile, database) as (_, desk):
        name = one_campaign(desk, campaign)
        workers = [one for one in desk.organiser.workers(name) if one.code]
    if out is None:
        typer.echo(_table(workers), nl=False)
        return
    write_atomic(out, _table(workers).encode("utf-8", "replace"))
    terminal.say(f"{len(workers)} workers of campaign {name} in {out}")


def _table(workers: list[WorkerProgress]) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for one in workers:
        # keep text from addresses from being interpreted as a formula
        session = f"'{one.session}" if one.session[:1] in tuple("=+-@\t\r") and one.session else one.session
        lines.writerow((one.code, one.votes, one.standing, one.platform, session, one.worker))
    return text.getvalue()


WorkersCampaignArgument = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Name of the campaign.")]
WorkerArgument = Annotated[
    str, typer.Argument(metavar="WORKER", help="Id of the worker, or an unambiguous prefix.")
]
NoteOption = Annotated[str, typer.Option("--note", metavar="TEXT", help="The reason; it is recorded.")]
ByOption = Annotated[
    str, typer.Option("--by", metavar="NAME", help="Who decides; by default your login name.")
]


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate.command()(quality)
    annotate.command()(exclude)
    annotate.command()(clear)
    annotate.command()(codes)
    status.register(annotate)
    annotate.command()(links)
    annotate.command()(erase)


def quality(
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="Name of the campaign; all by default.")
    ] = None,
    rule: Annotated[
        Path | None, typer.Option("--rule", metavar="FILE", help="Your own thresholds, as TOML.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Also workers without flags.")] = False,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """List the workers to review: too fast, disagreeing with everybody, or mostly wrong.

    It uses the collected votes (`annotate collect`) and excludes nobody: `annotate exclude` and `annotate
    clear` record
    a person's decision.

    Example: `slvmeval annotate quality spring --store STORE --all`
    """
    from storage_schemas.errors import UserInputError
    from storage_schemas.votes import VotesStore
    from tasks.votes.agreement import worker_agreement
    from tasks.votes.filter import FilterRule, counting
    from tasks.votes.quality import load_quality_rule
    from tasks.votes.quality import quality as quality_of

    kept = VotesStore(terminal.open_store(store, profile))
    known = kept.campaigns()
    if campaign is not None and campaign not in known:
        raise UserInputError(
            f"there are no votes of campaign {campaign!r}: there are {', '.join(known) or 'none'}. "
            "`slvmeval annotate collect` copies votes from the pages"
        )
    names = known if campaign is None else [campaign]
    thresholds = load_quality_rule(rule)
    votes = kept.votes(names)
    found = quality_of(votes, kept.decisions(names), thresholds)
    alphas: dict[tuple[str, str], float | None] = {}
    for name in names:
        counted = counting((vote for vote in votes if vote.campaign == name), (), FilterRule())
        alphas |= {(name, worker): one.alpha for worker, one in worker_agreement(counted).items()}
    if as_json:
        terminal.print_json(
            {
                "rule": thresholds.model_dump(mode="json"),
                "workers": [_worker_json(one, alphas.get((one.campaign, one.worker))) for one in found],
            }
        )
        return
    shown = [one for one in found if everybody or one.flags or one.decision is not None]
    _print_workers(shown, len(found), alphas, thresholds)


def exclude(
    campaign: WorkersCampaignArgument,
    worker: WorkerArgument,
    note: NoteOption,
    by: ByOption = "",
    database: DatabaseOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Record that a worker is excluded: no further tasks; past votes count unless the rule drops them.

    Example: `slvmeval annotate exclude spring 3f9a --note "C on every pair" --store STORE`
    """
    from storage_schemas.votes import Standing

    _decide(campaign, worker, Standing.EXCLUDED, note, by, database, store, profile)


def clear(
    campaign: WorkersCampaignArgument,
    worker: WorkerArgument,
    note: NoteOption,
    by: ByOption = "",
    database: DatabaseOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Record that a worker is fine: no longer listed for review, and given tasks again.

    Example: `slvmeval annotate clear spring 3f9a --note "slow connection, careful answers" --store STORE`
    """
    from storage_schemas.votes import Standing

    _decide(campaign, worker, Standing.CLEARED, note, by, database, store, profile)


def _decide(
    campaign: str,
    worker: str,
    standing: Standing,
    note: str,
    by: str,
    database: str | None,
    store: Path | None,
    profile: Path | None,
) -> None:
    from tasks.annotation.sync import decide

    made = decide(terminal.open_store(store, profile), database, campaign, worker, standing, note, by)
    terminal.say(
        f"campaign {campaign}: worker {made.worker} is {standing.value}, says {made.by}: {made.note}"
    )


def _worker_json(one: WorkerQuality, alpha: float | None) -> dict[str, object]:
    from dataclasses import asdict

    values = {name: value for name, value in asdict(one).items() if name != "decision"}
    return {
        **values,
        "flags": [flag.value for flag in one.flags],
        "accuracy": one.accuracy,
        "alpha": alpha,
        "decision": None if one.decision is None else one.decision.model_dump(mode="json"),
    }


def _print_workers(
    shown: list[WorkerQuality],
    count: int,
    alphas: dict[tuple[str, str], float | None],
    rule: QualityRule,
) -> None:
    def alpha(one: WorkerQuality) -> str:
        found = alphas.get((one.campaign, one.worker))
        return "-" if found is None else f"{found:.2f}"

    rows = [
        (
            one.worker,
            one.votes,
            f"{one.fast} of {one.timed}",
            f"{one.disagreed} of {one.easy}",
            f"{one.solved} of {one.solvable}",
            f"{one.gold_solved} of {one.gold}" if one.gold else "-",
            alpha(one),
            ", ".join(flag.value for flag in one.flags) or "-",
            "to review" if one.review else one.decision.decision.value if one.decision else "-",
            one.campaign,
        )
        for one in shown
    ]
    columns = (
        "worker",
        "votes",
        "fast",
        "against all",
        "right",
        "gold",
        "alpha",
        "flags",
        "standing",
        "campaign",
    )
    terminal.console().print(terminal.table(f"{len(shown)} of {count} workers", columns, rows, numbers=6))
    reviews = sum(one.review for one in shown)
    terminal.say(f"{reviews} to review: {rule.flags_for_review} flags or more, and nobody has decided yet")


def links(
    campaign: CampaignArgument = None,
    count: Annotated[int, typer.Option("--count", min=1, max=100_000, help="Number of links.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A new CSV file; printed by default."),
    ] = None,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="Whom they are for; it is recorded.")
    ] = "",
    public_url: Annotated[
        str, typer.Option("--public-url", metavar="URL", help="The address that workers use.")
    ] = "http://127.0.0.1:8017",
    database: DatabaseOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Make links for workers; each admits one worker, who may return with it as often as needed.

    They are shown only once: the database has nothing from which a link could be recreated.

    Example: `slvmeval annotate links demo-1 --count 20 --out links.csv --store STORE`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError
    from tasks.annotation.exchange.task_table import checked_address, invitation_link, link_table

    address = checked_address(public_url)
    if out is not None and out.exists():
        raise UserInputError(f"{out} already exists, and its links may have been sent: name a new file")
    if out is not None and not out.absolute().parent.is_dir():
        raise UserInputError(f"there is no folder {out.absolute().parent}")
    with opened_desk(store, profile, database) as (_, desk):
        name = one_campaign(desk, campaign)
        tokens = desk.organiser.invite(name, count, note)
    if out is None:
        terminal.say(*(invitation_link(address, name, token) for token in tokens))
        return
    write_atomic(out, link_table(address, name, tokens, note))
    # anyone with a link can answer as its worker
    out.chmod(0o600)
    terminal.say(f"{count} links of campaign {name} in {out}; each is for one worker")


def erase(
    worker: Annotated[
        str,
        typer.Argument(metavar="[WORKER]", help="Id of the worker, or an unambiguous prefix."),
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
            help="The worker's id there, or a link's token, instead of WORKER.",
        ),
    ] = "",
    campaigns: Annotated[
        list[str] | None,
        typer.Option("--campaign", metavar="NAME", help="Only this one; repeatable."),
    ] = None,
    by: Annotated[
        str,
        typer.Option("--by", metavar="NAME", help="Who does it; by default your login name."),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: DatabaseOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Erase all data of a worker, in all campaigns: votes, times, comments, decisions, events.

    A row of counts without a name stays, and the worker's pairs are shown to others again. Backups and
    exported files
    are not changed; docs/annotation-privacy.md says what they contain.

    Example: `slvmeval annotate erase --platform prolific --identity 5f3c9a --store STORE`
    """
    import getpass
    from dataclasses import asdict

    from storage_schemas.errors import UserInputError
    from storage_schemas.votes import VotesStore
    from tasks.annotation.sync import campaigns_of, erase_worker

    if bool(worker) == bool(identity) or bool(identity) != bool(platform):
        raise typer.BadParameter("give WORKER, or --platform with --identity", param_hint="WORKER")
    with opened_desk(store, profile, database) as (opened, desk):
        files = VotesStore(opened)
        asked = campaigns or []
        whom = _one_worker(desk, files, worker, asked) if worker else desk.workers.name_of(platform, identity)
        found = campaigns_of(desk, files, whom, asked)
        if not found:
            raise UserInputError(f"nothing is stored about worker {whom}{' there' if asked else ''}")
        if not yes:
            _confirm(whom, found)
        done = [erase_worker(desk, files, name, whom, by or getpass.getuser()) for name in found]
    if as_json:
        terminal.print_json([asdict(one) for one in done])
        return
    for one in done:
        terminal.say(*_in_words(one))


def _one_worker(desk: Desk, files: VotesStore, beginning: str, campaigns: Sequence[str]) -> str:
    from storage_schemas.errors import UserInputError
    from tasks.annotation.sync import workers_like

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

    terminal.tell(f"all data of worker {worker} in {', '.join(campaigns)} is erased permanently")
    typed = typer.prompt(f"type {worker[:10]} to go on", err=True, default="", show_default=False)
    if typed.strip() != worker[:10]:
        raise UserInputError("nothing was erased")


def _in_words(one: ErasedWorker) -> list[str]:
    said = [
        f"campaign {one.campaign}: {one.desk_votes} votes, {one.assignments} tasks, {one.events} events and "
        f"{one.decisions} decisions are removed from the database, {one.file_votes} votes and "
        f"{one.file_decisions} decisions out of the store's files"
    ]
    if one.vote_ids:
        said.append(f"  ids of the votes, to look for in your own files: {' '.join(one.vote_ids)}")
    return said
