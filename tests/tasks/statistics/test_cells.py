"""Accuracy, intervals and order bias of a table's cells."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from storage_schemas.judgements import Failure, Order
from tasks.statistics.cells import cell_of, cells_of, macro_accuracy, order_bias
from tasks.statistics.trials import Outcome, TiePolicy
from tests.tasks.statistics.making import Both, both_orders, few, judged, known, pair, scored, trial


def test_a_cell_by_hand() -> None:
    trials = judged([("right", "right"), ("right", "wrong"), ("failed", "wrong"), ("tie", "right")])
    trials[4] = replace(trials[4], failure=Failure.CUT_OFF)
    cell = cell_of(trials)
    assert (cell.pairs, cell.requests, cell.counted_pairs, cell.n) == (4, 8, 4, 7)
    assert (cell.failed, cell.failures, cell.ties) == (1, (("cut_off", 1),), 1)
    assert cell.accuracy == pytest.approx(4.5 / 7)
    assert known(cell.paper).high - cell.accuracy == pytest.approx(1.96 * (4.5 * 2.5 / 7**3) ** 0.5)
    assert known(cell.clustered).clusters == 4


@pytest.mark.parametrize(
    ("ties", "accuracy", "n"), [("half", 0.5, 3), ("wrong", 1 / 3, 3), ("dropped", 0.5, 2)]
)
def test_tie_policies_change_points_and_n(ties: TiePolicy, accuracy: float, n: int) -> None:
    cell = cell_of(scored(["right", "tie", "wrong"]), ties)
    assert (cell.accuracy, cell.n) == (pytest.approx(accuracy), n)


def test_nothing_and_all_failed_have_no_accuracy() -> None:
    cell = cell_of([])
    assert (cell.pairs, cell.n, cell.failed) == (0, 0, 0)
    assert cell.accuracy is cell.paper is cell.wilson is cell.clustered is None
    assert cell.order.share_equal is cell.order.first_rate is cell.order.first_interval is None
    cell = cell_of(judged([("failed", "failed")] * 3))
    assert (cell.pairs, cell.requests, cell.failed, cell.n, cell.counted_pairs) == (3, 6, 6, 0, 0)
    assert cell.failures == (("unknown", 6),)
    assert cell.accuracy is cell.wilson is None


@pytest.mark.parametrize("outcome", ["right", "wrong"])
def test_one_trial_has_an_interval(outcome: Outcome) -> None:
    cell = cell_of(scored([outcome]))
    wilson, clustered = known(cell.wilson), known(cell.clustered)
    assert cell.accuracy == float(outcome == "right")
    assert wilson.high - wilson.low > 0.75
    assert (clustered.low, clustered.high) == (wilson.low, wilson.high)


def test_cells_are_by_evaluator_settings_and_aspect() -> None:
    trials = scored(["right", "wrong"]) + scored(["right"], "other")
    trials += [replace(trials[0], settings="hot"), trial(pair(9, aspect="aesthetics"), "wrong")]
    cells = cells_of(trials)
    judge = ("judge", "")
    assert list(cells) == [
        (judge, "color"), (("other", ""), "color"), (("judge", "hot"), "color"), (judge, "aesthetics")
    ]  # fmt: skip
    assert cells[judge, "color"].accuracy == 0.5


def test_the_average_counts_each_aspect_the_same() -> None:
    large, small = cell_of(scored(["right"] * 9 + ["wrong"])), cell_of(scored(["wrong"] * 2))
    assert macro_accuracy([large, small]) == pytest.approx(0.45)
    assert macro_accuracy([large, cell_of([])]) is macro_accuracy([]) is None


@few
@given(both_orders)
def test_an_accuracy_lies_in_its_intervals_whichever_order_comes_first(outcomes: Both) -> None:
    ours, theirs = cell_of(judged(outcomes)), cell_of(judged([(second, first) for first, second in outcomes]))
    flat = [outcome for both in outcomes for outcome in both]
    assert ours.failed == flat.count("failed")
    assert ours.n == len(flat) - ours.failed
    for interval in (ours.paper, ours.wilson, ours.clustered):
        assert (interval is None) == (ours.accuracy is None)
        assert interval is None or ours.accuracy in interval
    assert (ours.accuracy, ours.wilson) == (theirs.accuracy, theirs.wilson)
    assert (ours.order.both, ours.order.equal) == (theirs.order.both, theirs.order.equal)
    assert (ours.order.first, ours.order.second) == (theirs.order.second, theirs.order.first)


def test_order_bias_by_hand() -> None:
    answers: Both = [
        ("right", "right"), ("right", "wrong"), ("wrong", "wrong"), ("tie", "tie"), ("failed", "right")
    ]  # fmt: skip
    bias = order_bias(judged(answers))
    assert (bias.both, bias.equal, bias.share_equal) == (4, 3, 0.75)
    # high first: first, first, second; low first: second, first, first, second
    assert (bias.first, bias.second, bias.ties) == (4, 3, 2)
    assert bias.first_rate == pytest.approx(4 / 7)
    assert known(bias.first_interval).clusters == 4


def test_a_judge_that_always_says_first_is_a_coin_with_a_sure_bias() -> None:
    cell = cell_of(judged([("right", "wrong")] * 20))
    assert (cell.accuracy, cell.order.share_equal, cell.order.first_rate) == (0.5, 0, 1)
    assert known(cell.order.first_interval).low > 0.8


def test_scorers_see_no_order() -> None:
    bias = order_bias(scored(["right", "wrong", "tie"]))
    assert (bias.both, bias.first, bias.second, bias.ties, bias.first_rate) == (0, 0, 0, 0, None)


def test_repeats_are_compared_with_their_own_other_order() -> None:
    results: tuple[Outcome, Outcome] = ("right", "wrong")
    orders: tuple[Order, Order] = ("high_first", "low_first")
    trials = [trial(pair(), result, order, n) for n, result in enumerate(results) for order in orders]
    assert order_bias(trials).share_equal == 1
