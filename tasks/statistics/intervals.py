"""Intervals of an accuracy: the paper's, Wilson's, and one for clustered answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

#: The paper's factor of the 95 % interval.
PAPER_Z = 1.96
ALPHA = 0.05
#: With fewer sources, an interval that draws them with replacement is mostly too narrow
#: (``python -m bench.alpha_coverage``).
FEW_SOURCES = 20
#: An interval that is not wider has no width but for rounding.
NO_WIDTH = 1e-12


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed 95 % confidence interval."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class ClusteredInterval(Interval):
    """An interval for clustered values.

    Parameters
    ----------
    clusters
        Number of clusters.
    effective_n
        Number of independent values with the same variance.
    """

    clusters: int
    effective_n: float


def paper_half_width(accuracy: float, n: int) -> float | None:
    """Return 1.96·√(p(1−p)/n), the paper's ± (SLVMEval, table 2); None for n = 0.

    With half points p(1−p) exceeds the variance of the points, so the interval is conservative. Its width is
    0 at 0 and 1.
    """
    return PAPER_Z * math.sqrt(accuracy * (1 - accuracy) / n) if n else None


def paper_interval(accuracy: float | None, n: int) -> Interval | None:
    """Return accuracy ± :func:`paper_half_width`, cut to what an accuracy can be; None for n = 0."""
    if accuracy is None or not n:
        return None
    half = paper_half_width(accuracy, n)
    assert half is not None
    return Interval(max(0.0, accuracy - half), min(1.0, accuracy + half))


def _student(freedom: int) -> float:
    """Return the factor of a 95 % interval by Student's t with a number of degrees of freedom."""
    from scipy.special import stdtrit  # imported here, since builds import this module and draw no interval

    return -float(stdtrit(freedom, ALPHA / 2))


def wilson_interval(accuracy: float | None, n: float, alpha: float = ALPHA) -> Interval | None:
    """Return Wilson's interval; None for n = 0.

    Parameters
    ----------
    accuracy
        Mean points; `accuracy · n` need not be a whole number.
    n
        Independent pairs, or their equivalent.
    alpha
        One minus the interval's level.
    """
    if accuracy is None or not n:
        return None
    # not SciPy's, which only accepts whole numbers
    z = NormalDist().inv_cdf(1 - alpha / 2)
    middle = (accuracy + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(accuracy * (1 - accuracy) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    # rounding may exclude the accuracy itself by one bit if it is 0 or 1
    return Interval(max(0.0, min(middle - half, accuracy)), min(1.0, max(middle + half, accuracy)))


def clustered_variance(values: NDArray[np.float64], clusters: Sequence[Hashable]) -> float | None:
    """Return the cluster-robust variance of a mean, with the factor G/(G−1) for G clusters.

    Returns
    -------
    float or None
        None for fewer than two clusters, where it is undefined.
    """
    numbers: dict[Hashable, int] = {}
    labels = [numbers.setdefault(cluster, len(numbers)) for cluster in clusters]
    if len(numbers) < 2:
        return None
    sums = np.bincount(labels, weights=values - values.mean())
    return float(len(numbers) / (len(numbers) - 1) * (sums**2).sum() / len(values) ** 2)


def mean_interval(values: NDArray[np.float64], clusters: Sequence[Hashable]) -> ClusteredInterval | None:
    """Return the interval of any mean: its cluster-robust variance, and t with G − 1 degrees of freedom.

    Returns
    -------
    ClusteredInterval or None
        None for fewer than two clusters. It has no width if all values are equal.
    """
    variance = clustered_variance(values, clusters)
    if variance is None:
        return None
    count, mean = len(set(clusters)), float(values.mean())
    half = _student(count - 1) * math.sqrt(variance)
    return ClusteredInterval(mean - half, mean + half, count, effective_n(values, clusters))


def clustered_interval(values: Sequence[float], clusters: Sequence[Hashable]) -> ClusteredInterval | None:
    """Return Wilson's interval for the effective number of independent values.

    This number is n divided by the design effect: the cluster-robust variance of the mean over the variance
    of independent values. A design effect below 1 counts as 1. As a design effect from few clusters is
    itself uncertain, the interval uses fewer values (:func:`_few_clusters`). A formula is used instead of a
    bootstrap because it needs no seed and keeps a width if all answers are right.

    Parameters
    ----------
    values
        Points, each between 0 and 1.
    clusters
        The cluster of each value.

    Returns
    -------
    ClusteredInterval or None
        None without values. With one value per cluster it equals Wilson's interval. If all values are equal,
        each cluster counts as one value.

    Raises
    ------
    ValueError
        If there are not as many clusters as values.
    """
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values but {len(clusters)} clusters")
    if not values:
        return None
    points = np.asarray(values, np.float64)
    count = len(set(clusters))
    effective = effective_n(points, clusters)
    plain = wilson_interval(float(points.mean()), effective * _few_clusters(len(points), count, points))
    assert plain is not None
    return ClusteredInterval(plain.low, plain.high, count, effective)


def effective_n(values: NDArray[np.float64], clusters: Sequence[Hashable]) -> float:
    """Return n over the design effect, which counts as 1 if it is smaller.

    If all values are equal, each cluster counts as one value; so does a single cluster.
    """
    n, count = len(values), len(set(clusters))
    variance = clustered_variance(values, clusters)
    if variance is None or bool((values == values[0]).all()):
        return float(count)
    independent = float(values.var(ddof=1)) / n
    # one value per cluster is exactly the plain case, regardless of rounding in the two variances
    return float(n) if count == n else n / max(1.0, variance / independent)


def _few_clusters(n: int, clusters: int, values: NDArray[np.float64]) -> float:
    """Return (t with n − 1 over t with G − 1 degrees of freedom)², Korn and Graubard's factor (1998).

    It is 1 where no design effect was estimated: with one value per cluster, or with equal values.
    """
    if clusters in (1, n) or bool((values == values[0]).all()):
        return 1.0
    return (_student(n - 1) / _student(clusters - 1)) ** 2


def macro_interval(parts: Sequence[Sequence[tuple[float, Hashable]]]) -> ClusteredInterval:
    """Return Wilson's interval of the unweighted mean of several means, as in :func:`clustered_interval`.

    The effective number of values is that whose independent answers would have the mean's cluster-robust
    variance, at most the number of values.

    Parameters
    ----------
    parts
        The values of each mean with their clusters, which may occur in several.
    """
    sums: dict[Hashable, float] = {}
    means = [math.fsum(value for value, _ in part) / len(part) for part in parts]
    for part, mean in zip(parts, means, strict=True):
        for value, cluster in part:
            sums[cluster] = sums.get(cluster, 0.0) + (value - mean) / (len(parts) * len(part))
    count, n, accuracy = len(sums), sum(map(len, parts)), math.fsum(means) / len(means)
    variance = count / (count - 1) * math.fsum(one**2 for one in sums.values()) if count > 1 else 0.0
    values = np.array([value for part in parts for value, _ in part], np.float64)
    effective = min(float(n), accuracy * (1 - accuracy) / variance) if variance else float(count)
    plain = wilson_interval(accuracy, effective * (_few_clusters(n, count, values) if variance else 1.0))
    assert plain is not None
    return ClusteredInterval(plain.low, plain.high, count, effective)


def jackknife_intervals(
    sums: NDArray[np.float64],
    clusters: Sequence[Hashable],
    estimate: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> list[Interval | None]:
    """Return the intervals of estimates that are functions of sums, by deleting one cluster at a time.

    Parameters
    ----------
    sums
        Contribution of each value to the sums, one row per value.
    clusters
        The cluster of each value.
    estimate
        Returns the estimates of sums, along the last axis of its argument.

    Returns
    -------
    list
        One for each estimate, with t at G − 1 degrees of freedom; None if there are fewer than three
        clusters, an estimate is nan, or no cluster changes it, which proves nothing.
    """
    numbers: dict[Hashable, int] = {}
    labels = [numbers.setdefault(cluster, len(numbers)) for cluster in clusters]
    count, total = len(numbers), sums.sum(axis=0)
    whole = estimate(total)
    if count < 3:
        return [None] * len(whole)
    parts = np.zeros((count, sums.shape[1]))
    np.add.at(parts, labels, sums)
    left = estimate(total - parts)
    half = _student(count - 1) * np.sqrt((count - 1) / count * ((left - left.mean(0)) ** 2).sum(0))
    return [
        # neither nan nor 0 but for rounding
        Interval(float(value - width), float(value + width)) if width > NO_WIDTH else None
        for value, width in zip(whole, half, strict=True)
    ]


def printed_per_cent(share: float | Fraction, digits: int = 1) -> str:
    """Format a share as per cent, rounding half away from zero, as in ``"90.1"``."""
    scaled = Fraction(share) * 100 * 10**digits
    whole = int(abs(scaled) + Fraction(1, 2))
    sign = "-" if scaled < 0 and whole else ""
    return f"{sign}{Decimal(whole).scaleb(-digits):.{digits}f}"
