"""What the commands of ``slvmeval suite prompts`` print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slvmeval.commands import shared

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tasks.evaluators.meta_sets.base import LeftOut
    from tasks.evaluators.prices import Prices
    from tasks.suites.locot2v.prompt_suite.making import Expected, Made

_SHOWN = 10


def summary(made: Sequence[Made], left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """Return what became of the videos, JSON-able."""
    keys = ("prompt_id", "state", "failure", "message", "calls", "tokens_in", "tokens_out", "usd")
    return {
        "prompts": [{key: getattr(one, key) for key in keys} for one in made],
        "left_out": [vars(one) for one in left_out],
        "calls": sum(one.calls for one in made),
        "tokens_in": sum(one.tokens_in for one in made),
        "tokens_out": sum(one.tokens_out for one in made),
        "usd": _dollars(made),
    }


def _dollars(made: Sequence[Made]) -> float | None:
    """Return what was paid; None where a model has no price."""
    costs = [one.usd for one in made]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def print_made(made: Sequence[Made], out: Path) -> None:
    """Print what became of the videos, and what a person does next."""
    from storage_schemas.judgement import Failure

    rows = [
        (
            one.prompt_id,
            one.calls,
            one.tokens_in + one.tokens_out,
            _money(one.usd),
            one.state.replace("_", " "),
            # said once, below
            "" if one.state == "unfinished" else one.message,
        )
        for one in made
    ]
    columns = ("prompt", "calls", "tokens", "$", "state", "why")
    shared.console().print(shared.table(f"{len(made)} prompts", columns, rows, numbers=3))
    states = [one.state for one in made]
    if "unfinished" in states:
        why = made[states.index("unfinished")].message
        shared.say(
            f"warning: {states.count('unfinished')} prompts are not gone on with: {why}",
            "what is kept is not paid for again",
        )
    if "waiting" in states:
        shared.say(
            f"{states.count('waiting')} drafts wait for a person: `slvmeval suite prompts review {out}`, "
            "then this command again"
        )
    if any(one.failure == Failure.NOT_UNDERSTOOD for one in made):
        shared.say(
            "where no answer fitted, more tries go on from there: --set tries=N, with N above the one before"
        )
    shared.say(f"{states.count('ready')} prompts are ready: {out / 'prompts.jsonl'}")


def _money(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:.2f}"


def say_expected(found: Expected, prices: Prices, left_out: Sequence[LeftOut], as_json: bool) -> None:
    """Print what prompts would take."""
    counts = vars(found)
    if as_json:
        rows = [vars(one) for one in left_out]
        shared.print_json({**counts, "prices_as_of": prices.as_of, "left_out": rows})
        return
    shared.say(
        "at most, if each answer fits at once and each round of self-refinement finds something:",
        *(f"{name.replace('_', ' ')}: {count:,.0f}" for name, count in counts.items() if name != "usd"),
        f"$: {_money(found.usd)}",
    )
    if prices.as_of:
        shared.say(f"prices of {prices.as_of}, {prices.source}")
    say_left_out(left_out)


def say_left_out(rows: Sequence[LeftOut], why: str = "left out") -> None:
    """Print the first of what was left out."""
    shared.say(*(f"{why}: {one.where}: {one.message}" for one in rows[:_SHOWN]))
    if len(rows) > _SHOWN:
        shared.say(f"… and {len(rows) - _SHOWN} more")
