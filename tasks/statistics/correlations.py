"""Correlations with two-sided p values, well-defined in degenerate cases.

They apply to evaluators over pairs and to a suite's dimensions over videos (LoCoT2V-Bench, 4.2 to 4.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from scipy import stats

from tasks.statistics.trials import DEFAULT_TIES, TiePolicy, Trial, Who, grouped, units_of


@dataclass(frozen=True, slots=True)
class Correlation:
    """A coefficient between −1 and 1.

    Parameters
    ----------
    n
        Number of points.
    coefficient
        None for fewer than two points, or if either variable is constant.
    p
        Two-sided, from Student's t with n − 2 degrees of freedom; None for fewer than three points.
    """

    n: int
    coefficient: float | None
    p: float | None


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Return Spearman's rank correlation; ties get their mean rank.

    Raises
    ------
    ValueError
        If there are not as many x as y.
    """
    return _correlation(stats.spearmanr, x, y)


def pearson(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Return Pearson's correlation.

    Raises
    ------
    ValueError
        If there are not as many x as y.
    """
    return _correlation(stats.pearsonr, x, y)


def _correlation(function: Callable[..., Any], x: Sequence[float], y: Sequence[float]) -> Correlation:
    if len(x) != len(y):
        raise ValueError(f"{len(x)} x but {len(y)} y")
    if len(set(x)) < 2 or len(set(y)) < 2:
        return Correlation(len(x), None, None)
    coefficient = float(function(x, y).statistic)
    if not math.isfinite(coefficient):  # values so close that their variance underflows
        return Correlation(len(x), None, None)
    coefficient = max(-1.0, min(1.0, coefficient))
    return Correlation(len(x), coefficient, p_of_correlation(coefficient, len(x)))


def p_of_correlation(coefficient: float, n: int) -> float | None:
    """Return the two-sided p of a coefficient over n points, None for n under 3.

    Raises
    ------
    ValueError
        If the coefficient lies outside −1 … 1.
    """
    if not -1 <= coefficient <= 1:
        raise ValueError(f"a correlation of {coefficient}")
    if n < 3:
        return None
    if abs(coefficient) == 1:
        return 0.0
    t = coefficient * math.sqrt((n - 2) / (1 - coefficient**2))
    return float(2 * stats.t.sf(abs(t), n - 2))


@dataclass(frozen=True, slots=True)
class FilterCorrelation:
    """One aspect with and without the human filter.

    Parameters
    ----------
    unfiltered, filtered
        Accuracy of each evaluator over all pairs, and over those kept by the human filter.
    pearson
        Pearson's r over evaluators.
    """

    aspect: str
    unfiltered: Mapping[Who, float]
    filtered: Mapping[Who, float]
    pearson: Correlation


def filter_correlations(
    trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES
) -> tuple[FilterCorrelation, ...]:
    """Return the filter's correlation for each aspect; evaluators without both accuracies are omitted.

    Pairs without votes are ignored.
    """
    trials_with_votes = [trial for trial in trials if trial.pair.kept is not None]
    correlations = []
    for aspect, together in grouped(trials_with_votes, lambda trial: trial.pair.aspect).items():
        unfiltered = accuracies(together, ties)
        filtered = accuracies([trial for trial in together if trial.pair.kept], ties)
        shared = [who for who in unfiltered if who in filtered]
        correlations.append(
            FilterCorrelation(
                aspect,
                {who: unfiltered[who] for who in shared},
                {who: filtered[who] for who in shared},
                pearson([unfiltered[who] for who in shared], [filtered[who] for who in shared]),
            )
        )
    return tuple(correlations)


def accuracies(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> dict[Who, float]:
    """Return each evaluator's accuracy over trials; one without points is absent."""
    by_evaluator = {}
    for who, together in grouped(trials, lambda trial: trial.who).items():
        units = units_of(together, ties)
        if units:
            by_evaluator[who] = sum(unit.points for unit in units) / len(units)
    return by_evaluator


def ranking_correlation(first: Mapping[Who, float], second: Mapping[Who, float]) -> Correlation:
    """Return Spearman's ρ between two settings' accuracies over their common evaluators.

    It measures whether one setting (pairs made by degradation) ranks evaluators like another (pairs of
    generated videos).
    """
    shared = [who for who in first if who in second]
    return spearman([first[who] for who in shared], [second[who] for who in shared])


#: Scores of one video by dimension; a dimension that failed is absent, never zero.
DimensionScores = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DimensionCorrelation:
    """Correlation of two dimensions over the videos that have both."""

    first: str
    second: str
    pearson: Correlation
    spearman: Correlation
    kendall: Correlation


def kendall(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Return Kendall's τ-b, which handles ties, with SciPy's two-sided p.

    Raises
    ------
    ValueError
        If there are not as many x as y.
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} x but {len(y)} y")
    if len(set(x)) < 2 or len(set(y)) < 2:
        return Correlation(len(x), None, None)
    result = stats.kendalltau(x, y, variant="b")
    p = float(result.pvalue)
    return Correlation(len(x), float(result.statistic), p if len(x) > 2 and math.isfinite(p) else None)


def correlate(first: str, second: str, rows: Iterable[DimensionScores]) -> DimensionCorrelation:
    """Return the correlation of two dimensions."""
    both = [(row[first], row[second]) for row in rows if first in row and second in row]
    x, y = [pair[0] for pair in both], [pair[1] for pair in both]
    return DimensionCorrelation(first, second, pearson(x, y), spearman(x, y), kendall(x, y))


def dimension_correlations(
    rows: Iterable[DimensionScores], pairs: Iterable[tuple[str, str]] | None = None
) -> list[DimensionCorrelation]:
    """Return the correlations of all pairs of dimensions, or of those named, sorted by name.

    Parameters
    ----------
    rows
        One per video; may contain mean scores of groups of dimensions as further dimensions.
    """
    videos = list(rows)
    names = sorted({name for row in videos for name in row})
    wanted = list(combinations(names, 2)) if pairs is None else list(pairs)
    return [correlate(first, second, videos) for first, second in wanted]


def mean_of(row: DimensionScores, names: Iterable[str]) -> float | None:
    """Return the mean of the given dimensions of a video, ignoring missing ones; None if all are missing."""
    scores = [row[name] for name in names if name in row]
    return math.fsum(scores) / len(scores) if scores else None


@dataclass(frozen=True, slots=True)
class GroupMean:
    """Mean score of one dimension in one group of videos."""

    group: str
    dimension: str
    videos: int
    mean: float


def group_means(rows: Sequence[DimensionScores], groups: Sequence[str]) -> list[GroupMean]:
    """Return the mean of each dimension in each group, such as a theme, by group and dimension.

    Raises
    ------
    ValueError
        If there are not as many rows as groups.
    """
    by_group: dict[tuple[str, str], list[float]] = {}
    for row, group in zip(rows, groups, strict=True):
        for name, value in row.items():
            by_group.setdefault((group, name), []).append(value)
    return [
        GroupMean(group, name, len(values), math.fsum(values) / len(values))
        for (group, name), values in sorted(by_group.items())
    ]


def complexity_correlations(
    rows: Sequence[DimensionScores], complexity: Sequence[Mapping[str, float]]
) -> list[DimensionCorrelation]:
    """Return the correlation of each kind of prompt complexity with each dimension.

    Parameters
    ----------
    complexity
        Complexity of each row's prompt, by kind: ``semantic``, ``structural``, ``control``; empty if unknown.

    Raises
    ------
    ValueError
        If there are not as many rows as complexities.
    """
    kinds = sorted({kind for some in complexity for kind in some})
    dimensions = sorted({name for row in rows for name in row})
    joined = [
        {**row, **{f"complexity:{kind}": value for kind, value in some.items()}}
        for row, some in zip(rows, complexity, strict=True)
    ]
    wanted = [(f"complexity:{kind}", name) for kind in kinds for name in dimensions]
    return dimension_correlations(joined, wanted)
