"""Preferences: Brier, AUC and calibration by hand and against SciPy, and no order bias in the mean."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from storage_schemas.judgements import Judgement
from tasks.statistics.preferences import auc, calibration_curve, pair_preferences, summarise
from tasks.statistics.trials import Trial, trials_of
from tests.tasks.statistics.making import few, judgement, known, pair, trial

shares = st.floats(0.01, 0.99)


def preferring(*pairs: tuple[float, float], sources: int = 1000) -> list[Trial]:
    """Return two trials a pair, with the probability of "first" high first and low first."""
    made = []
    for number, (high_first, low_first) in enumerate(pairs):
        of = pair(number, source_id=f"source-{number % sources}")
        right = high_first > 0.5, low_first < 0.5
        made.append(replace(trial(of, "right" if right[0] else "wrong", "high_first"), p_first=high_first))
        made.append(replace(trial(of, "right" if right[1] else "wrong", "low_first"), p_first=low_first))
    return made


def test_a_row_with_p_first_gives_a_preference_and_one_without_none() -> None:
    rows: list[Judgement] = [
        judgement(pair(0), "high", order="high_first", choice="first", details='{"p_first":0.9}'),
        judgement(pair(0), "low", order="low_first", choice="first", details='{"p_first":0.6}'),
        judgement(pair(1), "high", order="high_first", choice="first"),
    ]
    trials = trials_of(rows, [pair(0), pair(1)])
    (found,) = pair_preferences(trials)
    assert (found.high_first, found.low_first, found.mean) == pytest.approx((0.9, 0.4, 0.65))
    assert summarise(trials[2:]) is None
    assert known(summarise(trials)).requests == 2


def test_brier_and_accuracies_by_hand() -> None:
    found = known(summarise(preferring((0.9, 0.6), (0.7, 0.2), (0.3, 0.9), (0.5, 0.5))))
    errors = [0.1, 0.6, 0.3, 0.2, 0.7, 0.9, 0.5, 0.5]
    assert (found.requests, found.pairs) == (8, 4)
    assert found.brier.value == pytest.approx(fmean(error**2 for error in errors))
    assert found.free_brier.value == pytest.approx(fmean([0.35**2, 0.25**2, 0.8**2, 0.25]))
    assert found.free_accuracy.value == pytest.approx(2.5 / 4)
    assert known(found.brier.value) in known(found.brier.interval)
    assert known(found.free_accuracy.value) in known(found.free_accuracy.interval)
    alone = known(summarise(preferring((0.9, 0.6))[:1]))
    assert (alone.pairs, alone.free_accuracy.value, alone.auc.value) == (0, None, None)


@few
@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=20), st.floats(-0.3, 0.3))
def test_order_free_preference_has_no_bias(given_: list[tuple[float, float]], bias: float) -> None:
    def means(shift: float) -> list[float]:
        moved = [(high + shift, low + shift) for high, low in given_]
        return [one.mean for one in pair_preferences(preferring(*moved))]

    assert means(bias) == pytest.approx(means(0.0))


@few
@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7]), shares), min_size=1, max_size=30))
def test_the_area_is_mann_and_whitneys(given_: list[tuple[float, float]]) -> None:
    first, second = ([one[place] for one in given_] for place in (0, 1))
    expected = mannwhitneyu(first, second).statistic / len(given_) ** 2
    assert known(summarise(preferring(*given_))).auc.value == pytest.approx(expected)


def test_the_interval_of_an_area_covers_it_with_sources_alike() -> None:
    """The truth is the area of two normal distributions one apart, Φ(1/√2), with noise by source."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(300):
        noise = np.repeat(rng.normal(0, 0.7, 40), 6)
        truth = np.tile([True, False], 120)
        scores = noise + rng.normal(0, 0.51**0.5, 240) + truth
        found = auc(scores, truth, [str(number // 6) for number in range(240)])
        inside += 0.7602 in known(found.interval)
    assert 0.92 <= inside / 300 <= 0.98


def test_an_area_of_one_keeps_a_width() -> None:
    found = known(summarise(preferring(*[(0.9, 0.1)] * 5))).auc
    assert found.value == 1
    assert 0.5 < known(found.interval).low < 0.6
    assert known(found.interval).high == 1
    assert auc(np.array([0.9, 0.1]), np.array([True, False]), ["a", "a"]).interval is None


def test_calibration_counts_how_often_the_first_is_better() -> None:
    low, middle, high = calibration_curve(preferring((0.92, 0.14), (0.98, 0.55), (0.55, 0.95), (1.0, 0.14)))
    assert (low.requests, low.observed, low.predicted) == (2, 0, pytest.approx(0.14))
    assert (middle.low, middle.high, middle.observed) == (0.5, 0.6, 0.5)
    assert (high.requests, high.observed, high.predicted) == (4, 0.75, pytest.approx(0.9625))
    assert 0.75 in high.clustered
