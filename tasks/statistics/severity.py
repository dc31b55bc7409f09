"""Accuracy as a function of severity, and the severity at which it reaches three quarters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from storage_schemas.rng import keyed_rng
from tasks.statistics.intervals import Interval, wilson_interval
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy, Trial, TrialPair, grouped, pair_points

#: Halfway between chance and perfect: the usual threshold of two-alternative forced choice.
TARGET = 0.75
#: Bootstrap draws: each end of a 95 % interval then rests on 25 draws.
DRAWS = 1000
Reached = Literal["reached", "below_smallest", "not_reached"]
SeverityLevel = Callable[[TrialPair], float | None]


@dataclass(frozen=True, slots=True)
class SeverityAccuracy:
    """One evaluator's accuracy at one level of severity, as a mean over pairs."""

    level: float
    pairs: int
    accuracy: float
    wilson: Interval


@dataclass(frozen=True, slots=True)
class Threshold:
    """The level at which the fitted increasing curve reaches the target accuracy.

    Parameters
    ----------
    target
        Target accuracy.
    reached
        ``below_smallest`` if the lowest level already reaches it, ``not_reached`` if the highest does not.
    level
        The level, None unless ``reached``.
    low, high
        The 95 % interval; `low` is None if it extends below the lowest level, `high` if above the highest,
        both with fewer than two sources.
    sources
        Number of sources that the draws are from.
    """

    target: float
    reached: Reached
    level: float | None
    low: float | None
    high: float | None
    sources: int


def by_clips(pair: TrialPair) -> float | None:
    """Return the number of degraded clips as the level."""
    return None if pair.clips is None else float(pair.clips)


def by_strength(level_of: Mapping[str, float]) -> SeverityLevel:
    """Return a severity level that maps a pair's strength name to a number; other strengths are ignored.

    Parameters
    ----------
    level_of
        A positive number for each strength, such as a reduction factor; higher means more severe.
    """
    return lambda pair: level_of.get(pair.strength)


def severity_curve(
    trials: Sequence[Trial], level: SeverityLevel = by_clips, ties: TiePolicy = DEFAULT_TIES
) -> tuple[SeverityAccuracy, ...]:
    """Return one evaluator's accuracy at each level, in ascending order of severity.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    points = []
    for at_level, values in sorted(_levels(trials, level, ties).items()):
        accuracy = sum(value for _, value in values) / len(values)
        wilson = wilson_interval(accuracy, len(values))
        assert wilson is not None
        points.append(SeverityAccuracy(at_level, len(values), accuracy, wilson))
    return tuple(points)


def threshold(
    trials: Sequence[Trial],
    *,
    seed: int,
    level: SeverityLevel = by_clips,
    ties: TiePolicy = DEFAULT_TIES,
    target: float = TARGET,
    draws: int = DRAWS,
) -> Threshold | None:
    """Return the severity at which one evaluator reaches the target accuracy.

    An increasing curve is fitted to the points (isotonic regression, weighted by pairs), and the crossing is
    interpolated between adjacent levels on a logarithmic scale. No parametric shape is assumed, since five
    levels could not reveal a wrong one. The interval comes from drawing sources with replacement, since a
    source's pairs at different levels share clips; the draws are keyed, so equal trials give equal intervals.

    Parameters
    ----------
    seed
        The release's seed.

    Returns
    -------
    Threshold or None
        None for fewer than two levels with points.

    Raises
    ------
    ValueError
        If a level is not positive, or the trials come from several evaluators.
    """
    levels = _levels(trials, level, ties)
    if any(level <= 0 for level in levels):
        raise ValueError(f"levels must be positive: {sorted(levels)}")
    if len(levels) < 2:
        return None
    positions = np.array(sorted(levels), np.float64)
    sums, counts = _by_source(levels)
    crossings = [_crossing(positions, sums.sum(0), counts.sum(0), target)]
    crossing = crossings[0]
    low, high = -math.inf, math.inf
    # draws from one source are identical: their interval would have no width
    if len(sums) > 1:
        rng = keyed_rng(seed, *trials[0].who, "severity-threshold")
        for _ in range(draws):
            drawn = rng.integers(len(sums), size=len(sums))
            crossings.append(_crossing(positions, sums[drawn].sum(0), counts[drawn].sum(0), target))
        # this method does not interpolate, so infinite ends remain infinite
        low, high = np.quantile(crossings[1:] or crossings, [0.025, 0.975], method="inverted_cdf")
    return Threshold(
        target=target,
        reached="reached" if math.isfinite(crossing) else "not_reached" if crossing > 0 else "below_smallest",
        level=crossing if math.isfinite(crossing) else None,
        low=float(low) if math.isfinite(low) else None,
        high=float(high) if math.isfinite(high) else None,
        sources=len(sums),
    )


def _levels(
    trials: Sequence[Trial], level: SeverityLevel, ties: TiePolicy
) -> dict[float, list[tuple[TrialPair, float]]]:
    placed = [
        (severity, (pair, points))
        for pair, points in pair_points(trials, ties).items()
        if (severity := level(pair)) is not None
    ]
    return {
        level: [scored for _, scored in together]
        for level, together in grouped(placed, lambda item: item[0]).items()
    }


def _by_source(
    levels: dict[float, list[tuple[TrialPair, float]]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sums of points and numbers of pairs, each ``(sources, levels)``."""
    rows: dict[str, int] = {}
    for scored in levels.values():
        for pair, _ in scored:
            rows.setdefault(pair.source_id, len(rows))
    # the input order must not affect the draws
    rows = {source: row for row, source in enumerate(sorted(rows))}
    sums = np.zeros((len(rows), len(levels)))
    counts = np.zeros_like(sums)
    for column, level in enumerate(sorted(levels)):
        for pair, points in levels[level]:
            sums[rows[pair.source_id], column] += points
            counts[rows[pair.source_id], column] += 1
    return sums, counts


def _crossing(
    positions: NDArray[np.float64], sums: NDArray[np.float64], counts: NDArray[np.float64], target: float
) -> float:
    """Return the level that reaches the target; −∞ if the lowest already does, +∞ if the highest does not."""
    drawn = counts > 0  # a draw may miss every pair of a level
    curve = isotonic_regression(sums[drawn] / counts[drawn], weights=counts[drawn]).x
    logs = np.log(positions[drawn])
    above = int(np.searchsorted(curve, target - 1e-12))
    if above == 0:
        return -math.inf
    if above == len(curve):
        return math.inf
    part = (target - curve[above - 1]) / (curve[above] - curve[above - 1])
    return float(np.exp(logs[above - 1] + part * (logs[above] - logs[above - 1])))
