"""Wordings of a judge: how far its accuracies lie apart, and what the words have of the variance of answers.

Pairs and wordings are crossed; orders are nested in these, and repeats in orders. A tie counts half a point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tasks.statistics.intervals import (
    ALPHA,
    NO_WIDTH,
    ClusteredInterval,
    Interval,
    clustered_interval,
    jackknife_intervals,
)
from tasks.statistics.repeats import Component
from tasks.statistics.trials import BOTH_ORDERS, Trial, TrialPair, points_of

#: The components, in the order of :attr:`Wordings.components`.
PARTS = ("pair", "wording", "pair and wording", "order", "repeat")


#: Share of the pairs of the fullest wording that another has to have: a run may have ended early.
_ENOUGH = 0.5


@dataclass(frozen=True, slots=True)
class Wordings:
    """A judge's answers in several wordings, on the pairs that have all of them.

    Parameters
    ----------
    accuracies
        Accuracy with its interval, clustered by source, by wording.
    pairs, orders, repeats
        Number of pairs, of orders of each, and of answers to each request.
    deviation
        Standard deviation of the accuracies.
    another
        Where the accuracy on these pairs with one more wording of the kind would lie, at 95 %; None if all
        accuracies are equal, which says nothing about others.
    components
        The variance of single answers by :data:`PARTS`. Without repeats that of repeats is in that of orders,
        and is None, as is that of orders with one order.
    """

    accuracies: Mapping[str, tuple[float, ClusteredInterval]]
    pairs: int
    orders: int
    repeats: int
    deviation: float
    another: Interval | None
    components: tuple[Component | None, ...]

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return sum(accuracy for accuracy, _ in self.accuracies.values()) / len(self.accuracies)


def wordings_of(trials: Mapping[str, Sequence[Trial]]) -> Wordings | None:
    """Return what several wordings of one judge change.

    Parameters
    ----------
    trials
        By wording.

    Returns
    -------
    Wordings or None
        None unless two wordings share two pairs. Wordings with answers on less than half as many pairs as the
        fullest are left out, then pairs without an answer in each order of each wording, and repeats that not
        all have.
    """
    every = {name: _points(some) for name, some in trials.items()}
    enough = max(1, _ENOUGH * max(map(len, every.values()), default=0))
    answers = {name: some for name, some in every.items() if len(some) >= enough}
    # an order that is drawn by pair is one order
    nested: tuple[str | None, ...] = BOTH_ORDERS if _asks_both(answers) else (None,)
    pairs = dict.fromkeys(pair for some in answers.values() for pair in some)
    complete = [(pair, cell) for pair in pairs if (cell := _complete(answers, pair, nested))]
    if len(answers) < 2 or len(complete) < 2:
        return None
    repeats = min(len(one) for _, cell in complete for by_order in cell for one in by_order)
    # pair, wording, order, repeat
    points = np.array([[[one[:repeats] for one in by_order] for by_order in cell] for _, cell in complete])
    sources = [pair.source_id for pair, _ in complete]
    means = points.mean((2, 3))
    accuracies = {}
    for index, name in enumerate(answers):
        interval = clustered_interval(means[:, index].tolist(), sources)
        assert interval is not None
        accuracies[name] = (float(means[:, index].mean()), interval)
    values, count = means.mean(0), len(answers)
    deviation = float(values.std(ddof=1))
    half = float(stats.t.isf(ALPHA / 2, count - 1)) * deviation * math.sqrt(1 + 1 / count)
    middle = float(values.mean())
    return Wordings(
        accuracies=accuracies,
        pairs=len(complete),
        orders=len(nested),
        repeats=repeats,
        deviation=deviation,
        another=Interval(max(0.0, middle - half), min(1.0, middle + half)) if half > NO_WIDTH else None,
        components=_components(points, sources),
    )


_Answers = Mapping[str, Mapping[TrialPair, Mapping[str | None, list[float]]]]


def _points(trials: Sequence[Trial]) -> dict[TrialPair, dict[str | None, list[float]]]:
    """Return the points of each pair by order, in the order of the repeats."""
    found: dict[TrialPair, dict[str | None, list[float]]] = {}
    answered = [trial for trial in trials if not trial.pair.gold_tie]
    for trial in sorted(answered, key=lambda one: one.repeat):
        points = points_of(trial, "half")
        if points is not None:
            found.setdefault(trial.pair, {}).setdefault(trial.order, []).append(points)
    return found


def _asks_both(answers: _Answers) -> bool:
    return any(set(BOTH_ORDERS) <= set(by_order) for some in answers.values() for by_order in some.values())


def _complete(answers: _Answers, pair: TrialPair, orders: Sequence[str | None]) -> list[list[list[float]]]:
    """Return a pair's points by wording and order; none if one has no answer."""
    cell = []
    for some in answers.values():
        by_answer_order = some.get(pair, {})
        if orders == (None,):
            by_order = [[one for every in by_answer_order.values() for one in every]]
        else:
            by_order = [by_answer_order.get(order, []) for order in orders]
        if not all(by_order):
            return []
        cell.append(by_order)
    return cell


def _components(points: NDArray[np.float64], sources: Sequence[str]) -> tuple[Component | None, ...]:
    """Return the components by analysis of variance; a negative estimate counts as 0."""
    _, wordings, orders, repeats = points.shape
    cells, means = points.mean(3), points.mean((2, 3))
    within = ((points - cells[..., None]) ** 2).sum((1, 2, 3))
    between = ((cells - means[..., None]) ** 2).sum((1, 2))
    by_pair = means.sum(1) ** 2 / wordings
    # what a pair adds to the sums that the estimates are made of
    sums = np.column_stack([np.ones(len(points)), within, between, (means**2).sum(1), by_pair, means])

    def estimates(total: NDArray[np.float64]) -> NDArray[np.float64]:
        n, repeat_sum, order_sum, every, pair_sum = np.moveaxis(total[..., :5], -1, 0)
        columns = total[..., 5:]
        wording_sum = (columns**2).sum(-1) / n
        mean_sum = columns.sum(-1) ** 2 / (n * wordings)
        with np.errstate(divide="ignore", invalid="ignore"):
            repeat = repeat_sum / (n * wordings * orders * max(repeats - 1, 1))
            order = order_sum / (n * wordings * max(orders - 1, 1)) - repeat / repeats
            # of a pair's mean in one wording
            noise = (order if orders > 1 else 0) / orders + repeat / (repeats * orders)
            both = (every - pair_sum - wording_sum + mean_sum) / ((n - 1) * (wordings - 1))
            pair = ((pair_sum - mean_sum) / (n - 1) - both) / wordings
            wording = ((wording_sum - mean_sum) / (wordings - 1) - both) / n
        return np.stack([pair, wording, both - noise, order, repeat], axis=-1)

    estimable = (True, True, True, orders > 1, repeats > 1)
    found = estimates(sums.sum(axis=0))
    variances = [
        max(0.0, float(one)) if is_there else 0.0 for one, is_there in zip(found, estimable, strict=True)
    ]
    whole = sum(variances)
    made: list[Component | None] = []
    intervals = jackknife_intervals(sums, sources, estimates)
    for variance, interval, is_there in zip(variances, intervals, estimable, strict=True):
        kept = None if interval is None else Interval(max(0.0, interval.low), max(0.0, interval.high))
        made.append(Component(variance, variance / whole if whole else None, kept) if is_there else None)
    return tuple(made)


def trials_by_wording(
    wording_trials: Mapping[tuple[str, str], Sequence[Trial]], own: Mapping[str, Sequence[Trial]]
) -> dict[str, dict[str, Sequence[Trial]]]:
    """Return the trials of each judge by wording; its own words are called by the empty text.

    Parameters
    ----------
    own
        Of the evaluators in their own words, by name. One that answered a request with several settings is
        left out: it is not known which of them the wordings are of. So is a wording whose text was changed.
    """
    made: dict[str, dict[str, Sequence[Trial]]] = {}
    for (name, wording), some in wording_trials.items():
        if name not in made:
            trials = own.get(name, ())
            made[name] = {"": trials} if trials and _have_one_answer(trials) else {}
        if _have_one_answer(some):
            made[name][wording] = some
    return made


def _have_one_answer(trials: Sequence[Trial]) -> bool:
    """Return whether each request was answered with one text and settings."""
    return len({(trial.pair, trial.order, trial.repeat) for trial in trials}) == len(trials)
