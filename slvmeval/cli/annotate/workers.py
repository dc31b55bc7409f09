"""The worker commands of ``slvmeval annotate``: workers, links and erase."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.annotate import status
from slvmeval.cli.annotate.database import one_campaign, opened_desk
from slvmeval.cli.annotate.exchange import CampaignArgument
from slvmeval.cli.declared import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage_schemas.votes import VotesStore
    from tasks.annotation.desk.desk import Desk
    from tasks.annotation.sync import ErasedWorker
    from tasks.votes.quality import QualityRule, WorkerQuality


#: Where the server listens by default.
LOCAL_ADDRESS = "http://127.0.0.1:8017"

CsvOption = Annotated[
    Path | None, Given(("--out",), "FILE"), Field(description="A new CSV file; by default standard output.")
]
NoteOption = Annotated[str, Given(("--note",), "TEXT"), Field(description="Reason, which is recorded.")]
ByOption = Annotated[
    str, Given(("--by",), "NAME"), Field(description="Name to record; by default your login name.")
]


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate.command()(workers)
    status.register(annotate)
    annotate.command()(links)
    annotate.command()(erase)


class WorkersOptions(terminal.DeskParameters):
    """Options of `workers`."""

    campaign: Annotated[str | None, Given(("campaign",), "CAMPAIGN")] = Field(
        default=None, description="Name of the campaign; all by default."
    )
    worker: Annotated[str, Given(("worker",), "WORKER")] = Field(
        default="", description="Only this worker: the id, or an unambiguous prefix."
    )
    standing: Annotated[Literal["excluded", "cleared"] | None, Given(("standing",), "excluded|cleared")] = (
        Field(default=None, description="Your decision, which is recorded.")
    )
    note: Annotated[NoteOption, Given(("--note",), "TEXT")] = ""
    by: ByOption = ""
    rule: Annotated[str | None, Given(metavar="paper|strict|FILE")] = Field(
        default=None,
        description="The paper's indicators, those plus the worker model, or your own thresholds as "
        "TOML; by default each campaign's rule.",
    )
    everybody: Annotated[bool, Given(("--all",))] = Field(
        default=False, description="Include workers without flags."
    )
    output: terminal.FormatOption = "table"


def workers(options: WorkersOptions) -> None:
    """List the workers to review: too fast, disagreeing with all others, mostly wrong, or careless.

    It uses the collected votes (`annotate collect`). Only your decision excludes a worker. excluded: no
    more tasks; past votes count unless the rule drops them. cleared: no longer listed for review, and given
    tasks again.

    Example: `slvmeval annotate workers spring --store STORE --all`

    More: `slvmeval annotate workers spring 3f9a excluded --note "C on every pair" --store STORE`
    """
    if options.standing is None:
        refuse(options, "only with a decision, excluded or cleared", "note", "by", "database")
        _list_workers(options)
    elif not options.note:
        raise typer.BadParameter("give the reason, which is recorded", param_hint="--note")
    else:
        refuse(options, "not with a decision", "rule", "everybody", "output")
        _decide(options, options.standing)


def _list_workers(options: WorkersOptions) -> None:
    from storage_schemas.errors import UserInputError
    from storage_schemas.votes import VotesStore
    from tasks.votes.agreement import worker_agreement
    from tasks.votes.filter import FilterRule, counting
    from tasks.votes.quality import find_quality_rule
    from tasks.votes.quality import quality as quality_of

    files = VotesStore(terminal.open_store(options))
    campaigns = files.campaigns()
    if options.campaign is not None and options.campaign not in campaigns:
        raise UserInputError(
            f"there are no votes of campaign {options.campaign!r} (campaigns with votes: "
            f"{', '.join(campaigns) or 'none'}): `slvmeval annotate collect` copies votes from the pages"
        )
    names = campaigns if options.campaign is None else [options.campaign]
    rules = {name: find_quality_rule(options.rule or files.workers_rule(name) or "strict") for name in names}
    votes = files.votes(names)
    rows = [
        row
        for name, thresholds in rules.items()
        for row in quality_of(files.votes([name]), files.decisions([name]), thresholds)
    ]
    rows.sort(key=lambda one: (not one.review, -len(one.flags), -one.votes))
    alphas: dict[tuple[str, str], float | None] = {}
    for name in names:
        counted = counting((vote for vote in votes if vote.campaign == name), (), FilterRule())
        alphas |= {(name, worker): one.alpha for worker, one in worker_agreement(counted).items()}
    if options.worker:
        rows = [one for one in rows if one.worker.startswith(options.worker)]
        if not rows:
            raise UserInputError(
                f"no worker of {', '.join(names)} has an id with the prefix {options.worker!r}"
            )
    everybody = options.everybody or bool(options.worker)
    listed = [one for one in rows if everybody or one.flags or one.decision is not None]
    terminal.show(
        options.output,
        {
            "rules": {name: one.model_dump(mode="json") for name, one in rules.items()},
            "workers": [_worker_json(one, alphas.get((one.campaign, one.worker))) for one in rows],
        },
        lambda: _print_workers(listed, len(rows), alphas, rules),
    )


def _decide(options: WorkersOptions, standing: Literal["excluded", "cleared"]) -> None:
    """Record that a worker is excluded, or cleared."""
    from storage_schemas.votes import Standing
    from tasks.annotation.sync import decide

    assert options.campaign is not None
    decision = decide(
        terminal.open_store(options),
        options.database,
        options.campaign,
        options.worker,
        Standing(standing),
        options.note,
        options.by,
    )
    terminal.say(
        f"campaign {options.campaign}: worker {decision.worker} is {standing}, decided by "
        f"{decision.by}: {decision.note}"
    )


def _worker_json(one: WorkerQuality, alpha: float | None) -> dict[str, object]:
    from dataclasses import asdict

    values = {name: value for name, value in asdict(one).items() if name != "decision"}
    return {
        **values,
        "flags": [flag.value for flag in one.flags],
        "accuracy": one.accuracy,
        "kind": None if one.kind is None else one.kind.value,
        "alpha": alpha,
        "decision": None if one.decision is None else one.decision.model_dump(mode="json"),
    }


def _of(count: int, all_of_them: int) -> str:
    return f"{count} of {all_of_them}" if all_of_them else "-"


def _print_workers(
    listed: list[WorkerQuality],
    count: int,
    alphas: dict[tuple[str, str], float | None],
    rules: Mapping[str, QualityRule],
) -> None:
    def alpha(one: WorkerQuality) -> str:
        value = alphas.get((one.campaign, one.worker))
        return "-" if value is None else f"{value:.2f}"

    rows = [
        (
            one.worker,
            one.votes,
            _of(one.fast, one.timed),
            _of(one.disagreed, one.easy),
            _of(one.solved, one.solvable),
            _of(one.gold_solved, one.gold),
            alpha(one),
            # a few votes say nothing about a worker
            "-"
            if one.careful is None or one.votes < rules[one.campaign].doubt_least_votes
            else f"{one.careful:.2f}",
            ", ".join(flag.value for flag in one.flags) or "-",
            "to review" if one.review else one.decision.decision.value if one.decision else "-",
            one.campaign,
        )
        for one in listed
    ]
    columns = (
        "worker",
        "votes",
        "fast",
        "disagrees",
        "right",
        "gold",
        "alpha",
        "careful",
        "flags",
        "standing",
        "campaign",
    )
    terminal.say(terminal.Grid(f"{len(listed)} of {count} workers", columns, rows, numbers=7))
    reviews = sum(one.review for one in listed)
    kinds = {(rule.name, rule.flags_for_review): name for name, rule in rules.items()}
    needed = "; ".join(
        f"at least {flags} flags{', or careless' if rule == 'strict' else ''}"
        + (f" (rule {rule})" if len(kinds) > 1 else "")
        for rule, flags in kinds
    )
    terminal.say(f"{reviews} to review: {needed}, and no decision yet")


class LinksOptions(terminal.DeskParameters):
    """Options of `links`."""

    campaign: CampaignArgument = None
    count: int = Field(default=1, ge=1, le=100_000, description="Number of links.")
    out: CsvOption = None
    note: Annotated[str, Given(metavar="TEXT")] = Field(
        default="", description="Recipient of the links, which is recorded."
    )
    public_url: Annotated[str | None, Given(metavar="URL")] = Field(
        default=None,
        description="The address that workers use; by default the campaign's public_url, else this "
        "machine's.",
    )


def links(
    options: LinksOptions,
) -> None:
    """Create links for workers; each admits one worker, who can use it repeatedly.

    Links are shown only once: they cannot be recreated from the database.

    Example: `slvmeval annotate links demo-1 --count 20 --out links.csv --store STORE`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError
    from tasks.annotation.campaign import checked_address
    from tasks.annotation.exchange.task_table import invitation_link, link_table

    given = None if options.public_url is None else checked_address(options.public_url)
    if options.out is not None and options.out.exists():
        raise UserInputError(
            f"{options.out} already exists, and its links may have been sent: name a new file"
        )
    if options.out is not None and not options.out.absolute().parent.is_dir():
        raise UserInputError(f"there is no folder {options.out.absolute().parent}")
    with opened_desk(options) as (_, desk):
        name = one_campaign(desk, options.campaign)
        address = given or desk.campaigns.get(name).public_url or LOCAL_ADDRESS
        tokens = desk.organiser.invite(name, options.count, options.note)
    if address == LOCAL_ADDRESS:
        terminal.tell(
            "note: these links open on this machine only; for others give --public-url https://HOST"
        )
    if options.out is None:
        terminal.say(*(invitation_link(address, name, token) for token in tokens))
        return
    # anyone with a link can answer as its worker
    write_atomic(options.out, link_table(address, name, tokens, options.note), mode=0o600)
    terminal.say(f"{options.count} links of campaign {name} in {options.out}; each admits one worker")


class EraseOptions(terminal.DeskParameters):
    """Options of `erase`."""

    worker: Annotated[str, Given(("worker",), "WORKER|PLATFORM:ID")] = Field(
        description="Id of the worker, or an unambiguous prefix; or the id on a platform: prolific:5f3c9a, "
        "link:TOKEN."
    )
    campaigns: Annotated[tuple[str, ...], Given(("--campaign",), "NAME")] = Field(
        default=(), description="Only this campaign."
    )
    by: ByOption = ""
    yes: bool = Field(default=False, description="Do not ask for confirmation.")
    output: terminal.FormatOption = "table"


def erase(
    options: EraseOptions,
) -> None:
    """Erase all data of a worker, in all campaigns: votes, times, comments, decisions, events.

    A row of counts without a name remains, and the worker's pairs are given to other workers. Backups and
    exported files are not changed; docs/annotation-privacy.md describes what they contain.

    Example: `slvmeval annotate erase prolific:5f3c9a --store STORE`
    """
    from dataclasses import asdict

    from storage_schemas.errors import UserInputError
    from storage_schemas.user import user_name
    from storage_schemas.votes import VotesStore
    from tasks.annotation.sync import campaigns_of, erase_worker

    platform, colon, identity = options.worker.partition(":")
    with opened_desk(options) as (opened, desk):
        files = VotesStore(opened)
        names = list(options.campaigns)
        whom = (
            desk.workers.name_of(platform, identity)
            if colon
            else _one_worker(desk, files, options.worker, names)
        )
        affected = campaigns_of(desk, files, whom, names)
        if not affected:
            raise UserInputError(
                f"no data of worker {whom} is stored{' in these campaigns' if names else ''}"
            )
        if not options.yes:
            _confirm(whom, affected)
        done = [erase_worker(desk, files, name, whom, options.by or user_name()) for name in affected]
    terminal.show(
        options.output, [asdict(one) for one in done], *(line for one in done for line in _in_words(one))
    )


def _one_worker(desk: Desk, files: VotesStore, prefix: str, campaigns: Sequence[str]) -> str:
    from storage_schemas.errors import UserInputError
    from tasks.annotation.sync import workers_like

    matches = workers_like(desk, files, prefix, campaigns)
    if prefix in matches:
        return prefix
    if len(matches) != 1:
        raise UserInputError(
            f"{len(matches)} workers have an id with the prefix {prefix!r}: `slvmeval annotate workers "
            "--all` and the organiser's pages list them"
        )
    return matches[0]


def _confirm(worker: str, campaigns: Sequence[str]) -> None:
    from storage_schemas.errors import UserInputError

    terminal.tell(f"this permanently erases all data of worker {worker} in {', '.join(campaigns)}")
    typed = typer.prompt(f"type {worker[:10]} to continue", err=True, default="", show_default=False)
    if typed.strip() != worker[:10]:
        raise UserInputError("nothing was erased")


def _in_words(one: ErasedWorker) -> list[str]:
    lines = [
        f"campaign {one.campaign}: {one.desk_votes} votes, {one.assignments} tasks, {one.events} events and "
        f"{one.decisions} decisions removed from the database, {one.file_votes} votes and "
        f"{one.file_decisions} decisions from the store's files"
    ]
    if one.vote_ids:
        lines.append(f"  ids of the votes, for searching your own files: {' '.join(one.vote_ids)}")
    return lines
