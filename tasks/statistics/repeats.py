"""Repeats of a request: how often answers flip, what a majority gains, and whether more repeats pay.

A tie counts half a point here, failed requests and pairs with a gold tie do not count, and a pair that is
asked in both orders needs an answer in both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from storage_schemas.judgements import Order
from tasks.statistics.cells import MIN_SHARE
from tasks.statistics.intervals import (
    ALPHA,
    ClusteredInterval,
    Interval,
    clustered_interval,
    effective_n,
    jackknife_intervals,
)
from tasks.statistics.trials import (
    BOTH_ORDERS,
    Trial,
    TrialPair,
    both_order_aspects,
    grouped,
    of_one_evaluator,
    points_of,
)

#: Numbers of repeats whose predicted intervals are compared.
PLANNED = (1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True)
class Answers:
    """Number of answers to a pair in one order, by outcome."""

    right: int
    tie: int
    wrong: int

    @property
    def count(self) -> int:
        """Number of answers."""
        return self.right + self.tie + self.wrong

    @property
    def points(self) -> float:
        """Mean points."""
        return (self.right + self.tie / 2) / self.count

    @property
    def flip_rate(self) -> float | None:
        """Share of the pairs of two answers that differ; None for fewer than two answers."""
        if self.count < 2:
            return None
        equal = sum(n * (n - 1) for n in (self.right, self.tie, self.wrong))
        return 1 - equal / (self.count * (self.count - 1))

    def majority(self, k: int) -> float:
        """Return the mean points of the majority of `k` answers, over all sets of `k` of them.

        A tie votes for neither video, and a majority for neither is half a point.
        """
        total = 0.0
        for right in range(min(k, self.right) + 1):
            for wrong in range(min(k - right, self.wrong) + 1):
                sets = math.comb(self.right, right) * math.comb(self.wrong, wrong)
                sets *= math.comb(self.tie, k - right - wrong)
                total += sets * (0.5 if right == wrong else float(right > wrong))
        return total / math.comb(self.count, k)


@dataclass(frozen=True, slots=True)
class RepeatedPair:
    """One evaluator's answers to a pair, by order; at least one order has several."""

    pair: TrialPair
    answers: dict[Order, Answers]

    @property
    def flip_rate(self) -> float:
        """Mean flip rate of the orders with several answers."""
        rates = [one.flip_rate for one in self.answers.values() if one.flip_rate is not None]
        return sum(rates) / len(rates)

    @property
    def points(self) -> float:
        """Mean points of the orders."""
        return sum(one.points for one in self.answers.values()) / len(self.answers)

    @property
    def repeats(self) -> int:
        """Number of answers that every order has."""
        return min(one.count for one in self.answers.values())


def repeated_pairs(trials: Sequence[Trial]) -> tuple[RepeatedPair, ...]:
    """Return the pairs to which one evaluator gave several answers in the same order.

    Raises
    ------
    ValueError
        If the trials come from several evaluators.
    """
    of_one_evaluator(trials)
    both = both_order_aspects(trials)
    found = []
    answered = [trial for trial in trials if trial.preferred is not None and not trial.pair.gold_tie]
    for pair, some in grouped(answered, lambda trial: trial.pair).items():
        by_order = grouped(some, lambda trial: trial.order)
        complete = pair.aspect not in both or set(BOTH_ORDERS) <= set(by_order)
        if complete and any(len(one) > 1 for one in by_order.values()):
            answers = {order: _answers(by_order[order]) for order in sorted(by_order)}
            found.append(RepeatedPair(pair, answers))
    return tuple(found)


def _answers(trials: Sequence[Trial]) -> Answers:
    counts = Counter(points_of(trial, "half") for trial in trials)
    return Answers(counts[1.0], counts[0.5], counts[0.0])


def flip_interval(pairs: Sequence[RepeatedPair]) -> ClusteredInterval | None:
    """Return the interval of the mean flip rate of pairs, clustered by source."""
    return clustered_interval([one.flip_rate for one in pairs], [one.pair.source_id for one in pairs])


def flip_rate(pairs: Sequence[RepeatedPair]) -> float | None:
    """Return how often two answers to the same request differ: the mean over pairs; None without any."""
    return sum(one.flip_rate for one in pairs) / len(pairs) if pairs else None


@dataclass(frozen=True, slots=True)
class MajorityPoint:
    """Accuracy of the majority of `k` answers on that number of pairs."""

    k: int
    pairs: int
    accuracy: float
    clustered: ClusteredInterval


def majority_curve(pairs: Sequence[RepeatedPair]) -> tuple[MajorityPoint, ...]:
    """Return the accuracy of the majority of 1, 3, 5, … answers, all on the same pairs.

    It goes up to the number of answers in each order that 90 % of the pairs have; the others are left out.
    An even number is left out, because without ties it has the accuracy of the odd number below.
    """
    if not pairs:
        return ()
    counts = sorted(one.repeats for one in pairs)
    most = counts[math.floor((1 - MIN_SHARE) * len(counts) + 1e-9)]
    repeated = [one for one in pairs if one.repeats >= most]
    sources = [one.pair.source_id for one in repeated for _ in one.answers]
    points = []
    for k in range(1, most + 1, 2):
        values = [answers.majority(k) for one in repeated for answers in one.answers.values()]
        interval = clustered_interval(values, sources)
        assert interval is not None
        points.append(MajorityPoint(k, len(repeated), sum(values) / len(values), interval))
    return tuple(points)


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the variance of points; its interval is None where deleting a source leaves no estimate."""

    variance: float
    share: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Components:
    """The variance of single answers' points, split into its parts.

    Parameters
    ----------
    pair
        Between pairs: some are harder.
    order
        Between the two orders of a pair; 0 if each has one.
    repeat
        Between repeats of the same request.
    """

    pair: Component
    order: Component
    repeat: Component

    def of_mean(self, orders: int, repeats: float) -> float:
        """Return the variance of a pair's mean points over these numbers of orders and repeats."""
        within = self.order.variance + self.repeat.variance / repeats
        return self.pair.variance + within / orders


def variance_components(pairs: Sequence[RepeatedPair]) -> Components | None:
    """Return the variance components of points, by the analysis of variance of nested random effects.

    The mean squares of pairs, of orders within pairs and of repeats within orders are equated with their
    expectations, for any numbers of answers (Searle, Casella and McCulloch 1992, section 5.3 and appendix F);
    with equal numbers these are the textbook's. A negative estimate counts as 0. Intervals delete one source
    at a time (jackknife).

    Returns
    -------
    Components or None
        None for fewer than two pairs.
    """
    if len(pairs) < 2:
        return None
    sums = np.array([_sums(one) for one in pairs])
    estimates = _estimates(sums.sum(axis=0))
    intervals = jackknife_intervals(sums, [one.pair.source_id for one in pairs], _estimates)
    variances = [max(0.0, float(one)) for one in estimates]
    total = sum(variances)
    made = []
    for variance, interval in zip(variances, intervals, strict=True):
        kept = None if interval is None else Interval(max(0.0, interval.low), max(0.0, interval.high))
        made.append(Component(variance, variance / total if total else None, kept))
    return Components(*made)


def _sums(one: RepeatedPair) -> list[float]:
    """Return what a pair adds to the sums that the estimates are made of."""
    counts = [answers.count for answers in one.answers.values()]
    totals = [answers.count * answers.points for answers in one.answers.values()]
    squares = [answers.right + answers.tie / 4 for answers in one.answers.values()]
    n, total = sum(counts), sum(totals)
    return [
        1.0,
        len(counts),
        n,
        total,
        sum(squares),
        sum(part**2 / count for part, count in zip(totals, counts, strict=True)),
        total**2 / n,
        n**2,
        sum(count**2 for count in counts),
        sum(count**2 for count in counts) / n,
    ]


def _estimates(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the components of pair, order and repeat, nan where there is no estimate."""
    a, b, n, total, squares, by_order, by_pair, n_pair, n_order, within = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        repeat = (squares - by_order) / (n - b)
        order = np.where(b > a, (by_order - by_pair - (b - a) * repeat) / (n - within), 0.0)
        between = by_pair - total**2 / n - (a - 1) * repeat - (within - n_order / n) * order
        return np.stack([between / (n - n_pair / n), order, repeat], axis=-1)


@dataclass(frozen=True, slots=True)
class RepeatPlan:
    """The predicted 95 % interval of an accuracy with some number of repeats.

    Parameters
    ----------
    repeats, requests
        Number of repeats, and of requests with them on these pairs.
    half
        Predicted ± of the accuracy on these pairs.
    half_more_pairs
        Predicted ± if as many requests were spent on other pairs of the same kind, one repeat each.
    pairs_alike
        Number of pairs that have the ± of `half` with one repeat each.
    """

    repeats: int
    requests: int
    half: float
    half_more_pairs: float
    pairs_alike: int


def repeat_plans(pairs: Sequence[RepeatedPair]) -> tuple[RepeatPlan, ...]:
    """Return the predicted intervals for :data:`PLANNED` repeats, from the variance components.

    A normal approximation. Pairs of a source count as alike as their mean points are here (design effect).
    There are none for fewer than two pairs, or if all answers are equally right.
    """
    components = variance_components(pairs)
    if components is None:
        return ()
    means = np.array([one.points for one in pairs])
    effective = effective_n(means, [one.pair.source_id for one in pairs])
    orders = max(len(one.answers) for one in pairs)
    z = float(stats.norm.isf(ALPHA / 2))
    once = components.of_mean(orders, 1)
    if not once:
        return ()
    plans = []
    for repeats in PLANNED:
        variance = components.of_mean(orders, repeats)
        plans.append(
            RepeatPlan(
                repeats=repeats,
                requests=len(pairs) * orders * repeats,
                half=z * math.sqrt(variance / effective),
                half_more_pairs=z * math.sqrt(once / effective / repeats),
                pairs_alike=math.ceil(len(pairs) * once / variance - 1e-9),
            )
        )
    return tuple(plans)
