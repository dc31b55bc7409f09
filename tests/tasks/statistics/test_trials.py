"""Judgements become trials, and trials the units that are counted."""

from __future__ import annotations

import pytest
from hypothesis import given

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure, Order
from storage_schemas.pair import PairRecord
from tasks.statistics.trials import (
    TiePolicy,
    expected_requests,
    pair_points,
    points_of,
    settled,
    trial_pair,
    trials_of,
    units_of,
)
from tests.tasks.statistics.making import Both, both_orders, few, judged, judgement, pair, scored, trial

ONE, TWO = pair(1), pair(2)
ORDERS: tuple[Order, Order] = ("high_first", "low_first")


def test_answers_become_outcomes() -> None:
    rows = [
        judgement(ONE, "high", order="low_first", choice="second"),
        judgement(TWO, "low", order="high_first", choice="second"),
        judgement(TWO, "tie", order="low_first", choice="tie"),
        judgement(ONE, None, order="high_first", failure=Failure.CUT_OFF),
    ]
    trials = trials_of(rows, [ONE, TWO])
    assert [held.outcome for held in trials] == ["right", "wrong", "tie", "failed"]
    assert [held.preferred for held in trials] == ["high", "low", "tie", None]
    assert trials[3].failure is Failure.CUT_OFF
    assert (trials[0].pair, trials[0].who) == (ONE, ("judge", "s"))
    assert trials_of([], [ONE]) == ()


@pytest.mark.parametrize(("ties", "points"), [("half", 0.5), ("wrong", 0.0), ("dropped", None)])
def test_what_an_answer_counts(ties: TiePolicy, points: float | None) -> None:
    assert points_of(trial(ONE, "tie"), ties) == points
    assert points_of(trial(ONE, "failed"), ties) is None
    assert (points_of(trial(ONE, "right"), ties), points_of(trial(ONE, "wrong"), ties)) == (1, 0)


def test_a_request_that_failed_first_counts_by_its_answer() -> None:
    failed = judgement(ONE, None, failure=Failure.SERVER_DOWN)
    answered, again = judgement(ONE, "low"), judgement(ONE, "high")
    for rows in ([failed, answered], [answered, failed], [answered, again]):
        assert settled(rows) == [answered]
    later = judgement(ONE, None, failure=Failure.REFUSED)
    assert settled([failed, later]) == [later]


def test_where_both_are_equal_a_tie_is_right() -> None:
    equal = pair(3, gold_tie=True)
    rows = [
        judgement(equal, "tie", order="high_first", choice="tie"),
        judgement(equal, "high", order="low_first", choice="second"),
    ]
    assert [(held.outcome, held.preferred) for held in trials_of(rows, [equal])] == [
        ("right", "tie"),
        ("wrong", "high"),
    ]


def test_a_judgement_of_no_such_pair_is_the_users_matter() -> None:
    with pytest.raises(UserInputError, match="pair-2, which is not among these 1 pairs"):
        trials_of([judgement(TWO, "high")], [ONE])
    with pytest.raises(UserInputError, match="for 'aesthetics', but it is a pair of 'color'"):
        trials_of([judgement(ONE, "high", aspect="aesthetics")], [ONE])


def test_facts_come_from_a_record() -> None:
    facts = {"pair_id": "p", "source_id": "s", "aspect": "color", "high_frames": 90, "fps": 2.0}
    record = PairRecord.model_construct(**facts, clips_degraded=5, strength="paper")
    result = trial_pair(record, kept=True)
    assert (result.duration_s, result.clips, result.strength, result.kept) == (45.0, 5, "paper", True)


def test_a_judges_pair_counts_in_each_order_and_a_scorers_once() -> None:
    units = units_of(judged([("right", "wrong"), ("right", "right")]))
    assert [(unit.order, unit.points) for unit in units] == list(zip(ORDERS * 2, (1, 0, 1, 1), strict=True))
    units = units_of(scored(["right", "tie", "failed"]))
    assert [(unit.order, unit.points) for unit in units] == [(None, 1), (None, 0.5)]
    assert units_of(scored(["tie"]), "dropped") == ()


@pytest.mark.parametrize("ties", ["half", "dropped"])
def test_a_pair_needs_points_in_both_orders(ties: TiePolicy) -> None:
    trials = judged([("failed", "right"), ("right", "right"), ("tie", "right")])
    held = [unit.pair.pair_id for unit in units_of(trials, ties)]
    assert held == ["pair-1"] * 2 + (["pair-2"] * 2 if ties == "half" else [])
    # a run that ended between the two orders of a pair leaves none
    assert len(units_of(trials[:3])) == 0
    assert expected_requests(trials[:3]) == 4


def test_five_peoples_answers_are_one_pair_whatever_they_saw_first() -> None:
    high, low = ORDERS
    trials = [
        trial(pair(), "wrong" if repeat == 2 else "right", order, repeat)
        for repeat, order in enumerate((high, low, low, high, low))
    ]
    (unit,) = units_of(trials)
    assert (unit.order, unit.points) == (None, 0.8)


def test_repeats_are_averaged_within_their_order() -> None:
    trials = [
        trial(pair(), "right" if order == "high_first" or repeat == 0 else "wrong", order, repeat)
        for repeat in range(4)
        for order in ORDERS
    ]
    assert [unit.points for unit in units_of(trials)] == [1.0, 0.25]


def test_evaluators_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="several evaluators"):
        units_of(scored(["right"], "one") + scored(["right"], "other"))


@few
@given(both_orders)
def test_the_order_of_rows_changes_no_points(outcomes: Both) -> None:
    trials = judged(outcomes)
    assert pair_points(trials) == pair_points(trials[::-1])
