"""Pairs, judgements and trials for the tests of the statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from storage_schemas.judgements import Choice, Judgement, Order, Preferred
from tasks.statistics.trials import Outcome, Trial, TrialPair

Value = TypeVar("Value")
#: Outcomes of pairs, high first and low first.
Both = list[tuple[Outcome, Outcome]]

PREFERRED: dict[Outcome, Preferred | None] = {"right": "high", "wrong": "low", "tie": "tie", "failed": None}
CHOICES: dict[tuple[Order, Outcome], Choice] = {
    ("high_first", "right"): "first",
    ("high_first", "wrong"): "second",
    ("low_first", "right"): "second",
    ("low_first", "wrong"): "first",
    ("high_first", "tie"): "tie",
    ("low_first", "tie"): "tie",
}


def known(value: Value | None) -> Value:
    """Return what must be there."""
    assert value is not None
    return value


def pair(number: int = 0, **more: Any) -> TrialPair:
    values: dict[str, Any] = {"aspect": "color", "duration_s": 100.0 * number + 50}
    return TrialPair(**{"pair_id": f"pair-{number}", "source_id": f"source-{number}", **values, **more})


def trial(
    of: TrialPair, outcome: Outcome, order: Order = "apart", repeat: int = 0, evaluator: str = "judge"
) -> Trial:
    return Trial(evaluator, "", of, order, repeat, PREFERRED[outcome], CHOICES.get((order, outcome)))


def scored(outcomes: Iterable[Outcome], evaluator: str = "judge") -> list[Trial]:
    """One trial a pair, each of a source of its own, as a scorer gives them."""
    return [trial(pair(number), outcome, evaluator=evaluator) for number, outcome in enumerate(outcomes)]


def judged(outcomes: Sequence[tuple[Outcome, Outcome]], evaluator: str = "judge") -> list[Trial]:
    """Two trials a pair, high first and low first."""
    orders: tuple[Order, Order] = ("high_first", "low_first")
    return [
        trial(pair(number), outcome, order, evaluator=evaluator)
        for number, both in enumerate(outcomes)
        for order, outcome in zip(orders, both, strict=True)
    ]


def judgement(of: TrialPair, preferred: Preferred | None, **more: Any) -> Judgement:
    key = f"{of.pair_id}-{more.get('order', 'apart')}-{more.get('repeat', 0)}"
    which = {"pair_id": of.pair_id, "source_id": of.source_id, "aspect": of.aspect}
    values: dict[str, Any] = {"evaluator": "judge", "settings": "s", "order": "apart", "key": key, **which}
    return Judgement(**{**values, "preferred": preferred, **more})


#: Enough for properties of small tables; a busy machine is not a failure.
few = settings(max_examples=40, deadline=None)
outcomes = st.sampled_from(("right", "wrong", "tie", "failed"))
both_orders = st.lists(st.tuples(outcomes, outcomes), min_size=1, max_size=30)
