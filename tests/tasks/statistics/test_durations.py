"""Accuracy by the length of the videos."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.durations import (
    binned_correlation,
    edged_bins,
    equal_count_edges,
    pair_correlation,
    width_bins,
)
from tasks.statistics.trials import Outcome, Trial
from tests.tasks.statistics.making import few, judged, known, outcomes, pair, scored, trial

Timings = list[tuple[float, Outcome]]
timings = st.lists(st.tuples(st.floats(1, 11_000), outcomes), min_size=1, max_size=30)


def timed(rows: Timings) -> list[Trial]:
    return [trial(pair(n, duration_s=seconds), outcome) for n, (seconds, outcome) in enumerate(rows)]


def test_bins_by_hand() -> None:
    rows: Timings = [(99.9, "right"), (100, "wrong"), (150, "right"), (160, "tie"), (420, "failed")]
    result = width_bins(timed([*rows, (520, "right")]))
    assert [(held.low_s, held.high_s, held.pairs, held.accuracy) for held in result] == [
        (0, 100, 1, 1), (100, 200, 3, 0.5), (500, 600, 1, 1)
    ]  # fmt: skip
    assert result[1].mean_duration_s == pytest.approx(410 / 3)
    assert result[1].accuracy in result[1].wilson
    (both,) = width_bins(judged([("right", "wrong")]))
    assert (both.pairs, both.accuracy) == (1, 0.5), "a pair in both orders is counted once"


def test_four_bins_of_about_as_many_pairs() -> None:
    trials = timed([(float(10 * place), "right") for place in range(1, 9)])
    edges = equal_count_edges(held.pair for held in trials)
    assert len(edges) == 5
    assert [held.pairs for held in edged_bins(trials, edges)] == [2, 2, 2, 2]


def test_edges_come_from_pairs_and_not_from_answers() -> None:
    trials = judged([("right", "failed"), ("right", "right"), ("wrong", "wrong")])
    once = {held.pair.pair_id: held.pair for held in trials}.values()
    assert equal_count_edges(held.pair for held in trials) == equal_count_edges(once)


def test_constant_durations_have_one_bin_and_no_correlation() -> None:
    trials = timed([(300, "right"), (300, "wrong")])
    edges = equal_count_edges(held.pair for held in trials)
    assert edges == (300, 301)
    (result,) = edged_bins(trials, edges)
    assert (result.pairs, result.accuracy) == (2, 0.5)
    assert binned_correlation(width_bins(trials)).coefficient is pair_correlation(trials).coefficient is None


def test_an_accuracy_that_falls_with_duration() -> None:
    rows: Timings = [
        (100.0 * step + 10 * place, "right" if place >= step else "wrong")
        for step in range(5)
        for place in range(5)
    ]
    assert binned_correlation(width_bins(timed(rows))).coefficient == pytest.approx(-1)
    by_pair = pair_correlation(timed(rows))
    assert by_pair.n == 25
    assert -1 < known(by_pair.coefficient) < -0.3


def test_no_trials_and_all_failed() -> None:
    for trials in ([], timed([(100, "failed")])):
        assert width_bins(trials) == ()
        assert binned_correlation(width_bins(trials)).coefficient is None
        assert pair_correlation(trials).n == 0


@few
@given(timings, st.sampled_from((50.0, 100.0, 1000.0)))
def test_bins_share_the_pairs_out(rows: Timings, width: float) -> None:
    trials = timed(rows)
    bins = width_bins(trials, width)
    assert sum(held.pairs for held in bins) == sum(outcome != "failed" for _, outcome in rows)
    for held in bins:
        assert held.low_s <= held.mean_duration_s <= held.high_s
        assert held.accuracy in held.wilson
    edges = equal_count_edges(held.pair for held in trials)
    assert sum(held.pairs for held in edged_bins(trials, edges)) == sum(held.pairs for held in bins)


def test_bins_that_make_no_sense() -> None:
    for edges in ([], [1.0], [2.0, 1.0], [1.0, 1.0]):
        with pytest.raises(ValueError, match="edges must ascend"):
            edged_bins(scored(["right"]), edges)
    with pytest.raises(ValueError, match=r"pair-0 of 50\.0 s lies outside"):
        edged_bins(scored(["right"]), [60, 70])
    with pytest.raises(ValueError, match="a bin of 0 s"):
        width_bins([], 0)
    with pytest.raises(ValueError, match="4 bins of 0 pairs"):
        equal_count_edges([])
