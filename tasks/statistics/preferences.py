"""Preferences of judges whose answers have a probability of "first": Brier score, calibration, AUC.

A request is a prediction that the first video is the better one. The mean of both orders of a pair is free of
order bias: what a judge adds to the first video in one order it adds to the other in the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tasks.statistics.intervals import (
    ALPHA,
    ClusteredInterval,
    Interval,
    clustered_interval,
    mean_interval,
    wilson_interval,
)
from tasks.statistics.trials import BOTH_ORDERS, Trial, TrialPair, grouped, of_one_evaluator

#: Number of bins of a calibration curve, of equal width.
BINS = 10


@dataclass(frozen=True, slots=True)
class PairPreference:
    """How probable it is for a judge that the high-quality video of a pair is better.

    Parameters
    ----------
    high_first, low_first
        In each order, the mean over repeats.
    """

    pair: TrialPair
    high_first: float
    low_first: float

    @property
    def mean(self) -> float:
        """The order-free preference."""
        return (self.high_first + self.low_first) / 2

    @property
    def points(self) -> float:
        """1 if the order-free preference is right, 0.5 if it is for neither."""
        return 0.5 if math.isclose(self.mean, 0.5, abs_tol=1e-9) else float(self.mean > 0.5)


def with_preference(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials with a preference, without pairs whose gold answer is a tie.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    of_one_evaluator(trials)
    return [
        trial
        for trial in trials
        if trial.p_first is not None and trial.order in BOTH_ORDERS and not trial.pair.gold_tie
    ]


def pair_preferences(trials: Sequence[Trial]) -> tuple[PairPreference, ...]:
    """Return the preferences of pairs that have one in both orders."""
    found = []
    for pair, some in grouped(with_preference(trials), lambda trial: trial.pair).items():
        shares = [
            [trial.p_first for trial in some if trial.order == order and trial.p_first is not None]
            for order in BOTH_ORDERS
        ]
        if all(shares):
            high_first, low_first = (sum(one) / len(one) for one in shares)
            found.append(PairPreference(pair, high_first, 1 - low_first))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its interval, clustered by source; both None without values, or None with one source."""

    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Preferences:
    """Summary of one judge's preferences.

    Parameters
    ----------
    requests, pairs
        Number of requests with a preference, and of pairs with one in both orders.
    brier
        Mean squared error of the probability of "first"; 0.25 for a coin.
    auc
        Chance that "first" is more probable where the first video is better than where the second is.
        A bias to one place that is the same for all requests does not change it.
    free_accuracy, free_brier
        Of the order-free preferences of pairs.
    """

    requests: int
    pairs: int
    brier: Mean
    auc: Mean
    free_accuracy: Mean
    free_brier: Mean


def summarise(trials: Sequence[Trial]) -> Preferences | None:
    """Return the summary of one judge's preferences; None if it has none."""
    preferred = with_preference(trials)
    if not preferred:
        return None
    pairs = pair_preferences(trials)
    sources = [trial.pair.source_id for trial in preferred]
    shares, truth = _predictions(preferred)
    free = [one.pair.source_id for one in pairs]
    points = [one.points for one in pairs]
    return Preferences(
        requests=len(preferred),
        pairs=len(pairs),
        brier=_mean((shares - truth) ** 2, sources),
        auc=auc(shares, truth == 1, sources),
        free_accuracy=Mean(sum(points) / len(points) if points else None, clustered_interval(points, free)),
        free_brier=_mean(np.array([(1 - one.mean) ** 2 for one in pairs]), free),
    )


def _predictions(trials: Sequence[Trial]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probabilities of "first", and 1 where the first video is the better one."""
    shares = np.array([trial.p_first for trial in trials], np.float64)
    return shares, np.array([float(trial.order == "high_first") for trial in trials])


def _mean(values: NDArray[np.float64], sources: Sequence[str]) -> Mean:
    if not len(values):
        return Mean(None, None)
    found = mean_interval(values, sources)
    kept = None if found is None else Interval(max(0.0, found.low), min(1.0, found.high))
    return Mean(float(values.mean()), kept)


def auc(scores: NDArray[np.float64], positive: NDArray[np.bool_], clusters: Sequence[str]) -> Mean:
    """Return the area under the ROC curve, and its interval for clustered values.

    The area is Mann and Whitney's statistic; equal scores count half. The variance is that of its structural
    components, summed by cluster (DeLong, DeLong and Clarke-Pearson 1988; Obuchowski 1997). The interval is
    symmetric on the logit, with t at G − 1 degrees of freedom; without any variance it is Wilson's for as
    many values as clusters.

    Returns
    -------
    Mean
        None without both kinds of values; no interval for fewer than two clusters.
    """
    high, low = scores[positive], scores[~positive]
    if not len(high) or not len(low):
        return Mean(None, None)
    above, below = _share_below(high, low), 1 - _share_below(low, high)
    area = float(above.mean())
    parts = np.empty(len(scores))
    parts[positive], parts[~positive] = (above - area) / len(high), (below - area) / len(low)
    sums: dict[str, float] = {}
    for cluster, part in zip(clusters, parts.tolist(), strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + part
    count = len(sums)
    if count < 2:
        return Mean(area, None)
    variance = count / (count - 1) * math.fsum(one**2 for one in sums.values())
    if variance < 1e-15 or not 0 < area < 1:
        return Mean(area, wilson_interval(area, count))
    middle = math.log(area / (1 - area))
    half = float(stats.t.isf(ALPHA / 2, count - 1)) * math.sqrt(variance) / (area * (1 - area))
    ends = (1 / (1 + math.exp(min(700.0, -(middle + sign * half)))) for sign in (-1, 1))
    return Mean(area, Interval(*ends))


def _share_below(values: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each value the share of others that are lower; equal ones count half."""
    ordered = np.sort(others)
    ranks = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return np.asarray(ranks / (2 * len(ordered)), np.float64)


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Requests whose probability of "first" lies between two bounds.

    Parameters
    ----------
    predicted, observed
        Mean probability, and share of requests in which the first video is the better one.
    clustered
        Interval of `observed`, clustered by source.
    """

    low: float
    high: float
    requests: int
    predicted: float
    observed: float
    clustered: ClusteredInterval


def calibration_curve(trials: Sequence[Trial]) -> tuple[CalibrationBin, ...]:
    """Return the bins of one judge's probabilities of "first" that have requests."""
    preferred = with_preference(trials)
    if not preferred:
        return ()
    shares, truth = _predictions(preferred)
    bin_of = np.minimum((shares * BINS).astype(int), BINS - 1)
    bins = []
    for index in range(BINS):
        inside = np.flatnonzero(bin_of == index)
        if not len(inside):
            continue
        interval = clustered_interval(
            truth[inside].tolist(), [preferred[index].pair.source_id for index in inside]
        )
        assert interval is not None
        bins.append(
            CalibrationBin(
                low=index / BINS,
                high=(index + 1) / BINS,
                requests=len(inside),
                predicted=float(shares[inside].mean()),
                observed=float(truth[inside].mean()),
                clustered=interval,
            )
        )
    return tuple(bins)
