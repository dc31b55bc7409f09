from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from storage_schemas.judgements import Failure
from tasks.statistics.cells import cell_of, cells_of, macro_accuracy, order_bias
from tasks.statistics.trials import Outcome, Trial
from tests.tasks.statistics.making import both_orders, few, judged, pair, scored, trial

SWAPPED = {"high_first": "low_first", "low_first": "high_first", "apart": "apart"}


def test_a_cell_by_hand() -> None:
    trials = judged([("right", "right"), ("right", "wrong"), ("failed", "wrong"), ("tie", "right")])
    trials[4] = replace(trials[4], failure=Failure.CUT_OFF)
    cell = cell_of(trials)
    assert (cell.pairs, cell.requests, cell.counted_pairs, cell.n) == (4, 8, 4, 7)
    assert (cell.failed, cell.failures, cell.ties) == (1, (("cut_off", 1),), 1)
    assert cell.accuracy == pytest.approx(4.5 / 7)
    assert cell.paper is not None
    assert cell.paper.high - cell.accuracy == pytest.approx(1.96 * (4.5 * 2.5 / 7**3) ** 0.5)
    assert cell.clustered is not None
    assert cell.clustered.clusters == 4


def test_tie_policies_change_points_and_n() -> None:
    trials = scored(["right", "tie", "wrong"])
    result = [
        (cell_of(trials, ties).accuracy, cell_of(trials, ties).n) for ties in ("half", "wrong", "dropped")
    ]  # type: ignore[arg-type]
    assert result == [(0.5, 3), (pytest.approx(1 / 3), 3), (0.5, 2)]


def test_no_trials_give_an_empty_cell() -> None:
    cell = cell_of([])
    assert (cell.pairs, cell.n, cell.failed) == (0, 0, 0)
    assert cell.accuracy is cell.paper is cell.wilson is cell.clustered is None
    assert cell.order.share_equal is cell.order.first_rate is cell.order.first_interval is None


def test_all_failed_is_counted_and_has_no_accuracy() -> None:
    cell = cell_of(judged([("failed", "failed")] * 3))
    assert (cell.pairs, cell.requests, cell.failed, cell.n, cell.counted_pairs) == (3, 6, 6, 0, 0)
    assert cell.failures == (("unknown", 6),)
    assert cell.accuracy is cell.wilson is None


@pytest.mark.parametrize("outcome", ["right", "wrong"])
def test_one_trial_has_an_interval(outcome: Outcome) -> None:
    cell = cell_of(scored([outcome]))
    assert cell.accuracy == float(outcome == "right")
    assert cell.wilson is not None
    assert cell.wilson.high - cell.wilson.low > 0.75
    assert cell.clustered is not None
    assert (cell.clustered.low, cell.clustered.high) == (cell.wilson.low, cell.wilson.high)


def test_cells_are_by_evaluator_settings_and_aspect() -> None:
    trials = scored(["right", "wrong"]) + scored(["right"], "other")
    trials.append(replace(trials[0], settings="hot"))
    trials.append(trial(pair(9, aspect="aesthetics"), "wrong"))
    cells = cells_of(trials)
    assert list(cells) == [
        (("judge", ""), "color"),
        (("other", ""), "color"),
        (("judge", "hot"), "color"),
        (("judge", ""), "aesthetics"),
    ]
    assert cells[("judge", ""), "color"].accuracy == 0.5


def test_the_average_counts_each_aspect_the_same() -> None:
    large, small = cell_of(scored(["right"] * 9 + ["wrong"])), cell_of(scored(["wrong"] * 2))
    assert macro_accuracy([large, small]) == pytest.approx(0.45)
    assert macro_accuracy([large, cell_of([])]) is None
    assert macro_accuracy([]) is None


@few
@given(both_orders)
def test_an_accuracy_lies_in_its_intervals_and_failures_are_counted(
    outcomes: list[tuple[Outcome, Outcome]],
) -> None:
    trials = judged(outcomes)
    cell = cell_of(trials)
    flat = [outcome for both in outcomes for outcome in both]
    assert cell.failed == flat.count("failed")
    assert cell.n == len(flat) - cell.failed
    for interval in (cell.paper, cell.wilson, cell.clustered):
        if cell.accuracy is None:
            assert interval is None
        else:
            assert interval is not None
            assert cell.accuracy in interval


@few
@given(both_orders)
def test_orders_swapped_give_the_same_accuracy_and_the_mirrored_rate(
    outcomes: list[tuple[Outcome, Outcome]],
) -> None:
    trials = judged(outcomes)
    swapped = judged([(second, first) for first, second in outcomes])
    ours, theirs = cell_of(trials), cell_of(swapped)
    assert ours.accuracy == theirs.accuracy
    assert ours.wilson == theirs.wilson
    assert (ours.order.both, ours.order.equal) == (theirs.order.both, theirs.order.equal)
    assert (ours.order.first, ours.order.second) == (theirs.order.second, theirs.order.first)


def test_order_bias_by_hand() -> None:
    bias = order_bias(
        judged(
            [("right", "right"), ("right", "wrong"), ("wrong", "wrong"), ("tie", "tie"), ("failed", "right")]
        )
    )
    assert (bias.both, bias.equal, bias.share_equal) == (4, 3, 0.75)
    # high first: first, first, second; low first: second, first, first, second
    assert (bias.first, bias.second, bias.ties) == (4, 3, 2)
    assert bias.first_rate == pytest.approx(4 / 7)
    assert bias.first_interval is not None
    assert bias.first_interval.clusters == 4


def test_a_judge_that_always_says_first_is_a_coin_with_a_sure_bias() -> None:
    cell = cell_of(judged([("right", "wrong")] * 20))
    assert cell.accuracy == 0.5
    assert cell.order.share_equal == 0
    assert cell.order.first_rate == 1
    assert cell.order.first_interval is not None
    assert cell.order.first_interval.low > 0.8


def test_scorers_see_no_order() -> None:
    bias = order_bias(scored(["right", "wrong", "tie"]))
    assert (bias.both, bias.first, bias.second, bias.ties) == (0, 0, 0, 0)
    assert bias.first_rate is None


def test_repeats_are_compared_with_their_own_other_order() -> None:
    trials: list[Trial] = []
    for repeat, outcome in enumerate(("right", "wrong")):
        trials += [
            trial(pair(), outcome, "high_first", repeat),  # type: ignore[arg-type]
            trial(pair(), outcome, "low_first", repeat),  # type: ignore[arg-type]
        ]
    assert order_bias(trials).share_equal == 1
