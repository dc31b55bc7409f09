"""Correlations between dimensions against SciPy, with scores missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tasks.statistics.correlations import (
    complexity_correlations,
    correlate,
    dimension_correlations,
    group_means,
    kendall,
    mean_of,
)

RNG = np.random.default_rng(5)
QUALITY = RNG.normal(size=60)
ROWS = [
    {
        "aesthetic": float(q + RNG.normal()),
        "clarity": float(np.round(q + RNG.normal())),
        **({"herd": float(-q + RNG.normal())} if n % 3 else {}),
    }
    for n, q in enumerate(QUALITY)
]


def test_every_two_dimensions_against_scipy() -> None:
    result = dimension_correlations(ROWS)
    assert [(one.first, one.second) for one in result] == [
        ("aesthetic", "clarity"),
        ("aesthetic", "herd"),
        ("clarity", "herd"),
    ]
    for one in result:
        both = [(row[one.first], row[one.second]) for row in ROWS if one.first in row and one.second in row]
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
    assert mean_of({"a": 4.0}, ["a", "b"]) == 4.0
    assert mean_of({}, ["a"]) is None


def test_constant_or_too_few_values_have_no_coefficient() -> None:
    assert kendall([1, 1, 1], [1, 2, 3]).coefficient is None
    assert kendall([1], [1]).coefficient is None
    assert kendall([1, 2], [3, 4]).p is None
    with pytest.raises(ValueError, match="2 x but 1 y"):
        kendall([1, 2], [1])


def test_means_by_theme() -> None:
    rows = [{"a": 1.0, "b": 2.0}, {"a": 3.0}, {"a": 5.0, "b": 4.0}]
    result = group_means(rows, ["nature", "nature", "people"])
    assert [(one.group, one.dimension, one.videos, one.mean) for one in result] == [
        ("nature", "a", 2, 2.0),
        ("nature", "b", 1, 2.0),
        ("people", "a", 1, 5.0),
        ("people", "b", 1, 4.0),
    ]
    with pytest.raises(ValueError):
        group_means(rows, ["nature"])


def test_prompt_complexity() -> None:
    rows = [{"a": 3.0}, {"a": 2.0}, {"a": 1.0}, {"a": 9.0}]
    result = complexity_correlations(
        rows, [{"semantic": 1.0}, {"semantic": 2.0}, {"semantic": 3.0, "control": 1.0}, {}]
    )
    by_kind = {one.first: one for one in result}
    assert by_kind["complexity:semantic"].spearman.coefficient == -1.0
    assert by_kind["complexity:semantic"].spearman.n == 3
    assert by_kind["complexity:control"].pearson.coefficient is None
