"""How the dimensions of a suite go together, over videos (LoCoT2V-Bench, 4.2 to 4.5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from scipy import stats

from tasks.statistics.correlations import Correlation, pearson, spearman

#: Scores of one video by dimension; a dimension that failed is absent, never zero.
Row = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DimensionCorrelation:
    """Two dimensions over the videos that have both."""

    first: str
    second: str
    pearson: Correlation
    spearman: Correlation
    kendall: Correlation


def kendall(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Return Kendall's τ-b, which allows for equal values, with SciPy's two-sided p.

    Raises
    ------
    ValueError
        If there are not as many x as y.
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} x but {len(y)} y")
    if len(set(x)) < 2 or len(set(y)) < 2:
        return Correlation(len(x), None, None)
    found = stats.kendalltau(x, y, variant="b")
    p = float(found.pvalue)
    return Correlation(len(x), float(found.statistic), p if len(x) > 2 and math.isfinite(p) else None)


def correlate(first: str, second: str, rows: Iterable[Row]) -> DimensionCorrelation:
    """Return how two dimensions go together."""
    both = [(row[first], row[second]) for row in rows if first in row and second in row]
    x, y = [pair[0] for pair in both], [pair[1] for pair in both]
    return DimensionCorrelation(first, second, pearson(x, y), spearman(x, y), kendall(x, y))


def dimension_correlations(
    rows: Iterable[Row], pairs: Iterable[tuple[str, str]] | None = None
) -> list[DimensionCorrelation]:
    """Return the correlations of every two dimensions, or of those named, in the order of their names.

    Parameters
    ----------
    rows
        One a video; mean scores of groups of dimensions may stand in them as further dimensions.
    """
    held = list(rows)
    names = sorted({name for row in held for name in row})
    wanted = list(combinations(names, 2)) if pairs is None else list(pairs)
    return [correlate(first, second, held) for first, second in wanted]


def mean_of(row: Row, names: Iterable[str]) -> float | None:
    """Return the mean of some dimensions of a video; of those that are there, else None."""
    found = [row[name] for name in names if name in row]
    return math.fsum(found) / len(found) if found else None


@dataclass(frozen=True, slots=True)
class GroupMean:
    """Mean score of one dimension in one group of videos."""

    group: str
    dimension: str
    videos: int
    mean: float


def group_means(rows: Sequence[Row], groups: Sequence[str]) -> list[GroupMean]:
    """Return the mean of each dimension in each group, such as a theme, by group and dimension.

    Raises
    ------
    ValueError
        If there are not as many rows as groups.
    """
    held: dict[tuple[str, str], list[float]] = {}
    for row, group in zip(rows, groups, strict=True):
        for name, value in row.items():
            held.setdefault((group, name), []).append(value)
    return [
        GroupMean(group, name, len(values), math.fsum(values) / len(values))
        for (group, name), values in sorted(held.items())
    ]


def complexity_correlations(
    rows: Sequence[Row], complexity: Sequence[Mapping[str, float]]
) -> list[DimensionCorrelation]:
    """Return how each kind of a prompt's complexity goes with each dimension.

    Parameters
    ----------
    complexity
        Of each row's prompt, by kind: ``semantic``, ``structural``, ``control``; empty where not known.

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
