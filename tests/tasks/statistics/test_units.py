from __future__ import annotations

import pytest
from hypothesis import given

from storage_schemas.judgements import Order
from tasks.statistics.trials import Trial, pair_points, units_of
from tests.tasks.statistics.making import both_orders, few, judged, pair, scored, trial


def test_a_pair_in_both_orders_counts_twice() -> None:
    units = units_of(judged([("right", "wrong"), ("right", "right")]))
    assert [unit.points for unit in units] == [1, 0, 1, 1]
    assert [unit.order for unit in units] == ["high_first", "low_first"] * 2


def test_a_scorers_pair_counts_once() -> None:
    units = units_of(scored(["right", "tie", "failed"]))
    assert [(unit.order, unit.points) for unit in units] == [(None, 1), (None, 0.5)]


def test_five_peoples_answers_are_one_pair_whatever_they_saw_first() -> None:
    orders: list[Order] = ["high_first", "low_first", "low_first", "high_first", "low_first"]
    rights = [True, True, False, True, True]
    trials = [
        trial(pair(), "right" if right else "wrong", order, repeat)
        for repeat, (order, right) in enumerate(zip(orders, rights, strict=True))
    ]
    (unit,) = units_of(trials)
    assert (unit.order, unit.points) == (None, 0.8)


def test_repeats_are_averaged_within_their_order() -> None:
    orders: tuple[Order, Order] = ("high_first", "low_first")
    trials = [
        trial(pair(), "right" if order == "high_first" or repeat == 0 else "wrong", order, repeat)
        for repeat in range(4)
        for order in orders
    ]
    assert [unit.points for unit in units_of(trials)] == [1.0, 0.25]


def test_a_failed_order_leaves_the_other() -> None:
    (unit,) = units_of(judged([("failed", "wrong")]))
    assert (unit.order, unit.points) == ("low_first", 0)


def test_a_dropped_tie_leaves_no_unit() -> None:
    assert units_of(scored(["tie"]), "dropped") == ()


def test_evaluators_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="several evaluators"):
        units_of(scored(["right"], "one") + scored(["right"], "other"))


@few
@given(both_orders)
def test_the_order_of_rows_changes_no_points(outcomes: list[tuple[str, str]]) -> None:
    trials: list[Trial] = judged(outcomes)  # type: ignore[arg-type]
    assert pair_points(trials) == pair_points(trials[::-1])
