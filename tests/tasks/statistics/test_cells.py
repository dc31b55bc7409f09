"""Accuracy, intervals and order bias of a table's cells."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from storage_schemas.judgements import Failure, Order
from tasks.statistics.cells import cell_of, cells_of, macro_mean, order_bias
from tasks.statistics.intervals import Interval
from tasks.statistics.trials import FailurePolicy, Outcome, TiePolicy, failures_count
from tests.tasks.statistics.making import Both, both_orders, few, judged, known, pair, scored, trial


def test_a_cell_by_hand() -> None:
    trials = judged([("right", "right"), ("right", "wrong"), ("failed", "wrong"), ("tie", "right")])
    trials[4] = replace(trials[4], failure=Failure.CUT_OFF)
    cell = cell_of(trials, pairs=6)
    assert (cell.pairs, cell.requests, cell.counted_pairs, cell.n) == (4, 8, 3, 6)
    assert (cell.failed, cell.failures, cell.ties) == (1, (("cut_off", 1),), 1)
    # the pair with a failed order does not count, unless failures do
    assert cell.accuracy == pytest.approx(4.5 / 6)
    assert known(cell.bounds) == Interval(4.5 / 8, 5.5 / 8)
    assert cell.accuracy - known(cell.paper).low == pytest.approx(1.96 * (4.5 * 1.5 / 6**3) ** 0.5)
    assert known(cell.clustered).clusters == 3
    # two pairs were never asked
    assert (cell.expected, cell.not_asked, cell.coverage) == (12, 4, 7 / 12)


def test_first_in_one_order_and_silence_in_the_other_is_not_accuracy() -> None:
    cell = cell_of(judged([("right", "failed")] * 20))
    assert (cell.accuracy, cell.coverage, cell.bounds) == (None, 0.5, Interval(0.5, 1.0))


@pytest.mark.parametrize(
    ("policy", "accuracy", "coverage"), [("ignored", 14 / 15, 15 / 20), ("half", 0.825, 1), ("wrong", 0.7, 1)]
)
def test_failures_on_hard_pairs_do_not_help(policy: FailurePolicy, accuracy: float, coverage: float) -> None:
    trials = scored(["right"] * 14 + ["wrong"] + ["failed"] * 5)
    cell = cell_of(failures_count(trials, policy))
    assert (cell.accuracy, cell.coverage) == (pytest.approx(accuracy), coverage)
    assert (cell.failed, known(cell.bounds)) == (5, Interval(0.7, 0.95))


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
    small = [replace(one, pair=replace(one.pair, aspect="style")) for one in scored(["wrong"] * 2)]
    trials = scored(["right"] * 9 + ["wrong"]) + small
    mean = known(macro_mean(trials, ["color", "style"]))
    assert mean.accuracy == pytest.approx(0.45)
    assert mean.accuracy in mean.clustered
    assert mean.clustered.clusters == 10
    assert macro_mean(trials, ["color", "scene"]) is macro_mean(trials, []) is None


def test_a_mean_of_one_aspect_has_its_own_interval() -> None:
    trials = judged([("right", "right")] * 9 + [("right", "wrong")] * 2 + [("wrong", "wrong")] * 4)
    mean, cell = known(macro_mean(trials, ["color"])), cell_of(trials)
    ours, theirs = mean.clustered, known(cell.clustered)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)


@few
@given(both_orders)
def test_an_accuracy_lies_in_its_intervals_whichever_order_comes_first(outcomes: Both) -> None:
    ours, theirs = cell_of(judged(outcomes)), cell_of(judged([(second, first) for first, second in outcomes]))
    flat = [outcome for both in outcomes for outcome in both]
    assert ours.failed == flat.count("failed")
    assert ours.n == 2 * sum("failed" not in both for both in outcomes)
    assert ours.coverage == pytest.approx(1 - ours.failed / len(flat))
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
