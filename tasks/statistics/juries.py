"""Juries of evaluators over answers that exist: majorities, fitted weights, the best jury, alike errors.

On a pair each member has one vote: for the video that its points prefer over all orders and repeats, or for
neither. Pairs with a gold tie do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from storage_schemas.ids import digest_text
from tasks.statistics.intervals import ClusteredInterval, Interval, clustered_interval, jackknife_intervals
from tasks.statistics.trials import DEFAULT_TIES, TiePolicy, Trial, TrialPair, pair_points

Floats = NDArray[np.float64]
#: The indices of a jury's members, and its cost on one pair.
_Jury = tuple[tuple[int, ...], float | None]

#: Sources are divided into up to this number of folds.
FOLDS = 10
#: Among more evaluators the best jury is sought among the most accurate ones.
MAX_SEARCHED = 12
#: Penalty of the squared weights: a prior that votes say little.
RIDGE = 1.0


@dataclass(frozen=True, eq=False)
class Ballots:
    """The votes of several evaluators on the pairs that all answered.

    Parameters
    ----------
    members
        Names of the evaluators.
    votes
        By pair and member: 1 for the high-quality video, −1 for the other, 0 for neither.
    """

    members: tuple[str, ...]
    pairs: tuple[TrialPair, ...]
    votes: Floats

    @property
    def sources(self) -> list[str]:
        """The source of each pair."""
        return [pair.source_id for pair in self.pairs]

    def folds(self) -> NDArray[np.int64]:
        """Return the fold of each pair; all pairs of a source are in the same one."""
        ordered = sorted(set(self.sources), key=lambda source: (digest_text(source), source))
        fold = {source: number % FOLDS for number, source in enumerate(ordered)}
        return np.array([fold[source] for source in self.sources], np.int64)


def ballots_of(trials: Mapping[str, Sequence[Trial]], ties: TiePolicy = DEFAULT_TIES) -> Ballots:
    """Return the votes of evaluators, by name, on the pairs that all of them have points on."""
    points = [pair_points(some, ties) for some in trials.values()]
    common = [
        pair
        for pair in (points[0] if points else ())
        if not pair.gold_tie and all(pair in by_pair for by_pair in points)
    ]
    values = np.array([[by_pair[pair] for by_pair in points] for pair in common], np.float64)
    votes = np.sign(np.round(values - 0.5, 9)).reshape(len(common), len(points))
    return Ballots(tuple(trials), tuple(common), votes)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A jury's accuracy on pairs, with its interval clustered by source; both None without pairs."""

    pairs: int
    accuracy: float | None
    clustered: ClusteredInterval | None


def verdicts_of(points: Floats, sources: Sequence[str]) -> Verdicts:
    """Return the accuracy of a jury from its points on each pair."""
    values = points.tolist()
    accuracy = sum(values) / len(values) if values else None
    return Verdicts(len(values), accuracy, clustered_interval(values, sources))


def majority_points(votes: Floats) -> Floats:
    """Return the points of a majority of equal votes on each pair; half a point if there is none."""
    return np.asarray((np.sign(votes.sum(axis=-1)) + 1) / 2, np.float64)


def fitted_weights(votes: Floats) -> Floats:
    """Return the weights under which the votes make the right answers most probable.

    A logistic regression without intercept, with the penalty :data:`RIDGE` / 2 · Σ weight². Members that err
    together share their weight; one that is mostly wrong has a negative weight.
    """
    weights = np.zeros(votes.shape[1])
    for _ in range(50):
        wrong = 1 / (1 + np.exp(votes @ weights))
        gradient = votes.T @ wrong - RIDGE * weights
        bend = (votes * (wrong * (1 - wrong))[:, None]).T @ votes + RIDGE * np.eye(len(weights))
        step = np.linalg.solve(bend, gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-10:
            break
    return weights


def weighted_points(ballots: Ballots) -> Floats | None:
    """Return the points of a weighted vote on each pair; its weights are fitted on the other folds' sources.

    Returns
    -------
    array or None
        None for fewer than two sources.
    """
    folds = ballots.folds()
    if len(set(folds.tolist())) < 2:
        return None
    points = np.empty(len(folds))
    for fold in sorted(set(folds.tolist())):
        inside = folds == fold
        sums = ballots.votes[inside] @ fitted_weights(ballots.votes[~inside])
        points[inside] = (np.sign(np.round(sums, 9)) + 1) / 2
    return points


@dataclass(frozen=True, slots=True)
class BestJury:
    """The most accurate jury of a size.

    Parameters
    ----------
    members
        Their names.
    cost
        Of all members on one pair; None if one is unknown.
    chosen
        Its accuracy on the pairs on which it was chosen, which is optimistic.
    held_out
        The accuracy of this way of choosing: in each fold, of the jury chosen on the other folds' sources.
        None for fewer than two sources.
    """

    members: tuple[str, ...]
    cost: float | None
    chosen: Verdicts
    held_out: Verdicts | None


def searched_members(ballots: Ballots) -> list[int]:
    """Return the indices of the evaluators among which juries are sought, in their order."""
    accuracy = ballots.votes.sum(axis=0)
    indices = sorted(range(len(ballots.members)), key=lambda index: (-accuracy[index], index))
    return sorted(indices[:MAX_SEARCHED])


def best_juries(
    ballots: Ballots, costs: Mapping[str, float | None], most: int, price: float | None = None
) -> tuple[BestJury, ...]:
    """Return the best jury by majority for each size, over all juries of that size.

    Equal accuracies go to the cheaper one. Of more than :data:`MAX_SEARCHED` evaluators, only the most
    accurate take part.

    Parameters
    ----------
    costs
        Cost of each member on one pair; None if it is unknown.
    most
        Largest size.
    price
        Highest cost on one pair; juries of unknown cost are then left out.
    """
    if not ballots.pairs:
        return ()
    folds = ballots.folds()
    names = sorted(set(folds.tolist()))
    inside = np.array([folds == fold for fold in names], np.float64)
    best = []
    for size in range(1, min(most, len(ballots.members)) + 1):
        juries: list[_Jury] = []
        for indices in combinations(searched_members(ballots), size):
            cost = _cost([costs.get(ballots.members[index]) for index in indices])
            if price is None or (cost is not None and cost <= price + 1e-12):
                juries.append((indices, cost))
        if not juries:
            continue
        # by jury and fold
        sums = np.array([inside @ majority_points(ballots.votes[:, list(indices)]) for indices, _ in juries])
        sums = sums.round(9)
        indices, cost = _best(juries, sums.sum(axis=1))
        held_out = None
        if len(names) > 1:
            points = np.empty(len(folds))
            for number, fold in enumerate(names):
                other = _best(juries, sums.sum(axis=1) - sums[:, number])[0]
                points[folds == fold] = majority_points(ballots.votes[:, list(other)])[folds == fold]
            held_out = verdicts_of(points, ballots.sources)
        own = verdicts_of(majority_points(ballots.votes[:, list(indices)]), ballots.sources)
        best.append(BestJury(tuple(ballots.members[index] for index in indices), cost, own, held_out))
    return tuple(best)


def _best(juries: Sequence[_Jury], totals: Floats) -> _Jury:
    """Return the jury with the most points; of equal ones, the cheapest, and then the first."""
    most = totals.max()
    equal = [jury for jury, total in zip(juries, totals, strict=True) if total >= most - 1e-6]
    return min(equal, key=lambda jury: float("inf") if jury[1] is None else jury[1])


def _cost(costs: Sequence[float | None]) -> float | None:
    paid = [cost for cost in costs if cost is not None]
    return sum(paid) if len(paid) == len(costs) else None


@dataclass(frozen=True, slots=True)
class ErrorAgreement:
    """How alike the errors of two evaluators are: 0 for independent ones.

    Parameters
    ----------
    pairs
        Number of pairs that both answered.
    correlation
        Pearson's r of errors: 1 for a wrong vote, 0.5 for a vote for neither.
    kappa
        Cohen's kappa of errors, with linear weights; for votes without neither it is the plain one.
    correlation_interval, kappa_interval
        By deleting one source at a time.
    """

    pairs: int
    correlation: float | None
    correlation_interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None


def error_agreement(ballots: Ballots) -> ErrorAgreement:
    """Return how alike the errors of two evaluators are; None where one has no or only errors."""
    first, second = ((1 - ballots.votes) / 2).T
    kinds = [(one == kind).astype(float) for one in (first, second) for kind in (0.0, 0.5, 1.0)]
    columns = [np.ones(len(first)), first, second, first**2, second**2, first * second]
    sums = np.column_stack([*columns, np.abs(first - second), *kinds])
    if not len(sums):
        return ErrorAgreement(0, None, None, None, None)
    correlation, kappa = _alike(sums.sum(axis=0)).tolist()
    ends = [
        one and Interval(max(-1.0, one.low), min(1.0, one.high))
        for one in jackknife_intervals(sums, ballots.sources, _alike)
    ]
    return ErrorAgreement(len(sums), _number(correlation), ends[0], _number(kappa), ends[1])


def _alike(sums: Floats) -> Floats:
    """Return the correlation and kappa of sums, nan where there is none."""
    n, first, second, squares, others, both, apart, *kinds = np.moveaxis(sums, -1, 0)
    values = (0.0, 0.5, 1.0)
    expected = sum(
        abs(one - other) * kinds[index] * kinds[3 + at]
        for index, one in enumerate(values)
        for at, other in enumerate(values)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt((n * squares - first**2) * (n * others - second**2))
        return np.stack([(n * both - first * second) / spread, 1 - n * apart / expected], axis=-1)


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
