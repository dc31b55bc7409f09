"""Compare evaluators: a sign-flip test by source on common pairs, and Holm's correction."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from storage_schemas.rng import keyed_rng
from tasks.statistics.intervals import Interval, effective_n, mean_interval
from tasks.statistics.power import difference_shown, pairs_for_two_evaluators
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy, Trial, Who, grouped, pair_points

#: Up to this number of distinct sums, the test uses all signs; with more, drawn ones.
MAX_SUMS = 1 << 16
DRAWS = 9_999
#: Means of up to 16 answers are whole numbers in this unit, so that equal sums are equal.
_UNIT = 720_720


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two evaluators on the pairs both answered.

    Parameters
    ----------
    pairs, sources
        Number of pairs with points from both, and of their sources.
    equal, first_better, second_better
        Number of pairs by which evaluator has more points. If every pair is right or wrong, the last two are
        the discordant cells of McNemar's table; a pair answered differently in the two orders has half a
        point.
    difference
        Mean points of the first minus those of the second; None without common pairs.
    interval
        Interval of the difference, from the variance clustered by source and t with one degree of freedom
        fewer than sources; None for fewer than two sources, or if the difference is the same on every pair.
    effective_pairs
        Number of pairs of different sources whose mean difference varies as much.
    exact
        Whether p is over all signs rather than drawn ones.
    p
        Two-sided, of the sign-flip test by source; 1 if the two never differ, None without common pairs.
    """

    pairs: int
    sources: int
    equal: int
    first_better: int
    second_better: int
    difference: float | None
    interval: Interval | None
    effective_pairs: float | None
    exact: bool
    p: float | None

    @property
    def discordant(self) -> float:
        """Share of the pairs on which the two have different points."""
        return (self.first_better + self.second_better) / self.pairs if self.pairs else 0.0

    def difference_shown(self) -> float | None:
        """Return the smallest difference that these pairs can detect; None if they show none."""
        return difference_shown(self.effective_pairs, self.discordant) if self.effective_pairs else None

    def pairs_needed(self, difference: float) -> int | None:
        """Return how many pairs show a difference if pairs of a source are as alike as here.

        Returns
        -------
        int or None
            None if the two differ more rarely than that, or the difference is 0.
        """
        if not self.effective_pairs or not 0 < abs(difference) <= self.discordant + 1e-12:
            return None
        independent = pairs_for_two_evaluators(difference, self.discordant)
        return math.ceil(independent * self.pairs / self.effective_pairs - 1e-9)


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """One comparison of a family; `p_holm` is its p corrected for the whole family."""

    aspect: str
    first: Who
    second: Who
    comparison: Comparison
    p_holm: float | None = None


def compare(first: Sequence[Trial], second: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> Comparison:
    """Return the sign-flip test of two evaluators on their common pairs.

    Raises
    ------
    ValueError
        If either has trials of several evaluators.
    """
    ours, theirs = pair_points(first, ties), pair_points(second, ties)
    common = [pair for pair in ours if pair in theirs]
    differences = np.array([ours[pair] - theirs[pair] for pair in common], np.float64)
    names = sorted(part for trials in (first, second) for part in (trials[0].who if trials else ()))
    return compare_points(differences, [pair.source_id for pair in common], *names)


def compare_points(differences: NDArray[np.float64], sources: Sequence[str], *key: str) -> Comparison:
    """Return the comparison from the difference of points on each pair, and the pair's source.

    Parameters
    ----------
    key
        Of signs, if they are drawn.
    """
    n, better, worse = len(differences), int((differences > 0).sum()), int((differences < 0).sum())
    exact, p = sign_flip_p(_source_sums(differences, sources), *key)
    return Comparison(
        pairs=n,
        sources=len(set(sources)),
        equal=n - better - worse,
        first_better=better,
        second_better=worse,
        difference=float(differences.mean()) if n else None,
        interval=_interval(differences, sources),
        effective_pairs=effective_n(differences, sources) if n else None,
        exact=exact,
        p=p if n else None,
    )


def _source_sums(differences: NDArray[np.float64], sources: Sequence[str]) -> list[int]:
    """Return each source's sum of differences in :data:`_UNIT`, without those that are 0."""
    sums: Counter[str] = Counter()
    for difference, source in zip(
        np.rint(differences * _UNIT).astype(np.int64).tolist(), sources, strict=True
    ):
        sums[source] += difference
    return [one for one in sums.values() if one]


def sign_flip_p(sums: Sequence[int], *key: str) -> tuple[bool, float]:
    """Test whether the sum of independent numbers is 0, and return whether it is exact, and p (two-sided).

    If the numbers are as often positive as negative, each set of signs is as likely as the observed one: p is
    the share of these whose sum is at least as far from 0. For numbers of equal size that is McNemar's exact
    test. Answers to one source count as one number, so that it does not matter how alike they are.

    Parameters
    ----------
    key
        Of the drawn signs.
    """
    sizes = sorted(map(abs, sums))
    observed = abs(sum(sums))
    possible: NDArray[np.int64] = np.zeros(1, np.int64)
    weights: NDArray[np.float64] = np.ones(1)
    for size, times in Counter(sizes).items():
        steps = size * (2 * np.arange(times + 1) - times)
        if len(possible) * len(steps) > MAX_SUMS:
            break
        possible, indices = np.unique(np.add.outer(possible, steps), return_inverse=True)
        each = np.multiply.outer(weights, binom.pmf(np.arange(times + 1), times, 0.5))
        weights = np.bincount(indices.ravel(), each.ravel()).astype(np.float64)
    else:
        beyond = np.abs(possible) >= observed
        # without rounding
        return True, 1.0 if beyond.all() else float(weights[beyond].sum())
    rng = keyed_rng(DRAWS, "sign-flips", *key)
    drawn = rng.choice(np.array([-1, 1]), (DRAWS, len(sizes))) @ np.array(sizes)
    return False, float(1 + (np.abs(drawn) >= observed).sum()) / (1 + DRAWS)


def _interval(differences: NDArray[np.float64], sources: Sequence[str]) -> Interval | None:
    if not sources or bool((differences == differences[0]).all()):
        return None
    found = mean_interval(differences, sources)
    if found is None or found.low == found.high:
        return None
    return Interval(max(-1.0, found.low), min(1.0, found.high))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's corrected p-values of one family, in the given order.

    None stands for a test that could not be made; it stays None and does not count in the family.
    """
    corrected: list[float | None] = [None] * len(p_values)
    ordered = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, index) in enumerate(ordered):
        largest = max(largest, min(1.0, p * (len(ordered) - rank)))
        corrected[index] = largest
    return corrected


def compare_all(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> tuple[FamilyMember, ...]:
    """Return every comparison of two evaluators on each aspect; an aspect's comparisons are one family."""
    members: list[FamilyMember] = []
    for aspect, together in grouped(trials, lambda trial: trial.pair.aspect).items():
        by_evaluator = grouped(together, lambda trial: trial.who)
        family = [
            FamilyMember(aspect, first, second, compare(by_evaluator[first], by_evaluator[second], ties))
            for first, second in combinations(by_evaluator, 2)
        ]
        corrected = holm([member.comparison.p for member in family])
        members += [replace(member, p_holm=p) for member, p in zip(family, corrected, strict=True)]
    return tuple(members)
