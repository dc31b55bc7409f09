"""Compare evaluators: McNemar's test on common pairs, and Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2

from tasks.statistics.intervals import PAPER_Z, Interval, clustered_variance
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy, Trial, Who, grouped, pair_points

#: Below this number of discordant pairs, the exact test is used.
EXACT_BELOW = 25


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two evaluators on the pairs both answered.

    Parameters
    ----------
    pairs
        Number of pairs with points from both.
    equal, first_better, second_better
        Number of pairs by which evaluator has more points. If every pair is right or wrong, the last two are
        the discordant cells of McNemar's table; a pair answered differently in the two orders has half a
        point.
    difference
        Mean points of the first minus those of the second; None without common pairs.
    interval
        Interval of the difference, from the variance clustered by source; None for fewer than two sources, or
        if the difference is the same on every pair.
    exact
        Whether p is exact (binomial) or from the χ² distribution with continuity correction.
    p
        Two-sided; 1 if the two never differ, None without common pairs.
    """

    pairs: int
    equal: int
    first_better: int
    second_better: int
    difference: float | None
    interval: Interval | None
    exact: bool
    p: float | None


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """One comparison of a family; `p_holm` is its p corrected for the whole family."""

    aspect: str
    first: Who
    second: Who
    comparison: Comparison
    p_holm: float | None = None


def compare(first: Sequence[Trial], second: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> Comparison:
    """Return McNemar's test of two evaluators, pair by pair.

    Raises
    ------
    ValueError
        If either has trials of several evaluators.
    """
    ours, theirs = pair_points(first, ties), pair_points(second, ties)
    common = [pair for pair in ours if pair in theirs]
    differences = np.array([ours[pair] - theirs[pair] for pair in common], np.float64)
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    exact = better + worse < EXACT_BELOW
    return Comparison(
        pairs=len(common),
        equal=len(common) - better - worse,
        first_better=better,
        second_better=worse,
        difference=float(differences.mean()) if common else None,
        interval=_interval(differences, [pair.source_id for pair in common]),
        exact=exact,
        p=_mcnemar(better, worse, exact) if common else None,
    )


def _mcnemar(better: int, worse: int, exact: bool) -> float:
    """Return McNemar's p from the discordant cells, the only ones that it uses; 1 without any."""
    discordant = better + worse
    if not discordant:
        return 1.0
    if exact:
        return float(binomtest(better, discordant).pvalue)
    return float(chi2.sf((abs(better - worse) - 1) ** 2 / discordant, 1))


def _interval(differences: NDArray[np.float64], sources: list[str]) -> Interval | None:
    if not sources or bool((differences == differences[0]).all()):
        return None
    variance = clustered_variance(differences, sources)
    if not variance:
        return None
    mean, half = float(differences.mean()), PAPER_Z * variance**0.5
    return Interval(max(-1.0, mean - half), min(1.0, mean + half))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's corrected p-values of one family, in the given order.

    None stands for a test that could not be made; it stays None and does not count in the family.
    """
    corrected: list[float | None] = [None] * len(p_values)
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        corrected[place] = largest
    return corrected


def compare_all(trials: Sequence[Trial], ties: TiePolicy = DEFAULT_TIES) -> tuple[FamilyMember, ...]:
    """Return every comparison of two evaluators on each aspect; an aspect's comparisons are one family."""
    members: list[FamilyMember] = []
    for aspect, together in grouped(trials, lambda trial: trial.pair.aspect).items():
        held = grouped(together, lambda trial: trial.who)
        family = [
            FamilyMember(aspect, first, second, compare(held[first], held[second], ties))
            for first, second in combinations(held, 2)
        ]
        corrected = holm([member.comparison.p for member in family])
        members += [replace(member, p_holm=p) for member, p in zip(family, corrected, strict=True)]
    return tuple(members)
