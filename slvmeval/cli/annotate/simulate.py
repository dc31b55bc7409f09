"""``slvmeval annotate simulate``: what a campaign would find, cost and keep, before paying anyone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from storage_schemas.model import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.annotation.campaign import Campaign
    from tasks.annotation.simulation import Behaviour, SimulatedCampaign


def register(annotate: typer.Typer) -> None:
    """Add the command."""
    annotate.command()(simulate)


class SimulateOptions(Frozen):
    """Options of `simulate`."""

    workers: Annotated[str, Given(metavar="KIND=COUNT,…")] = Field(
        default="good=95,lazy=5,random=5,always-a=5,contrary=5",
        description="Workers by kind: good, lazy, random, always-a, contrary, late-lazy, tired, left, "
        "copying, colluding, knows-checks, reads-bytes.",
    )
    pairs: int = Field(default=500, ge=1, description="Number of pairs.")
    gold: Annotated[int, Given(by_set=True)] = Field(
        default=12, ge=0, description="Number of additional gold pairs."
    )
    seconds: Annotated[float, Given(by_set=True)] = Field(
        default=200.0, ge=1, description="Total length of a pair's two videos, in seconds."
    )
    settings: Annotated[Path | None, Given(metavar="FILE")] = Field(
        default=None, description="Settings of the campaign (TOML), for its pay."
    )
    runs: Annotated[int, Given(by_set=True)] = Field(
        default=10, ge=1, description="Campaigns to simulate under each rule."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the first run.")
    output: terminal.FormatOption = "table"


def simulate(
    options: SimulateOptions,
) -> None:
    """Simulate campaigns under both rules: which bad workers they find, their cost, and the pairs they keep.

    It needs no store. Workers are listed for review as in `annotate workers`, and excluded at once. Ten runs
    take about a minute.

    Example: `slvmeval annotate simulate --workers good=40,random=3 --pairs 200 --settings campaign.toml`
    """
    from dataclasses import asdict
    from typing import get_args

    from tasks.annotation.campaign import Campaign, load_campaign
    from tasks.annotation.simulation import Crowd, added_up
    from tasks.annotation.simulation import simulate as simulate_one
    from tasks.votes.quality import RuleName

    crowd = Crowd(
        workers=_counts(options.workers), pairs=options.pairs, gold=options.gold, pair_s=options.seconds
    )
    shown = {"release": "simulated", "version": 1}
    campaign = (
        Campaign(name="simulated", **shown)
        if options.settings is None
        else load_campaign(options.settings, "simulated", **shown)
    )
    results = [
        added_up([simulate_one(crowd, rule, options.seed + run) for run in range(options.runs)])
        for rule in get_args(RuleName)
    ]
    pays = [result.answers * campaign.pay_for(options.seconds) / options.runs for result in results]
    rows = [{**asdict(one), "pay_of_a_run": pay} for one, pay in zip(results, pays, strict=True)]
    terminal.show(
        options.output,
        {"runs": options.runs, "seed": options.seed, "currency": campaign.currency, "rules": rows},
        lambda: _print(results, pays, campaign, options.runs),
    )


def _counts(text: str) -> dict[Behaviour, int]:
    from storage_schemas.errors import UsageError
    from tasks.annotation.simulation import Behaviour

    names = {behaviour.value.lower().replace(" ", "-"): behaviour for behaviour in Behaviour}
    counts = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if name not in names or not number.isdecimal():
            raise UsageError(
                f"--workers: {part.strip()!r} is not KIND=COUNT, with a KIND of {', '.join(names)}"
            )
        counts[names[name]] = int(number)
    return counts


def _print(
    results: Sequence[SimulatedCampaign], pays: Sequence[float], campaign: Campaign, runs: int
) -> None:
    from tasks.annotation.campaign import money
    from tasks.annotation.simulation import CLASSES
    from tasks.statistics.intervals import printed_per_cent

    paper, strict = results
    found = [
        (
            kind.value,
            number,
            *(one.in_time[kind] for one in (paper, strict)),
            *(one.listed[kind] for one in (paper, strict)),
        )
        for kind, number in paper.workers.items()
    ]
    columns = ("workers", "number", "paper, in time", "strict, in time", "paper, ever", "strict, ever")
    title = f"workers listed for review by their 8th task or the 10th after a change, and ever; {runs} runs"
    terminal.say(terminal.Grid(title, columns, found, numbers=5))
    rows = [
        (
            one.rule,
            round(one.answers / runs),
            round(one.checks / runs),
            money(pay, campaign.currency) if pay else "-",
            printed_per_cent(one.kept / one.decided) if one.decided else "-",
            printed_per_cent(one.right / one.pairs),
            printed_per_cent(one.clear_kept / one.clear) if one.clear else "-",
        )
        for one, pay in zip(results, pays, strict=True)
    ]
    heads = (
        "rule",
        "answers",
        "checks among them",
        "pay",
        "kept, %",
        "rightly decided, %",
        "clear pairs kept, %",
    )
    terminal.say(terminal.Grid("a campaign", heads, rows, numbers=6))
    certain = [
        (
            f"up to {printed_per_cent(upper)}",
            one.pairs,
            printed_per_cent(one.stated / one.pairs),
            printed_per_cent(one.clear / one.pairs),
        )
        for upper, one in zip(CLASSES, strict.certainty, strict=True)
        if one.pairs
    ]
    titles = ("probability of clear damage, %", "pairs", "mean", "clear, %")
    terminal.say(terminal.Grid("stated certainty, rule strict", titles, certain, numbers=3))
