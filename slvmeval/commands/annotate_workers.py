"""``slvmeval annotate quality``, ``exclude`` and ``clear``: how well workers look, and decisions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.annotate_shared import DatabaseOption

if TYPE_CHECKING:
    from storage_schemas.vote import Standing
    from tasks.annotation.quality import QualityRule, WorkerQuality

CampaignArgument = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Name of the campaign.")]
WorkerArgument = Annotated[
    str, typer.Argument(metavar="WORKER", help="Id of the worker, or as much of its beginning as is needed.")
]
NoteOption = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; it is kept.")]
ByOption = Annotated[
    str, typer.Option("--by", metavar="NAME", help="Who decides; the name you are logged in with by default.")
]


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate.command()(quality)
    annotate.command()(exclude)
    annotate.command()(clear)


def quality(
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="Name of the campaign; all by default.")
    ] = None,
    rule: Annotated[
        Path | None, typer.Option("--rule", metavar="FILE", help="Thresholds of your own, as TOML.")
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--all", help="Also workers about whom nothing is conspicuous.")
    ] = False,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """List the workers that are to be looked at: too fast, against all others, or mostly wrong.

    It is by the votes that were collected (`annotate collect`). Nobody is excluded by it: `annotate exclude`
    and `annotate clear` write down what a person decides.

    Example: `slvmeval annotate quality spring --store STORE --all`
    """
    from storage_schemas.errors import UserInputError
    from storage_schemas.votes_store import VotesStore
    from tasks.annotation.agreement import worker_agreement
    from tasks.annotation.filter import counting
    from tasks.annotation.quality import load_quality_rule
    from tasks.annotation.quality import quality as quality_of
    from tasks.annotation.rule import FilterRule

    kept = VotesStore(shared.open_store(store, profile))
    known = kept.campaigns()
    if campaign is not None and campaign not in known:
        raise UserInputError(
            f"there are no votes of campaign {campaign!r}: there are {', '.join(known) or 'none'}. "
            "`slvmeval annotate collect` takes votes over from the pages"
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
        shared.print_json(
            {
                "rule": thresholds.model_dump(mode="json"),
                "workers": [_worker_json(one, alphas.get((one.campaign, one.worker))) for one in found],
            }
        )
        return
    shown = [one for one in found if everybody or one.flags or one.decision is not None]
    _print_workers(shown, len(found), alphas, thresholds)


def exclude(
    campaign: CampaignArgument,
    worker: WorkerArgument,
    note: NoteOption,
    by: ByOption = "",
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Write down that a worker is excluded: no further tasks; past votes count unless the rule drops them.

    Example: `slvmeval annotate exclude spring 3f9a --note "C on every pair" --store STORE`
    """
    from storage_schemas.vote import Standing

    _decide(campaign, worker, Standing.EXCLUDED, note, by, database, store, profile)


def clear(
    campaign: CampaignArgument,
    worker: WorkerArgument,
    note: NoteOption,
    by: ByOption = "",
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Write down that a worker is fine: not listed for review any more, and given tasks again.

    Example: `slvmeval annotate clear spring 3f9a --note "slow connection, careful answers" --store STORE`
    """
    from storage_schemas.vote import Standing

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
    from tasks.annotation.deciding import decide

    made = decide(shared.open_store(store, profile), database, campaign, worker, standing, note, by)
    shared.say(f"campaign {campaign}: worker {made.worker} is {standing.value}, says {made.by}: {made.note}")


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
    shared.console().print(shared.table(f"{len(shown)} of {count} workers", columns, rows, numbers=6))
    reviews = sum(one.review for one in shown)
    shared.say(f"{reviews} to review: {rule.flags_for_review} flags or more, and nobody has decided yet")
