"""Who answers with care, and what a pair is: both estimated from the votes together.

The model is Dawid and Skene's (1979) with few kinds of workers instead of a matrix for each, since eight
answers do not fill a matrix. A pair's damage is clear, weak or failed; of a check task it is known. A careful
worker's answers depend on it, in the same way for all careful workers. A careless worker either presses by
habit, whatever the pair shows (MACE, Hovy et al. 2013; each has a habit of their own), or prefers the
opposite of what careful people prefer. A worker may answer the first question with care and the second by
habit, or the other way round.

Pairs and workers are inferred by belief propagation (Liu, Peng and Ihler, 2012): a worker is judged by the
pairs without the worker's own votes, so that nobody agrees with themselves. The careful workers' shares of
right answers are learned by expectation maximisation from a prior.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage_schemas.votes import Check, Vote

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Key = TypeVar("Key", str, tuple[int, int])

#: The states of a pair's damage: clear, weak, failed; of a check task: obvious to everybody, none at all.
CLEAR, WEAK, FAILED, OBVIOUS, NONE = range(5)
_LETTERS = ("A", "B", "C")


class WorkerKind(StrEnum):
    """How a worker answers: the preference, then the rating."""

    CAREFUL = "careful"
    RATES_BY_HABIT = "rates by habit"
    PREFERS_BY_HABIT = "prefers by habit"
    ALL_BY_HABIT = "answers by habit"
    CONTRARY = "prefers the opposite"
    CONTRARY_BY_HABIT = "prefers the opposite, rates by habit"


KINDS = tuple(WorkerKind)
#: Which answers depend on the pair, by kind: the preference (-1: reversed, 0: habit), the rating.
_PREFERENCE = np.array([1, 1, 0, 0, -1, -1])
_RATING = np.array([1, 0, 1, 0, 1, 0])

#: Careful workers, before any vote: share that prefers the high side, and shares of A, B, C, by state.
PRIOR_RIGHT = np.array([0.95, 0.75, 0.5, 0.98, 0.5])
PRIOR_RATINGS = np.array(
    [[0.85, 0.12, 0.03], [0.25, 0.6, 0.15], [0.04, 0.12, 0.84], [0.94, 0.05, 0.01], [0.03, 0.09, 0.88]]
)
#: Shares of the states before any vote; votes that each prior is worth.
PRIOR_STATES = np.array([0.7, 0.2, 0.1, 0.0, 0.0])
_ANSWERS_WORTH, _STATES_WORTH = 100.0, 20.0
#: A habit before any answer: Jeffreys' prior.
_HABIT = 0.5
_ROUNDS, _CLOSE = 60, 1e-4
#: Share of workers expected to be careless, before any vote; shares of the careless kinds among them.
CARELESS = 0.25
_CARELESS_KINDS = np.array([0.3, 0.05, 0.5, 0.05, 0.1])


@dataclass(frozen=True)
class WorkerModel:
    """The estimates.

    Parameters
    ----------
    kinds
        By worker, the probability of each of `KINDS`.
    states
        By pair, the probabilities that its damage is clear, weak, failed.
    right
        Share of careful workers who prefer the high side, by state.
    ratings
        Careful workers' shares of A, B and C, by state: shape (5, 3).
    shares
        By aspect, the shares of the states among its pairs.
    """

    kinds: dict[str, Floats]
    states: dict[str, Floats]
    right: Floats
    ratings: Floats
    shares: dict[str, Floats]

    def without_pairs(self) -> dict[str, Any]:
        """Return the estimates as plain data, without those of pairs, which come from the votes on them."""
        return {
            "kinds": {worker: kinds.tolist() for worker, kinds in self.kinds.items()},
            "right": self.right.tolist(),
            "ratings": self.ratings.tolist(),
            "shares": {aspect: shares.tolist() for aspect, shares in self.shares.items()},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> WorkerModel:
        """Return the model that :meth:`without_pairs` was called of, without its pairs."""
        return cls(
            {worker: np.array(kinds) for worker, kinds in plain["kinds"].items()},
            {},
            np.array(plain["right"]),
            np.array(plain["ratings"]),
            {aspect: np.array(shares) for aspect, shares in plain["shares"].items()},
        )

    def careful(self, worker: str) -> float:
        """Return the probability that a worker is careful; the weight of the worker's votes."""
        return float(self.kinds[worker][0])

    def kind(self, worker: str) -> WorkerKind:
        """Return a worker's most probable kind."""
        return KINDS[int(np.argmax(self.kinds[worker]))]

    def clear(self, pair_id: str) -> float:
        """Return the probability that a pair's damage is clear."""
        return float(self.states[pair_id][CLEAR])

    def clear_by(self, votes: Sequence[Vote], careless: float = CARELESS) -> float:
        """Return the probability that a pair's damage is clear, from the votes on it alone.

        It is quick, since workers stay as they were estimated; one who is new is expected to be careless with
        probability `careless`.
        """
        if not votes:
            return float(PRIOR_STATES[CLEAR])
        states = np.array(self.shares.get(votes[0].aspect, PRIOR_STATES))
        new = _expected(careless)
        for vote in votes:
            kinds, letter = self.kinds.get(vote.worker, new), _LETTERS.index(vote.rating)
            right = self.right if vote.preferred == "high" else 1 - self.right
            # whoever answers by habit says nothing about the pair
            preferred = np.choose(_PREFERENCE[:, None] + 1, [1 - right, 0.5, right])
            rated = np.where(_RATING[:, None] == 1, self.ratings[:, letter], 1 / 3)
            states = states * (kinds @ (preferred * rated))
        return float(states[CLEAR] / states.sum())


def worker_model(votes: Iterable[Vote], careless: float = CARELESS, learn: bool = True) -> WorkerModel:
    """Estimate workers and pairs of one campaign.

    Parameters
    ----------
    votes
        All votes, check tasks included; at most one per worker and task. A repeated pair counts as the pair.
    careless
        Share of workers expected to be careless, in (0, 1).
    learn
        Whether to learn careful workers' shares and the states' from the votes, or keep the priors.
    """
    given = sorted(votes, key=lambda vote: (vote.worker, vote.pair_id))
    if not given:
        return WorkerModel({}, {}, PRIOR_RIGHT, PRIOR_RATINGS, {})
    return _Inference(given, careless).run(learn)


class _Inference:
    """Arrays of one campaign. A unit is a worker's votes on one pair: one, or two if it was repeated."""

    def __init__(self, votes: Sequence[Vote], careless: float) -> None:
        self._prior = np.log(_expected(careless))
        self._workers, worker = _index([vote.worker for vote in votes])
        self._pairs, pair = _index([vote.judged for vote in votes])
        units, self._unit = _index(list(zip(worker.tolist(), pair.tolist(), strict=True)))
        self._worker, self._pair = np.array(units).T
        self._aspects, aspect = _index([vote.aspect for vote in votes])
        self._aspect = np.zeros(len(self._pairs), dtype=np.int64)
        self._aspect[pair] = aspect
        #: the state that is known of a pair, -1 of most
        self._known = np.full(len(self._pairs), -1)
        for vote, place in zip(votes, pair, strict=True):
            if vote.check is Check.EQUAL:
                self._known[place] = NONE
            elif vote.gold and vote.check is None:
                self._known[place] = OBVIOUS
        self._high = np.array([vote.preferred == "high" for vote in votes])
        self._letter = np.array([_LETTERS.index(vote.rating) for vote in votes])
        left = np.array([int(vote.preferred == vote.first) for vote in votes])
        self._habits = (self._by_unit(np.eye(2)[left]), self._by_unit(np.eye(3)[self._letter]))
        self._right, self._ratings = PRIOR_RIGHT, PRIOR_RATINGS
        self._states = np.tile(PRIOR_STATES, (len(self._aspects), 1))

    def run(self, learn: bool) -> WorkerModel:
        """Iterate until no worker's estimate changes."""
        messages = np.zeros((len(self._pair), len(PRIOR_STATES)))
        kinds = np.zeros((len(self._workers), len(KINDS)))
        for _ in range(_ROUNDS):
            before = kinds
            pairs = self._pair_beliefs(messages)
            without = _normal(pairs[self._pair] - messages)
            answers = self._answers()
            fit = _log_sum(without[:, None, :] + answers, 2)[:, :, 0]
            total, others, surprise = self._worker_beliefs(fit)
            joint = (others + surprise)[:, :, None] + answers
            messages, kinds = _log_sum(joint, 1)[:, 0], np.exp(_normal(total))
            if np.max(np.abs(kinds - before)) < _CLOSE:
                break
            if learn:
                self._learn(np.exp(_normal(joint + without[:, None, :], axes=(1, 2)))[:, 0], np.exp(pairs))
        states = np.exp(self._pair_beliefs(messages))
        return WorkerModel(
            dict(zip(self._workers, kinds, strict=True)),
            dict(zip(self._pairs, states, strict=True)),
            self._right,
            self._ratings,
            dict(zip(self._aspects, self._states, strict=True)),
        )

    def _pair_beliefs(self, messages: Floats) -> Floats:
        """Return the logarithms of the pairs' probabilities, shape (pairs, states)."""
        said = np.zeros((len(self._pairs), len(PRIOR_STATES)))
        np.add.at(said, self._pair, messages)
        before = np.where((self._known < 0)[:, None], self._states[self._aspect], np.eye(5)[self._known])
        with np.errstate(divide="ignore"):
            return _normal(np.log(before) + said)

    def _answers(self) -> Floats:
        """Return the logarithms of what depends on the pair, shape (units, kinds, states)."""
        right, wrong = np.log(self._right), np.log(1 - self._right)
        high = self._high[:, None]
        looked = self._by_unit(np.where(high, right, wrong))
        contrary = self._by_unit(np.where(high, wrong, right))
        rated = self._by_unit(np.log(self._ratings).T[self._letter])
        preferred = {1: looked, 0: np.zeros_like(looked), -1: contrary}
        return np.stack([preferred[p] + r * rated for p, r in zip(_PREFERENCE, _RATING, strict=True)], axis=1)

    def _worker_beliefs(self, fit: Floats) -> tuple[Floats, Floats, Floats]:
        """Return logarithms: of workers' kinds, of these without a unit, of a unit's habitual answers.

        The shapes are (workers, kinds), (units, kinds) and (units, kinds).
        """
        fits = np.zeros((len(self._workers), len(KINDS)))
        np.add.at(fits, self._worker, fit)
        habit, others_habit = np.zeros_like(fits), np.zeros_like(fit)
        for counts, depends in zip(self._habits, (_PREFERENCE, _RATING), strict=True):
            total = np.zeros((len(self._workers), counts.shape[1]))
            np.add.at(total, self._worker, counts)
            by_habit = depends == 0
            habit += _of_habit(total)[:, None] * by_habit
            others_habit += _of_habit(total[self._worker] - counts)[:, None] * by_habit
        others = _normal(self._prior + fits[self._worker] - fit + others_habit)
        return self._prior + fits + habit, others, habit[self._worker] - others_habit

    def _learn(self, careful: Floats, pairs: Floats) -> None:
        """Set the shares from units' probabilities of a careful worker and a state, and from pairs'."""
        weight = careful[self._unit]
        right = (weight * self._high[:, None]).sum(axis=0) + _ANSWERS_WORTH * PRIOR_RIGHT
        self._right = right / (weight.sum(axis=0) + _ANSWERS_WORTH)
        rated = weight.T @ np.eye(3)[self._letter] + _ANSWERS_WORTH * PRIOR_RATINGS
        self._ratings = rated / rated.sum(axis=1, keepdims=True)
        # check tasks say nothing about the campaign's pairs
        free = self._known < 0
        states = np.tile(_STATES_WORTH * PRIOR_STATES, (len(self._states), 1))
        np.add.at(states, self._aspect[free], pairs[free])
        self._states = states / states.sum(axis=1, keepdims=True)

    def _by_unit(self, values: Floats) -> Floats:
        added = np.zeros((len(self._pair), values.shape[1]))
        np.add.at(added, self._unit, values)
        return added


def _expected(careless: float) -> Floats:
    """Return the probabilities of the kinds of a worker without votes."""
    return np.array([1 - careless, *(careless * _CARELESS_KINDS)])


def _index(values: Sequence[Key]) -> tuple[list[Key], Integers]:
    """Return the distinct values in order, and the place of each value among them."""
    distinct = sorted(set(values))
    places = {value: place for place, value in enumerate(distinct)}
    return distinct, np.array([places[value] for value in values])


def _normal(logs: Floats, axes: tuple[int, ...] = (1,)) -> Floats:
    normal: Floats = logs - _log_sum(logs, axes)
    return normal


def _log_sum(logs: Floats, axes: int | tuple[int, ...]) -> Floats:
    """Return the logarithm of the sum of exponentials, with the axes kept; at least one is finite.

    SciPy's also takes care of signs, weights and infinities, in four times the time.
    """
    largest = logs.max(axis=axes, keepdims=True)
    added: Floats = largest + np.log(np.exp(logs - largest).sum(axis=axes, keepdims=True))
    return added


def _of_habit(counts: Floats) -> Floats:
    """Return the logarithm of the probability of answers by a habit that is not known."""
    from scipy.special import gammaln  # imported here, since each recipe imports this module

    start = _HABIT * counts.shape[1]
    each = gammaln(counts + _HABIT) - gammaln(_HABIT)
    chance: Floats = each.sum(axis=1) + gammaln(start) - gammaln(counts.sum(axis=1) + start)
    return chance
