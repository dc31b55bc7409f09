"""Specificity of a score: how well it tells undamaged from damaged videos, for one kind of damage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tasks.statistics.intervals import ALPHA, NO_WIDTH, Interval, clustered_interval


@dataclass(frozen=True, slots=True)
class Auc:
    """How well a score separates the videos of some pairs.

    Parameters
    ----------
    auc
        Chance that an undamaged video has the greater score than a damaged one of any pair; ties count half.
    interval
        At 95 %, by deleting one source at a time (jackknife); Wilson's of `paired`, clustered by source,
        where no deleted source changes the AUC. None for fewer than three sources.
    paired
        Share of pairs whose undamaged video has the greater score; ties count half.
    pairs, sources
        Number of pairs, and of their sources.
    """

    auc: float
    interval: Interval | None
    paired: float
    pairs: int
    sources: int

    @property
    def moved(self) -> bool:
        """Whether the damage moves the score: chance is outside the interval."""
        return self.interval is not None and not self.interval.low <= 0.5 <= self.interval.high


def auc_of(high: Sequence[float], low: Sequence[float], sources: Sequence[str]) -> Auc | None:
    """Return the AUC of the scores of undamaged and damaged videos, pair by pair; None without pairs.

    A source's pairs share its undamaged video, so that pairs of one source are not independent.
    """
    if not high:
        return None
    names = sorted(set(sources))
    index = np.array([names.index(source) for source in sources])
    one, other = np.asarray(high, np.float64), np.asarray(low, np.float64)
    wins = (np.sign(one[:, None] - other[None, :]) + 1) / 2
    # sums of wins and of comparisons by source of the one video and of the other
    member = (index[:, None] == np.arange(len(names))[None, :]).astype(np.float64)
    sums, counts = member.T @ wins @ member, np.outer(member.sum(0), member.sum(0))
    own = (np.sign(one - other) + 1) / 2
    interval = None
    if len(names) > 2:
        left = [_without(sums, number) / _without(counts, number) for number in range(len(names))]
        spread = np.sqrt((len(names) - 1) / len(names) * ((np.array(left) - np.mean(left)) ** 2).sum())
        half = float(stats.t.isf(ALPHA / 2, len(names) - 1) * spread)
        middle = float(wins.mean())
        interval = Interval(max(0.0, middle - half), min(1.0, middle + half))
        if half <= NO_WIDTH:
            wilson = clustered_interval(own.tolist(), sources)
            interval = None if wilson is None else Interval(wilson.low, wilson.high)
    return Auc(float(wins.mean()), interval, float(own.mean()), len(high), len(names))


def _without(table: np.ndarray[tuple[int, int], np.dtype[np.float64]], number: int) -> float:
    return float(table.sum() - table[number].sum() - table[:, number].sum() + table[number, number])
