"""Whether an accuracy reproduces a published one: two one-sided tests against a margin (Schuirmann, 1987)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from scipy import stats

from tasks.statistics.intervals import ALPHA, PAPER_Z, ClusteredInterval, Interval, wilson_interval

Verdict = Literal["reproduced", "not reproduced", "inconclusive"]
#: Margin, a share: two accuracies that differ by less count as the same.
MARGIN = 0.1
#: Level of each of the two tests, so the interval is one of 90 %.
LEVEL = 2 * ALPHA
#: More pairs than this are not looked for.
_MAX_PAIRS = 10_000_000


@dataclass(frozen=True)
class Equivalence:
    """The result of the tests.

    Parameters
    ----------
    verdict
        ``reproduced``: the interval of the difference lies within the margin; ``not reproduced``: it lies
        beyond it; ``inconclusive`` otherwise.
    difference
        Ours less what is published.
    interval
        90 % interval of the difference.
    pairs
        If inconclusive, number of pairs that would decide if the accuracy stays; None if none would, since
        the published interval alone is too wide, or the difference is the margin.
    """

    verdict: Verdict
    difference: float
    interval: Interval
    pairs: int | None = None


def equivalence(
    accuracy: float,
    clustered: ClusteredInterval,
    pairs: int,
    published: float,
    half: float,
    margin: float = MARGIN,
) -> Equivalence:
    """Compare an accuracy with a published one that was measured on other pairs.

    The interval of the difference is Newcombe's, from the 90 % interval of each: ours is Wilson's for the
    effective number of independent answers, with the width of t for the number of sources.

    Parameters
    ----------
    accuracy, clustered, pairs
        Ours, with its interval clustered by source and its number of pairs.
    published, half
        The published accuracy, and half the width of its normal 95 % interval.
    margin
        As a share; see `MARGIN`.

    Raises
    ------
    ValueError
        If the margin is not above 0 and at most 1.
    """
    if not 0 < margin <= 1:
        raise ValueError(f"a margin of {margin}: it is above 0 and at most 1")
    half_90 = half * float(stats.norm.isf(LEVEL / 2)) / PAPER_Z
    shrink = _shrink(clustered.clusters, pairs)
    interval = _difference(accuracy, clustered.effective_n * shrink, published, half_90)
    verdict = _verdict(interval, margin)
    needed = None
    if verdict == "inconclusive":
        # as alike within sources, and as many pairs a source, as here
        each = pairs / clustered.effective_n
        a_source = pairs / max(clustered.clusters, 1)

        def independent(count: int) -> float:
            return count / each * _shrink(max(2, round(count / a_source)), count)

        needed = _pairs_needed(accuracy, published, half_90, margin, independent)
    return Equivalence(verdict, accuracy - published, interval, needed)


def _shrink(clusters: int, pairs: int) -> float:
    """Return (t with n − 1 over t with G − 1 degrees of freedom)², as of clustered intervals."""
    if clusters < 2 or clusters >= pairs:
        return 1.0
    return float(stats.t.isf(LEVEL / 2, pairs - 1) / stats.t.isf(LEVEL / 2, clusters - 1)) ** 2


def _difference(accuracy: float, n: float, published: float, half: float) -> Interval:
    ours = wilson_interval(accuracy, n, LEVEL)
    assert ours is not None
    difference = accuracy - published
    return Interval(
        difference - math.hypot(accuracy - ours.low, half),
        difference + math.hypot(ours.high - accuracy, half),
    )


def _verdict(interval: Interval, margin: float) -> Verdict:
    if -margin < interval.low and interval.high < margin:
        return "reproduced"
    if interval.low > margin or interval.high < -margin:
        return "not reproduced"
    return "inconclusive"


def _pairs_needed(
    accuracy: float, published: float, half: float, margin: float, independent: Callable[[int], float]
) -> int | None:
    def decides(pairs: int) -> bool:
        interval = _difference(accuracy, independent(pairs), published, half)
        return _verdict(interval, margin) != "inconclusive"

    if not decides(_MAX_PAIRS):
        return None
    low, high = 1, _MAX_PAIRS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return high
