"""Signal detection: does a judge see damage, or does it notice edits?

A pair is a task with two alternatives. On damaged pairs, preferring the untouched side is a *hit*. On
controls, where the edit makes no side better, the same preference is a *false alarm*: one half is chance.
Sensitivities are d′ of a task with two alternatives, √2·z(share), after Macmillan and Creelman, *Detection
Theory* (2005).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from tasks.statistics.intervals import ALPHA, ClusteredInterval, clustered_interval
from tasks.statistics.trials import BOTH_ORDERS, DEFAULT_TIES, CountedUnit, TiePolicy, Trial, units_of


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval, clustered by source; an end is None where it has no bound."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Rate:
    """How often the untouched side is preferred.

    Parameters
    ----------
    share
        Mean points.
    units, pairs
        Points that were averaged, and their pairs.
    interval
        Wilson's, clustered by source.
    d_prime
        √2·z of the share.
    """

    share: float
    units: int
    pairs: int
    interval: ClusteredInterval
    d_prime: Estimate


@dataclass(frozen=True, slots=True)
class Detection:
    """Basis of one evaluator's preferences.

    Parameters
    ----------
    hits
        On damaged pairs.
    false_alarms
        On controls; None without answers on any.
    beyond_edit
        d′ of damage minus d′ of the edit alone: the sensitivity that is left if noticing edits is taken off.
    bias
        Criterion c of the presentation order: negative for an evaluator that prefers what it sees first. None
        for one that is not asked in both orders.
    """

    hits: Rate | None
    false_alarms: Rate | None
    beyond_edit: Estimate | None
    bias: Estimate | None


def d_prime(share: float) -> float:
    """Return d′ of a share of right answers to tasks with two alternatives; infinite at 0 and 1.

    Examples
    --------
    >>> round(d_prime(0.75), 2)
    0.95
    """
    return math.sqrt(2) * float(ndtri(share))


def log_linear(points: float, count: int) -> float:
    """Return a share that is never 0 or 1: half a point and one unit are added (Hautus, 1995)."""
    return (points + 0.5) / (count + 1)


def detection(
    damaged: Sequence[Trial], controls: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES
) -> Detection:
    """Return the signal detection of one evaluator.

    Parameters
    ----------
    damaged, controls
        Its trials on damaged pairs and on controls.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    hits, alarms = rate(units_of(damaged, ties)), rate(units_of(controls, ties))
    beyond = None
    if hits is not None and alarms is not None:
        beyond = difference(hits.d_prime, alarms.d_prime)
    return Detection(hits, alarms, beyond, order_bias([*damaged, *controls]))


def rate(units: Sequence[CountedUnit]) -> Rate | None:
    """Return how often the untouched side is preferred; None without units."""
    points = [unit.points for unit in units]
    interval = clustered_interval(points, [unit.pair.source_id for unit in units])
    if interval is None:
        return None
    total = math.fsum(points)
    value = d_prime(log_linear(total, len(points)))
    return Rate(
        share=total / len(points),
        units=len(points),
        pairs=len({unit.pair.pair_id for unit in units}),
        interval=interval,
        d_prime=Estimate(value, _bounded(interval.low), _bounded(interval.high)),
    )


def _bounded(share: float) -> float | None:
    return d_prime(share) if 0 < share < 1 else None


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Return one value minus another; the distances to the intervals' ends are added in squares.

    Both come from the same sources, so the interval is wider than needed if they vary together.
    """
    value = one.value - other.value
    down = None if one.low is None or other.high is None else (one.value - one.low, other.high - other.value)
    up = None if one.high is None or other.low is None else (one.high - one.value, other.value - other.low)
    return Estimate(
        value,
        None if down is None else value - math.hypot(*down),
        None if up is None else value + math.hypot(*up),
    )


def order_bias(trials: Sequence[Trial]) -> Estimate | None:
    """Return the criterion c of the presentation order, −½·(z(H) + z(F)).

    H is how often the first video is named where it is the untouched one, F where it is the other one, each
    with half a source added that always names it, and half a one that never does: neither is 0 or 1. The
    added sources count in the cluster-robust variance, so the interval has a width if all answers agree. It
    has no bounds with a single source. None if pairs were not asked in both orders.
    """
    asked = [trial for trial in trials if trial.choice is not None and trial.order in BOTH_ORDERS]
    if len({trial.order for trial in asked}) < len(BOTH_ORDERS):
        return None
    firsts = {"first": 1.0, "second": 0.0, "tie": 0.5}
    sums: dict[str, NDArray[np.float64]] = {}
    for trial in asked:
        source_sums = sums.setdefault(trial.pair.source_id, np.zeros((2, len(BOTH_ORDERS))))
        source_sums[:, BOTH_ORDERS.index(trial.order)] += firsts[trial.choice or "tie"], 1.0
    named, counts = np.stack([*sums.values()], axis=1)
    # half a source that always names the first video, and half a one that never does
    half = counts.mean(axis=0) / 2
    named, counts = np.vstack([named, half, 0 * half]), np.vstack([counts, half, half])
    shares = named.sum(axis=0) / counts.sum(axis=0)
    scores = ndtri(shares)
    value = -float(scores.sum()) / 2
    if len(sums) < 2:
        return Estimate(value, None, None)
    pulls = ((named - shares * counts) / (counts.sum(axis=0) * stats.norm.pdf(scores))).sum(axis=1) / 2
    error = math.sqrt(len(sums) / (len(sums) - 1) * (pulls**2).sum())
    width = float(stats.t.isf(ALPHA / 2, len(sums) - 1)) * error
    return Estimate(value, value - width, value + width)
