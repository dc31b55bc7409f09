"""Correlations of numbers, rankings and dimensions, against SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.statistics.correlations import (
    complexity_correlations,
    correlate,
    dimension_correlations,
    filter_correlations,
    group_means,
    kendall,
    mean_of,
    p_of_correlation,
    pearson,
    ranking_correlation,
    spearman,
)
from tasks.statistics.trials import Outcome
from tests.tasks.statistics.making import few, scored

numbers = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), max_size=25)


def test_a_textbooks_ranks() -> None:
    # intelligence and hours of television: Σd² = 194 over ten people, ρ = 1 − 6·194/990
    iq = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
    result = spearman(iq, [7, 27, 2, 50, 28, 29, 20, 12, 6, 17])
    assert (result.coefficient, result.n) == (pytest.approx(-29 / 165), 10)
    assert result.p == pytest.approx(0.627188, abs=1e-6)


@few
@given(numbers)
def test_both_are_scipys(rows: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in rows], [float(b) for _, b in rows]
    for ours, theirs in ((spearman, stats.spearmanr), (pearson, stats.pearsonr)):
        result = ours(x, y)
        assert result.n == len(rows)
        if len(set(x)) < 2 or len(set(y)) < 2:
            assert result.coefficient is result.p is None
            continue
        expected = theirs(x, y)
        assert result.coefficient == pytest.approx(expected.statistic)
        # p is a square root away from 0 where the coefficient is a bit away from 1
        p = None if len(rows) < 3 else pytest.approx(expected.pvalue, rel=1e-6, abs=1e-6)
        assert result.p == p


@pytest.mark.parametrize("values", [([], []), ([1.0], [2.0]), ([5.0, 5.0, 5.0], [1.0, 2.0, 3.0])])
def test_what_has_no_correlation(values: tuple[list[float], list[float]]) -> None:
    for correlation in (spearman, pearson, kendall):
        assert correlation(*values).coefficient is correlation(*values).p is None


def test_two_points_correlate_without_p_and_need_partners() -> None:
    result = spearman([1, 2], [3, 1])
    assert (result.n, result.coefficient, result.p) == (2, pytest.approx(-1), None)
    assert kendall([1, 2], [3, 4]).p is None
    for correlation in (spearman, kendall):
        with pytest.raises(ValueError, match="2 x but 1 y"):
            correlation([1, 2], [1])


def test_p_from_a_coefficient() -> None:
    # critical value of Pearson's r for 10 points at 5 %: 0.6319
    assert p_of_correlation(0.6319, 10) == pytest.approx(0.05, abs=1e-4)
    assert p_of_correlation(-0.6319, 10) == p_of_correlation(0.6319, 10)
    assert (p_of_correlation(0.0, 10), p_of_correlation(1.0, 5), p_of_correlation(0.9, 2)) == (1, 0, None)
    with pytest.raises(ValueError, match=r"a correlation of 1\.1"):
        p_of_correlation(1.1, 5)


def test_filter_correlation_by_hand() -> None:
    answers: dict[str, list[Outcome]] = {
        "a": ["right", "right", "right", "wrong"],
        "b": ["right", "wrong", "wrong", "wrong"],
        "c": ["right", "right", "wrong", "right"],
        "d": ["failed", "failed", "right", "right"],
    }
    trials = [
        replace(held, pair=replace(held.pair, kept=number < 2))
        for name, outcomes in answers.items()
        for number, held in enumerate(scored(outcomes, name))
    ]
    (result,) = filter_correlations(trials)
    # d answered no pair that was kept
    assert dict(result.unfiltered) == {("a", ""): 0.75, ("b", ""): 0.25, ("c", ""): 0.75}
    assert dict(result.filtered) == {("a", ""): 1.0, ("b", ""): 0.5, ("c", ""): 1.0}
    assert result.pearson.coefficient == pytest.approx(1)
    assert filter_correlations(scored(["right"])) == ()


def test_two_settings_rank_the_evaluators_they_share() -> None:
    first = {("a", ""): 0.9, ("b", ""): 0.7, ("c", ""): 0.5, ("d", ""): 0.6, ("x", ""): 0.1}
    second = {("d", ""): 0.55, ("c", ""): 0.5, ("b", ""): 0.8, ("a", ""): 0.75, ("y", ""): 0.9}
    result = ranking_correlation(first, second)
    assert (result.n, result.coefficient) == (4, pytest.approx(0.8))


def test_every_two_dimensions_against_scipy() -> None:
    rng = np.random.default_rng(5)
    rows = [
        {
            "aesthetic": float(q + rng.normal()),
            "clarity": float(np.round(q + rng.normal())),
            **({"herd": float(-q + rng.normal())} if n % 3 else {}),
        }
        for n, q in enumerate(rng.normal(size=60))
    ]
    result = dimension_correlations(rows)
    names = [("aesthetic", "clarity"), ("aesthetic", "herd"), ("clarity", "herd")]
    assert [(one.first, one.second) for one in result] == names
    for one in result:
        both = [(row[one.first], row[one.second]) for row in rows if one.first in row and one.second in row]
        x, y = zip(*both, strict=True)
        for mine, reference in (
            (one.pearson, stats.pearsonr(x, y)),
            (one.spearman, stats.spearmanr(x, y)),
            (one.kendall, stats.kendalltau(x, y)),
        ):
            assert mine.n == len(both) == (60 if one.second == "clarity" else 40)
            assert mine.coefficient == pytest.approx(reference.statistic, abs=1e-12)
            assert mine.p == pytest.approx(reference.pvalue, rel=1e-6)


def test_a_failed_dimension_is_missing_not_zero() -> None:
    # the failed video would turn the sign if it counted as zero
    rows = [{"a": 1.0, "b": 5.0}, {"a": 2.0, "b": 6.0}, {"a": 3.0, "b": 7.0}, {"a": 9.0}]
    assert correlate("a", "b", rows).pearson.coefficient == pytest.approx(1.0)
    assert (mean_of({"a": 4.0}, ["a", "b"]), mean_of({}, ["a"])) == (4.0, None)


def test_means_by_theme() -> None:
    rows = [{"a": 1.0, "b": 2.0}, {"a": 3.0}, {"a": 5.0, "b": 4.0}]
    result = group_means(rows, ["nature", "nature", "people"])
    assert [(one.group, one.dimension, one.videos, one.mean) for one in result] == [
        ("nature", "a", 2, 2.0), ("nature", "b", 1, 2.0), ("people", "a", 1, 5.0), ("people", "b", 1, 4.0)
    ]  # fmt: skip
    with pytest.raises(ValueError):
        group_means(rows, ["nature"])


def test_prompt_complexity() -> None:
    complexity = [{"semantic": 1.0}, {"semantic": 2.0}, {"semantic": 3.0, "control": 1.0}, {}]
    result = complexity_correlations([{"a": 3.0}, {"a": 2.0}, {"a": 1.0}, {"a": 9.0}], complexity)
    by_kind = {one.first: one for one in result}
    semantic = by_kind["complexity:semantic"].spearman
    assert (semantic.coefficient, semantic.n) == (-1.0, 3)
    assert by_kind["complexity:control"].pearson.coefficient is None
