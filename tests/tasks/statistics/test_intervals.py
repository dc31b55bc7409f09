from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from tasks.statistics.intervals import (
    clustered_interval,
    clustered_variance,
    paper_half_width,
    paper_interval,
    wilson_interval,
)
from tests.tasks.statistics.making import few

points = st.lists(st.sampled_from((0.0, 0.5, 1.0)), min_size=1, max_size=40)


def test_the_papers_interval_by_hand() -> None:
    # 1.96 · √(0.25 / 100)
    assert paper_half_width(0.5, 100) == pytest.approx(0.098)
    result = paper_interval(0.99, 100)
    assert result is not None
    assert (result.low, result.high) == (pytest.approx(0.99 - 0.019501, abs=1e-6), 1.0)


def test_wilsons_interval_of_a_textbook() -> None:
    # Newcombe 1998, table I: 81 of 263 is 0.2553 to 0.3662, 0 of 20 is 0 to 0.1611
    first, second = wilson_interval(81 / 263, 263), wilson_interval(0.0, 20)
    assert first is not None
    assert second is not None
    assert (round(first.low, 4), round(first.high, 4)) == (0.2553, 0.3662)
    assert (second.low, round(second.high, 4)) == (0.0, 0.1611)


@pytest.mark.parametrize("points, n", [(3, 7), (12.5, 40), (0.5, 12.25), (40, 40)])
def test_wilsons_interval_is_that_of_statsmodels(points: float, n: float) -> None:
    result = wilson_interval(points / n, n)
    assert result is not None
    expected = proportion_confint(points, n, method="wilson")
    assert (result.low, result.high) == pytest.approx(expected, abs=1e-12)


def test_nothing_has_no_interval() -> None:
    assert paper_half_width(0.5, 0) is None
    assert paper_interval(None, 0) is None
    assert wilson_interval(None, 0) is None
    assert clustered_interval([], []) is None


def test_all_right_has_a_width_with_wilson_only() -> None:
    paper, wilson = paper_interval(1.0, 10), wilson_interval(1.0, 10)
    assert paper is not None
    assert wilson is not None
    assert (paper.low, paper.high) == (1.0, 1.0)
    # 1 / (1 + z²/n)
    assert wilson.low == pytest.approx(10 / (10 + 1.959964**2), abs=1e-6)


@few
@given(st.integers(0, 200), st.integers(1, 200))
def test_the_accuracy_lies_in_its_intervals(right: int, n: int) -> None:
    accuracy = min(right, n) / n
    for interval in (paper_interval(accuracy, n), wilson_interval(accuracy, n)):
        assert interval is not None
        assert accuracy in interval
        assert 0 <= interval.low <= interval.high <= 1


@few
@given(points)
def test_one_value_a_cluster_is_the_plain_interval(values: list[float]) -> None:
    clustered = clustered_interval(values, range(len(values)))
    plain = wilson_interval(sum(values) / len(values), len(values))
    assert clustered is not None
    assert plain is not None
    assert clustered.effective_n == len(values)
    assert (clustered.low, clustered.high) == (pytest.approx(plain.low), pytest.approx(plain.high))


@few
@given(points, st.integers(2, 4))
def test_copies_of_a_value_say_nothing_new(values: list[float], copies: int) -> None:
    n, total = len(values), len(values) * copies
    once = clustered_interval(values, range(n))
    often = clustered_interval(values * copies, [*range(n)] * copies)
    assert once is not None
    assert often is not None
    # the variances have n − 1 and total − 1 degrees of freedom
    expected = n if len(set(values)) == 1 else total * (n - 1) / (total - 1)
    assert often.effective_n == pytest.approx(expected)
    assert often.effective_n <= n + 1e-9
    assert often.high - often.low >= once.high - once.low - 1e-9


@few
@given(st.lists(st.tuples(st.sampled_from((0.0, 0.5, 1.0)), st.integers(0, 6)), min_size=1, max_size=40))
def test_clusters_never_make_an_interval_narrower(rows: list[tuple[float, int]]) -> None:
    values, clusters = [value for value, _ in rows], [cluster for _, cluster in rows]
    clustered = clustered_interval(values, clusters)
    plain = wilson_interval(sum(values) / len(values), len(values))
    assert clustered is not None
    assert plain is not None
    assert sum(values) / len(values) in clustered
    assert 1 <= clustered.effective_n <= len(values)
    assert clustered.high - clustered.low >= plain.high - plain.low - 1e-9


def test_the_clustered_variance_is_that_of_statsmodels() -> None:
    rng = np.random.default_rng(7)
    clusters = rng.integers(0, 12, 60)
    values = (rng.random(60) < 0.3 + 0.05 * clusters).astype(float)
    fit = sm.OLS(values, np.ones(60)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
    )
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


def test_wholly_equal_clusters_count_as_one_value_each() -> None:
    result = clustered_interval([1, 1, 1, 1, 1, 1], ["a", "a", "a", "b", "b", "b"])
    plain = wilson_interval(1.0, 2)
    assert result is not None
    assert plain is not None
    assert (result.low, result.effective_n, result.clusters) == (plain.low, 2, 2)


def test_one_cluster_says_as_much_as_one_value() -> None:
    result = clustered_interval([1, 0, 1, 1], ["a"] * 4)
    assert result is not None
    assert (result.clusters, result.effective_n) == (1, 1)


def test_values_and_clusters_belong_together() -> None:
    with pytest.raises(ValueError, match="2 values but 1 clusters"):
        clustered_interval([1, 0], ["a"])
