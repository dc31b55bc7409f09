"""Accuracy by video duration."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tasks.statistics.correlations import Correlation, spearman
from tasks.statistics.intervals import Interval, wilson_interval
from tasks.statistics.trials import (
    DEFAULT_TIES,
    CountedUnit,
    TiePolicy,
    Trial,
    TrialPair,
    grouped,
    pair_points,
    units_of,
)

#: Width in seconds of the paper's bins for drawing pairs (SLVMEval, section 4.5).
BIN_S = 100
#: Number of bins in the figure (SLVMEval, Japanese paper, figure 2). It does not give their edges.
FIGURE_BINS = 4


@dataclass(frozen=True, slots=True)
class DurationBin:
    """The pairs of one evaluator whose duration lies in ``[low_s, high_s)``.

    Parameters
    ----------
    pairs
        Number of pairs with points; empty bins are omitted.
    mean_duration_s
        Their mean duration in seconds.
    accuracy, wilson
        Mean points over units, and Wilson's interval for n = `pairs`.
    """

    low_s: float
    high_s: float
    pairs: int
    mean_duration_s: float
    accuracy: float
    wilson: Interval


def width_bins(
    trials: Sequence[Trial], width_s: float = BIN_S, ties: TiePolicy = DEFAULT_TIES
) -> tuple[DurationBin, ...]:
    """Return one evaluator's accuracy in bins of equal width from 0 s on, in ascending order.

    Raises
    ------
    ValueError
        If the width is not positive or the trials come from several evaluators.
    """
    if width_s <= 0:
        raise ValueError(f"a bin of {width_s} s")
    by_bin = grouped(units_of(trials, ties), lambda unit: int(unit.pair.duration_s // width_s))
    return tuple(
        _bin(number * width_s, (number + 1) * width_s, units) for number, units in sorted(by_bin.items())
    )


def edged_bins(
    trials: Sequence[Trial], edges_s: Sequence[float], ties: TiePolicy = DEFAULT_TIES
) -> tuple[DurationBin, ...]:
    """Return one evaluator's accuracy in bins between edges; the last bin includes its upper edge.

    Raises
    ------
    ValueError
        If there are fewer than two edges, they do not rise, or a pair lies outside them.
    """
    if len(edges_s) < 2 or any(low >= high for low, high in pairwise(edges_s)):
        raise ValueError(f"edges must ascend, with at least two: {list(edges_s)}")
    units_by_bin: dict[int, list[CountedUnit]] = {}
    for unit in units_of(trials, ties):
        duration = unit.pair.duration_s
        if not edges_s[0] <= duration <= edges_s[-1]:
            raise ValueError(f"pair {unit.pair.pair_id} of {duration} s lies outside {list(edges_s)}")
        units_by_bin.setdefault(min(bisect_right(edges_s, duration), len(edges_s) - 1) - 1, []).append(unit)
    filled = sorted(units_by_bin.items())
    return tuple(_bin(edges_s[number], edges_s[number + 1], units) for number, units in filled)


def equal_count_edges(pairs: Iterable[TrialPair], bins: int = FIGURE_BINS) -> tuple[float, ...]:
    """Return edges in seconds that divide pairs by duration into bins with about equal numbers of pairs.

    Edges depend on the pairs only, so that all evaluators share them. If many pairs have the same duration
    there are fewer bins; with a single duration there is one bin of 1 s.

    Raises
    ------
    ValueError
        If there are no pairs or no bins.
    """
    durations = [pair.duration_s for pair in {pair.pair_id: pair for pair in pairs}.values()]
    if not durations or bins < 1:
        raise ValueError(f"{bins} bins of {len(durations)} pairs")
    edges = tuple(float(edge) for edge in np.unique(np.quantile(durations, np.linspace(0, 1, bins + 1))))
    return edges if len(edges) > 1 else (edges[0], edges[0] + 1.0)


def binned_correlation(bins: Sequence[DurationBin]) -> Correlation:
    """Return Spearman's ρ of mean duration and accuracy over bins, as in the paper (table 7)."""
    return spearman([one.mean_duration_s for one in bins], [one.accuracy for one in bins])


def pair_correlation(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> Correlation:
    """Return Spearman's ρ of duration and points over pairs, independent of any choice of bins.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    points = pair_points(trials, ties)
    return spearman([pair.duration_s for pair in points], list(points.values()))


def _bin(low_s: float, high_s: float, units: list[CountedUnit]) -> DurationBin:
    durations = {unit.pair.pair_id: unit.pair.duration_s for unit in units}
    accuracy = sum(unit.points for unit in units) / len(units)
    wilson = wilson_interval(accuracy, len(durations))
    assert wilson is not None
    mean = sum(durations.values()) / len(durations)
    return DurationBin(float(low_s), float(high_s), len(durations), mean, accuracy, wilson)
