"""Intervals of an accuracy against textbooks, statsmodels and a bootstrap, and how they are printed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.intervals import (
    clustered_interval,
    clustered_variance,
    paper_half_width,
    paper_interval,
    printed_per_cent,
    wilson_interval,
)
from tests.tasks.statistics.making import few, known

point = st.sampled_from((0.0, 0.5, 1.0))
points = st.lists(point, min_size=1, max_size=40)


def test_the_papers_interval_by_hand() -> None:
    # 1.96 · √(0.25 / 100)
    assert paper_half_width(0.5, 100) == pytest.approx(0.098)
    result = known(paper_interval(0.99, 100))
    assert (result.low, result.high) == (pytest.approx(0.99 - 0.019501, abs=1e-6), 1.0)


def test_wilsons_interval_of_a_textbook() -> None:
    # Newcombe 1998, table I: 81 of 263 is 0.2553 to 0.3662, 0 of 20 is 0 to 0.1611
    first, second = known(wilson_interval(81 / 263, 263)), known(wilson_interval(0.0, 20))
    assert (round(first.low, 4), round(first.high, 4)) == (0.2553, 0.3662)
    assert (second.low, round(second.high, 4)) == (0.0, 0.1611)


@pytest.mark.parametrize("points, n", [(3, 7), (12.5, 40), (0.5, 12.25), (40, 40)])
def test_wilsons_interval_is_that_of_statsmodels(points: float, n: float) -> None:
    from statsmodels.stats.proportion import proportion_confint

    result = known(wilson_interval(points / n, n))
    expected = proportion_confint(points, n, method="wilson")
    assert (result.low, result.high) == pytest.approx(expected, abs=1e-12)


def test_nothing_has_no_interval() -> None:
    assert paper_half_width(0.5, 0) is paper_interval(None, 0) is wilson_interval(None, 0) is None
    assert clustered_interval([], []) is None


def test_all_right_has_a_width_with_wilson_only() -> None:
    paper = known(paper_interval(1.0, 10))
    assert (paper.low, paper.high) == (1.0, 1.0)
    # 1 / (1 + z²/n)
    assert known(wilson_interval(1.0, 10)).low == pytest.approx(10 / (10 + 1.959964**2), abs=1e-6)


@few
@given(st.integers(0, 200), st.integers(1, 200))
def test_the_accuracy_lies_in_its_intervals(right: int, n: int) -> None:
    accuracy = min(right, n) / n
    for interval in (known(paper_interval(accuracy, n)), known(wilson_interval(accuracy, n))):
        assert accuracy in interval
        assert 0 <= interval.low <= interval.high <= 1


@few
@given(points, st.integers(2, 4))
def test_copies_of_a_value_say_nothing_new(values: list[float], copies: int) -> None:
    n, total = len(values), len(values) * copies
    plain = known(wilson_interval(sum(values) / n, n))
    once = known(clustered_interval(values, range(n)))
    often = known(clustered_interval(values * copies, [*range(n)] * copies))
    # one value a cluster is the plain interval
    assert (once.low, once.high) == (pytest.approx(plain.low), pytest.approx(plain.high))
    assert once.effective_n == n
    # the variances have n − 1 and total − 1 degrees of freedom
    expected = n if len(set(values)) == 1 else total * (n - 1) / (total - 1)
    assert often.effective_n == pytest.approx(expected)
    assert often.effective_n <= n + 1e-9
    assert often.high - often.low >= once.high - once.low - 1e-9


@few
@given(st.lists(st.tuples(point, st.integers(0, 6)), min_size=1, max_size=40))
def test_clusters_never_make_an_interval_narrower(rows: list[tuple[float, int]]) -> None:
    values, clusters = [value for value, _ in rows], [cluster for _, cluster in rows]
    clustered = known(clustered_interval(values, clusters))
    plain = known(wilson_interval(sum(values) / len(values), len(values)))
    assert sum(values) / len(values) in clustered
    assert 1 <= clustered.effective_n <= len(values)
    assert clustered.high - clustered.low >= plain.high - plain.low - 1e-9


def test_the_clustered_variance_is_that_of_statsmodels() -> None:
    from statsmodels.regression.linear_model import OLS

    rng = np.random.default_rng(7)
    clusters = rng.integers(0, 12, 60)
    values = (rng.random(60) < 0.3 + 0.05 * clusters).astype(float)
    how = {"groups": clusters, "use_correction": False}
    fit = OLS(values, np.ones(60)).fit(cov_type="cluster", cov_kwds=how)
    groups = len(set(clusters.tolist()))
    expected = fit.bse[0] ** 2 * groups / (groups - 1)
    assert clustered_variance(values, clusters.tolist()) == pytest.approx(expected)


def test_the_clustered_variance_is_that_of_a_cluster_bootstrap() -> None:
    rng = np.random.default_rng(11)
    level = rng.random(40)
    values = (rng.random((40, 5)) < level[:, None]).astype(float)
    means = values.mean(1)[rng.integers(0, 40, (4000, 40))].mean(1)
    result = clustered_variance(values.ravel(), np.repeat(np.arange(40), 5).tolist())
    assert result == pytest.approx(means.var(), rel=0.1)


def test_a_cluster_of_equal_values_counts_as_one_value() -> None:
    result, plain = known(clustered_interval([1] * 6, [*"aaabbb"])), known(wilson_interval(1.0, 2))
    assert (result.low, result.effective_n, result.clusters) == (plain.low, 2, 2)
    result = known(clustered_interval([1, 0, 1, 1], ["a"] * 4))
    assert (result.clusters, result.effective_n) == (1, 1)
    with pytest.raises(ValueError, match="2 values but 1 clusters"):
        clustered_interval([1, 0], ["a"])


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0.5, 1, "50.0"),
        (Fraction(1, 3), 1, "33.3"),
        (Fraction(5, 10000), 1, "0.1"),
        (-0.123, 1, "-12.3"),
        (-0.0001, 1, "0.0"),
        (1, 1, "100.0"),
        (Fraction(1, 8), 0, "13"),
        (Fraction(1, 8), 3, "12.500"),
    ],
)
def test_printing(share: Fraction | float, digits: int, text: str) -> None:
    assert printed_per_cent(share, digits=digits) == text
    assert digits != 1 or printed_per_cent(share) == text
