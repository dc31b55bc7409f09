"""``slvmeval annotate status``: a campaign's dashboard in the terminal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.annotate.database import opened_desk
from slvmeval.cli.annotate.exchange import CampaignArgument

if TYPE_CHECKING:
    from datetime import datetime

    from slvmeval.web.annotation.organiser.campaign_state import CampaignState
    from tasks.annotation.progress import AspectProgress

_BAR = 24


def register(annotate: typer.Typer) -> None:
    """Add the command."""
    annotate.command()(status)


class StatusOptions(terminal.DeskParameters):
    """Options of `status`."""

    campaign: CampaignArgument = None
    rate: Annotated[float | None, Given(metavar="AMOUNT", by_set=True)] = Field(
        default=None, ge=0, description="Pay per task, for the cost; by default the campaign's rate."
    )
    output: terminal.FormatOption = "table"


def status(
    options: StatusOptions,
) -> None:
    """Show the progress of campaigns: votes by aspect, pace, estimated end, cost and agreement.

    Example: `slvmeval annotate status demo-1 --store STORE --set rate=0.60`
    """
    from slvmeval.web.annotation.organiser.rating_state import read_state
    from tasks.annotation.desk.database import utc

    with opened_desk(options) as (_, desk):
        selected = [desk.campaigns.get(options.campaign)] if options.campaign else desk.campaigns.all()
        states = [read_state(desk, one, utc(), options.rate) for one in selected]
    terminal.show(
        options.output,
        [_json(one) for one in states],
        *(partial(_print, one) for one in states),
        *([] if states else ["nothing is published yet: slvmeval annotate publish"]),
    )


def _print(state: CampaignState) -> None:
    campaign, now, words = state.campaign, state.progress, state.campaign.words
    columns = (words.group, "", words.answers, f"{words.tasks} with all", "open", "alpha")
    rows = [_cells(row, state.alphas.get(row.aspect)) for row in (*now.aspects, now.total)]
    terminal.say(terminal.Grid(f"{campaign.name}: {campaign.shows}", columns, rows))
    terminal.say(*_lines(state))
    if state.trouble:
        trouble = [(one.what, one.times, one.mostly) for one in state.trouble]
        terminal.say(
            terminal.Grid("refused and corrected", ("what", "count", "usual cause"), trouble, numbers=1)
        )


def _cells(row: AspectProgress, alpha: float | None) -> tuple[str, ...]:
    filled = int(_BAR * row.share)
    return (
        row.aspect or "all",
        "█" * filled + "·" * (_BAR - filled),
        f"{row.votes} of {row.wanted}",
        f"{row.done} of {row.pairs}",
        str(row.leases),
        "-" if alpha is None else f"{alpha:.2f}",
    )


def _lines(state: CampaignState) -> list[str]:
    from tasks.annotation.campaign import money

    now, people, words = state.progress, state.people, state.campaign.words
    shown, what = words.tasks, words.answers
    lines = [
        f"workers: {people.entered} entered, {people.answered} answered, {people.excluded} excluded, "
        f"{people.to_review} to review",
        *([f"besides: {people.in_words}"] if people.in_words else []),
        *state.lines,
    ]
    if now.pace is None:
        lines.append(f"pace: unknown until half an hour after the first of the {what}")
    else:
        low, high = 24 * now.pace.low, 24 * now.pace.high
        lines.append(f"pace: {now.pace.per_day:.0f} {what} per day, probably {low:.0f} to {high:.0f}")
    if now.done:
        lines.append(f"end: all {shown} have the {what} they need")
    elif now.end is None:
        lines.append("end: unknown")
    else:
        late = "an unknown date" if now.end.late is None else _time(now.end.late)
        lines.append(f"end: {_time(now.end.at)}, between {_time(now.end.early)} and {late}")
    cost = now.cost
    if cost.rate:
        besides = f" ({money(cost.extras, cost.currency)} besides {what})" if cost.extras else ""
        per = "hour of expected time" if cost.per == "hour" else "task"
        lines.append(
            f"cost: {money(cost.so_far, cost.currency)} so far{besides}, "
            f"{money(cost.to_end, cost.currency)} still to come, {money(cost.rate, cost.currency)} per {per}"
        )
    if now.measured_s is not None and now.expected_s is not None:
        lines.append(
            f"time of a task: {now.measured_s:.0f} s measured, {now.expected_s:.0f} s expected (medians)"
        )
    if now.last_vote:
        lines.append(f"newest: {_time(now.last_vote)}")
    if state.still_hours:
        lines.append(f"there has been no {words.answer} for {state.still_hours} hours")
    return lines


def _time(moment: datetime) -> str:
    return moment.astimezone().strftime("%a %Y-%m-%d %H:%M")


def _json(state: CampaignState) -> dict[str, Any]:
    from dataclasses import asdict

    def iso(moment: datetime | None) -> str | None:
        return None if moment is None else moment.isoformat(timespec="seconds")

    now = state.progress
    return {
        "campaign": state.campaign.model_dump(mode="json", exclude={"guides"}),
        "at": iso(now.at),
        "done": now.done,
        "total": asdict(now.total),
        f"{state.campaign.words.group}s": [
            {**asdict(row), "alpha": state.alphas.get(row.aspect)} for row in now.aspects
        ],
        "alpha": state.alphas.get(""),
        "answered": now.answered,
        "gold_votes": now.gold_votes,
        "from_files": now.from_files,
        "tasks_left": now.tasks_left,
        "last_vote": iso(now.last_vote),
        "pace": None if now.pace is None else asdict(now.pace),
        "end": None
        if now.end is None
        else {"at": iso(now.end.at), "early": iso(now.end.early), "late": iso(now.end.late)},
        "cost": {**asdict(now.cost), "total": now.cost.total},
        "expected_s": now.expected_s,
        "measured_s": now.measured_s,
        "workers": asdict(state.people),
        "trouble": [asdict(one) for one in state.trouble],
        **state.plain,
    }
