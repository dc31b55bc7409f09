"""Who answers with care, and what a pair is: both estimated from the votes together.

The model is Dawid and Skene's (1979) with few kinds of workers instead of a matrix for each, since eight
answers do not fill a matrix. A pair's damage is clear, weak or failed; of a check task it is known. A careful
worker's answers depend on it, in the same way for all careful workers except for errors. A careless worker
presses by habit, whatever the pair shows (MACE, Hovy et al. 2013; each has a habit of their own), prefers the
opposite of what careful people prefer, or looks at some tasks only. A worker may answer the first question
with care and the second by habit, or the other way round; cheaters answer check tasks well, or know which
video is the source.

Workers change: a careful one may become careless with any task, and stays so. All tasks at which that may
have happened are weighed (a change point model, exact since there is one change at most).

Pairs and workers are inferred by belief propagation (Liu, Peng and Ihler, 2012): a worker is judged by the
pairs without the worker's own votes, so that workers are not compared with themselves. The careful workers'
shares of right answers are learned by expectation maximisation from a prior.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from itertools import product
from math import exp
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage_schemas.votes import Check, Vote, moment
from tasks.votes.haste import haste

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Key = TypeVar("Key", str, tuple[int, int])

#: The states of a pair's damage: clear, weak, failed; of a check task: obvious, none at all.
CLEAR, WEAK, FAILED, OBVIOUS, NONE = range(5)
_LETTERS = ("A", "B", "C")


class WorkerKind(StrEnum):
    """How a worker answers: the preference, then the rating."""

    CAREFUL = "careful"
    FAIR = "careful, with slips"
    RATES_BY_HABIT = "rates by habit"
    PREFERS_BY_HABIT = "prefers by habit"
    ALL_BY_HABIT = "answers by habit"
    CONTRARY = "prefers the opposite"
    CONTRARY_BY_HABIT = "prefers the opposite, rates by habit"
    HALF = "looks at some of the tasks"
    LAZY_LEFT = "looks at some of the tasks, else left and A"
    LAZY_RIGHT = "looks at some of the tasks, else right and A"
    KNOWS_CHECKS = "answers by habit, but not check tasks"
    KNOWS_SIDES = "knows the source without looking"


KINDS = tuple(WorkerKind)
#: The first kinds are careful.
_CAREFUL = 2
_LOOKS, _HABIT_ANSWER, _OPPOSITE, _SOMETIMES, _KNOWS, _CERTAIN = range(6)
#: On what the preference and the rating depend, by kind.
_PREFERENCE = (
    _LOOKS, _SOMETIMES, _LOOKS, _HABIT_ANSWER, _HABIT_ANSWER, _OPPOSITE, _OPPOSITE, _SOMETIMES, _SOMETIMES,
    _SOMETIMES, _KNOWS, _CERTAIN,
)  # fmt: skip
_RATING = (
    _LOOKS, _SOMETIMES, _HABIT_ANSWER, _LOOKS, _HABIT_ANSWER, _LOOKS, _HABIT_ANSWER, _SOMETIMES, _SOMETIMES,
    _SOMETIMES, _KNOWS, _KNOWS,
)  # fmt: skip
_IS_CAREFUL = np.arange(len(KINDS)) < _CAREFUL
#: The careless kinds that check tasks show: those that answer them otherwise than careful workers do.
_SHOWN_BY_CHECKS = ~_IS_CAREFUL & [
    kind not in (WorkerKind.KNOWS_CHECKS, WorkerKind.KNOWS_SIDES) for kind in KINDS
]
#: Share that prefers the high side, of workers who know it, by state.
_KNOWN_RIGHT = np.array([0.98, 0.98, 0.98, 0.98, 0.5])

#: Careful workers, before any vote: share that prefers the high side, and shares of A, B, C, by state.
PRIOR_RIGHT = np.array([0.95, 0.75, 0.5, 0.98, 0.5])
PRIOR_RATINGS = np.array(
    [[0.85, 0.12, 0.03], [0.25, 0.6, 0.15], [0.04, 0.12, 0.84], [0.94, 0.05, 0.01], [0.03, 0.09, 0.88]]
)
#: Shares of the states before any vote; votes that each prior is worth.
PRIOR_STATES = np.array([0.7, 0.2, 0.1, 0.0, 0.0])
_ANSWERS_WORTH, _STATES_WORTH = 100.0, 20.0
#: Odds that a pair is clear, over those that the model states: votes stop when a pair looks certain, and
#: workers' estimates contain the votes that they weigh. Fitted on simulated crowds, see docs/statistics.md.
CALIBRATED = 0.69
#: A habit before any answer: Jeffreys' prior.
_HABIT = 0.5
_ROUNDS, _CLOSE = 60, 1e-4
#: A worker has probably changed whose probability of being careful fell by this much.
_CHANGED = 0.1
#: Logarithm of the probability of what cannot be; finite, since NumPy has no infinity less infinity.
_NEVER = -1e9
#: Share of workers expected to be careless, before any vote; shares of the careless kinds among them.
CARELESS = 0.25
_CARELESS_KINDS = np.array([0.2, 0.05, 0.3, 0.05, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05])
#: Shares of the careless kinds among workers who were careful before: they look at fewer tasks, or at none.
_CHANGED_KINDS = np.array([0.1, 0.05, 0.2, 0.01, 0.01, 0.3, 0.14, 0.14, 0.04, 0.01])
#: Share of careful workers who slip now and then.
FAIR = 0.2
#: Share of tasks that workers look at who do not look at all of them.
LOOKS = {
    WorkerKind.FAIR: 0.8, WorkerKind.HALF: 0.3, WorkerKind.LAZY_LEFT: 0.3, WorkerKind.LAZY_RIGHT: 0.3
}  # fmt: skip
#: Probability of left, and of A, in the other tasks of the lazy ones.
_LAZY_LEFT = {WorkerKind.LAZY_LEFT: 0.95, WorkerKind.LAZY_RIGHT: 0.05}
_LAZY_LETTERS = np.array([0.9, 0.05, 0.05])
#: Probability that a careful worker becomes careless with the next task.
CHANGES = 0.01


@dataclass(frozen=True)
class WorkerModel:
    """The estimates.

    Parameters
    ----------
    kinds
        By worker, the probability of each of `KINDS` at the worker's last task.
    states
        By pair, the probabilities that its damage is clear, weak, failed.
    right
        Share of careful workers who prefer the high side, by state.
    ratings
        Careful workers' shares of A, B and C, by state: shape (5, 3).
    shares
        By aspect, the shares of the states among its pairs.
    before
        By worker who has probably changed, the time of the last vote before that (ISO 8601), and the
        probabilities of the kinds until then.
    haste
        By worker, how much the times speak for haste, see :func:`tasks.votes.haste.haste`.
    """

    kinds: dict[str, Floats]
    states: dict[str, Floats]
    right: Floats
    ratings: Floats
    shares: dict[str, Floats]
    before: dict[str, tuple[str, Floats]] = field(default_factory=dict)
    haste: dict[str, float] = field(default_factory=dict)

    def without_pairs(self) -> dict[str, Any]:
        """Return the estimates as plain data, without those of pairs, which come from the votes on them."""
        return {
            "kinds": {worker: kinds.tolist() for worker, kinds in self.kinds.items()},
            "right": self.right.tolist(),
            "ratings": self.ratings.tolist(),
            "shares": {aspect: shares.tolist() for aspect, shares in self.shares.items()},
            "before": {worker: [until, kinds.tolist()] for worker, (until, kinds) in self.before.items()},
            "haste": self.haste,
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
            {worker: (until, np.array(kinds)) for worker, (until, kinds) in plain["before"].items()},
            plain["haste"],
        )

    def without_workers(self, left: Collection[str]) -> WorkerModel:
        """Return the model of these workers alone."""
        return replace(
            self,
            kinds={name: kinds for name, kinds in self.kinds.items() if name in left},
            before={name: before for name, before in self.before.items() if name in left},
            haste={name: haste for name, haste in self.haste.items() if name in left},
        )

    def careful(self, worker: str) -> float:
        """Return the probability that a worker was careful in the last task."""
        return float(self.kinds[worker][:_CAREFUL].sum())

    def kind(self, worker: str) -> WorkerKind:
        """Return a worker's most probable kind."""
        return KINDS[int(np.argmax(self.kinds[worker]))]

    def doubt(self, worker: str) -> float:
        """Return the probability that a worker is careless now in a way that check tasks show.

        Unlike :meth:`careful` it takes haste into account. It is 0 if nothing is known of the worker.
        """
        if worker not in self.kinds:
            return 0.0
        shown = float(self.kinds[worker][_SHOWN_BY_CHECKS].sum())
        raised = shown * exp(self.haste.get(worker, 0.0))
        return raised / (raised + 1 - shown)

    def told_by_checks(self, worker: str) -> dict[int, float]:
        """Return what check tasks would tell of a worker in doubt, by the state that is known of them.

        It is the mean log-likelihood ratio of the answer, careless over careful, of one who is careless, in
        nats. A repeated pair is taken as `CLEAR`.
        """
        kinds = self.kinds[worker]
        answers = np.stack(list(self._answers.values()))
        careless, careful = (
            np.tensordot(kinds[which], answers[:, which], axes=(0, 1)) / kinds[which].sum()
            for which in (_SHOWN_BY_CHECKS, _IS_CAREFUL)
        )
        information = (careless * np.log(careless / careful)).sum(axis=0)
        return {state: float(information[state]) for state in (CLEAR, OBVIOUS, NONE)}

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
            answer = (vote.preferred == "high", vote.preferred == vote.first, _LETTERS.index(vote.rating))
            states = states * (self._kinds_at(vote, new) @ self._answers[answer])
        clear = CALIBRATED * states[CLEAR]
        return float(clear / (clear + states[CLEAR + 1 :].sum()))

    @cached_property
    def _answers(self) -> dict[tuple[bool, bool, int], Floats]:
        """The probability of each answer, (high side, left, letter), by kind and state."""
        return {
            answer: self._answer(*answer)
            for answer in product((False, True), (False, True), range(len(_LETTERS)))
        }

    def _answer(self, high: bool, left: bool, index: int) -> Floats:
        right = self.right if high else 1 - self.right
        known = _KNOWN_RIGHT if high else 1 - _KNOWN_RIGHT
        letter = self.ratings[:, index]
        # a worker who answers by habit says nothing about the pair
        coin, any_letter = np.full(5, 0.5), np.full(5, 1 / 3)
        preferred = np.stack([right, coin, 1 - right, coin, coin, known])
        rated = np.stack([letter, any_letter, letter, any_letter, any_letter])
        both: Floats = preferred[list(_PREFERENCE)] * rated[list(_RATING)]
        for kind, looks in LOOKS.items():
            pressed = _pressed(kind, np.array([left]), np.array([index]))[0]
            both[KINDS.index(kind)] = looks * right * letter + (1 - looks) * pressed
        return both

    def _kinds_at(self, vote: Vote, new: Floats) -> Floats:
        """Return the probabilities of a worker's kinds when the worker gave a vote."""
        until, kinds = self.before.get(vote.worker, ("", new))
        if until and vote.at and moment(vote.at) <= moment(until):
            return kinds
        return self.kinds.get(vote.worker, new)


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
    """Arrays of one campaign.

    A unit is a worker's votes on one pair: one, or two if it was repeated. Units are in the order of workers,
    and of a worker's last vote on the pair.
    """

    def __init__(self, votes: Sequence[Vote], careless: float) -> None:
        self._prior = np.log(_expected(careless))
        self._haste = haste(votes)
        self._workers, worker = _index([vote.worker for vote in votes])
        self._pairs, pair = _index([vote.judged for vote in votes])
        keys = list(zip(worker.tolist(), pair.tolist(), strict=True))
        times = [moment(vote.at) for vote in votes]
        last: dict[tuple[int, int], datetime] = {}
        for key, time in zip(keys, times, strict=True):
            last[key] = max(time, last.get(key, time))
        units = sorted(last, key=lambda key: (key[0], last[key], key[1]))
        indices = {key: index for index, key in enumerate(units)}
        self._unit = np.array([indices[key] for key in keys])
        self._worker, self._pair = np.array(units).T
        self._until = [last[key].isoformat() for key in units]
        self._aspects, aspect = _index([vote.aspect for vote in votes])
        self._aspect = np.zeros(len(self._pairs), dtype=np.int64)
        self._aspect[pair] = aspect
        #: the state that is known of a pair, -1 of most
        self._known = np.full(len(self._pairs), -1)
        for vote, index in zip(votes, pair, strict=True):
            if vote.check is Check.EQUAL:
                self._known[index] = NONE
            elif vote.gold and vote.check is None:
                self._known[index] = OBVIOUS
        #: whether a unit is a check task with a known answer
        self._checks = self._known[self._pair] >= 0
        self._high = np.array([vote.preferred == "high" for vote in votes])
        self._letter = np.array([_LETTERS.index(vote.rating) for vote in votes])
        self._left = np.array([vote.preferred == vote.first for vote in votes])
        self._right, self._ratings = PRIOR_RIGHT, PRIOR_RATINGS
        self._states = np.tile(PRIOR_STATES, (len(self._aspects), 1))
        self._rows = _Rows(self._worker, len(self._workers))
        # the order is unknown of votes of the same time, or without one
        later = [k > 0 and last[units[k]] > last[units[k - 1]] for k in range(len(units))]
        self._paths = self._prior_paths(np.array(later, dtype=np.float64))
        habits = (self._by_unit(np.eye(2)[self._left.astype(int)]), self._by_unit(np.eye(3)[self._letter]))
        for counts, depends in zip(habits, (_PREFERENCE, _RATING), strict=True):
            every, unknown = (
                self._habit_from_each(np.where((self._checks & spared)[:, None], 0.0, counts))
                for spared in (False, True)
            )
            self._paths += np.stack(
                [
                    every if one == _HABIT_ANSWER else unknown if one == _KNOWS else np.zeros_like(every)
                    for one in depends
                ],
                axis=2,
            )

    def _prior_paths(self, later: Floats) -> Floats:
        """Return the logarithms of the prior of being of a kind from a task on.

        The shape is (workers, tasks, kinds). Careful workers are careful from the first task on, most
        careless ones careless; the other careless workers are careful before they change.

        Parameters
        ----------
        later
            By unit, 1 if it came later than the one before.
        """
        width = self._rows.width
        paths = np.full((len(self._workers), width, len(KINDS)), _NEVER)
        paths[:, 0] = self._prior
        stays = np.log(1 - CHANGES)
        # only a task that came later than the one before is a chance to change
        may_change = self._rows.spread(later[:, None])[:, :, 0] == 1
        may_change[:, 0] = False
        chances = may_change.cumsum(axis=1)
        changes = np.log(CHANGES) + stays * (chances[:, 1:] - 1)
        paths[:, 1:, _CAREFUL:] = changes[:, :, None] + np.log(_CHANGED_KINDS)
        paths[:, 0, :_CAREFUL] += stays * chances[:, -1:]
        paths[:, 1:][~may_change[:, 1:]] = _NEVER
        return paths

    def _habit_from_each(self, counts: Floats) -> Floats:
        """Return the logarithm of the probability of all answers from each task on, by a habit."""
        rows = self._rows.spread(counts)
        later = np.flip(np.flip(rows, 1).cumsum(axis=1), 1)
        return _of_habit(later.reshape(-1, later.shape[2])).reshape(later.shape[:2])

    def run(self, learn: bool) -> WorkerModel:
        """Iterate until no worker's estimate changes."""
        messages = np.zeros((len(self._pair), len(PRIOR_STATES)))
        kinds = np.zeros((len(self._pair), len(KINDS)))
        for _ in range(_ROUNDS):
            before = kinds
            pairs = self._pair_beliefs(messages)
            without = _normal(pairs[self._pair] - messages)
            answers = self._answers()
            fit = _log_sum(without[:, None, :] + answers, 2)[:, :, 0]
            weights = self._weights(fit)
            joint = (weights - fit)[:, :, None] + answers
            messages, kinds = _log_sum(joint, 1)[:, 0], np.exp(_normal(weights))
            if np.max(np.abs(kinds - before)) < _CLOSE:
                break
            if learn:
                self._learn(np.exp(_normal(joint + without[:, None, :], axes=(1, 2)))[:, 0], np.exp(pairs))
        states = np.exp(self._pair_beliefs(messages))
        return WorkerModel(
            dict(zip(self._workers, kinds[self._rows.last], strict=True)),
            dict(zip(self._pairs, states, strict=True)),
            self._right,
            self._ratings,
            dict(zip(self._aspects, self._states, strict=True)),
            self._before(kinds),
            self._haste,
        )

    def _before(self, kinds: Floats) -> dict[str, tuple[str, Floats]]:
        """Return the last task before a worker's probable change, and the kinds until then."""
        before = {}
        for name, first, last in zip(self._workers, self._rows.first, self._rows.last, strict=True):
            careful = kinds[first : last + 1, :_CAREFUL].sum(axis=1)
            fell = careful[:-1] - careful[1:]
            if careful[0] - careful[-1] > _CHANGED:
                at = first + int(np.argmax(fell))
                before[name] = (self._until[at], kinds[first : at + 1].mean(axis=0))
        return before

    def _pair_beliefs(self, messages: Floats) -> Floats:
        """Return the logarithms of the pairs' probabilities, shape (pairs, states)."""
        evidence = np.zeros((len(self._pairs), len(PRIOR_STATES)))
        np.add.at(evidence, self._pair, messages)
        before = np.where((self._known < 0)[:, None], self._states[self._aspect], np.eye(5)[self._known])
        with np.errstate(divide="ignore"):
            return _normal(np.log(before) + evidence)

    def _answers(self) -> Floats:
        """Return the logarithms of what depends on the pair, shape (units, kinds, states)."""
        high, letters = self._high[:, None], self._ratings.T[self._letter]
        right = np.where(high, self._right, 1 - self._right)
        probability = np.where(high, _KNOWN_RIGHT, 1 - _KNOWN_RIGHT)
        looked, rated = self._by_unit(np.log(right)), self._by_unit(np.log(letters))
        opposite, certain = self._by_unit(np.log(1 - right)), self._by_unit(np.log(probability))
        nothing, checks = np.zeros_like(looked), self._checks[:, None]
        preferences = (
            looked, nothing, opposite, nothing, np.where(checks, looked, 0.0), certain
        )  # fmt: skip
        ratings = (rated, nothing, rated, nothing, np.where(checks, rated, 0.0))
        answers = np.stack(
            [preferences[p] + ratings[r] for p, r in zip(_PREFERENCE, _RATING, strict=True)], axis=1
        )
        for kind, looks in LOOKS.items():
            # one look for both answers
            pressed = _pressed(kind, self._left, self._letter)[:, None]
            seen = np.log(looks * right * letters + (1 - looks) * pressed)
            answers[:, KINDS.index(kind)] = self._by_unit(seen)
        return answers

    def _weights(self, fit: Floats) -> Floats:
        """Return the logarithms of the kinds' weights at each unit, shape (units, kinds)."""
        rows = self._rows.spread(fit)
        paths = self._paths + np.flip(np.flip(rows, 1).cumsum(axis=1), 1)
        careful = rows[:, :, :_CAREFUL]
        # what careful workers' answers before a task say, and what all careless ones' from it on
        before = self._prior[:_CAREFUL] + careful.cumsum(axis=1) - careful
        weights, stay, after = np.empty_like(paths), paths[:, :1, :_CAREFUL], paths[:, :, _CAREFUL:]
        changing = before + _log_sum(after, 2)
        later = np.flip(np.logaddexp.accumulate(np.flip(changing, 1), axis=1), 1)
        weights[:, :, :_CAREFUL] = stay
        weights[:, :-1, :_CAREFUL] = np.logaddexp(stay, later[:, 1:])
        after[:, 1:] += _log_sum(before[:, 1:], 2)
        weights[:, :, _CAREFUL:] = np.logaddexp.accumulate(after, axis=1)
        return self._rows.gather(weights)

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


class _Rows:
    """Units as rows: one for each worker, with the tasks in order, and nothing where there are no more."""

    def __init__(self, worker: Integers, workers: int) -> None:
        self._worker = worker
        self.count = np.bincount(worker, minlength=workers)
        self.last = self.count.cumsum() - 1
        self.first = self.last + 1 - self.count
        self._index = np.arange(len(worker)) - self.first[worker]
        self.width = int(self.count.max())

    def spread(self, values: Floats) -> Floats:
        """Return values of units as an array of workers and tasks, zero where there is no unit."""
        rows = np.zeros((len(self.count), self.width, values.shape[1]))
        rows[self._worker, self._index] = values
        return rows

    def gather(self, rows: Floats) -> Floats:
        """Return the values of units, the inverse of :meth:`spread`."""
        values: Floats = rows[self._worker, self._index]
        return values


def _expected(careless: float) -> Floats:
    """Return the probabilities of the kinds of a worker without votes."""
    careful = (1 - careless) * np.array([1 - FAIR, FAIR])
    return np.concatenate([careful, careless * _CARELESS_KINDS])


def _pressed(kind: WorkerKind, left: NDArray[np.bool_], letter: Integers) -> Floats:
    """Return the probability of answers without a look: anything, or one side and A."""
    share = _LAZY_LEFT.get(kind)
    if share is None:
        return np.full(len(letter), 1 / 6)
    pressed: Floats = np.where(left, share, 1 - share) * _LAZY_LETTERS[letter]
    return pressed


def _index(values: Sequence[Key]) -> tuple[list[Key], Integers]:
    """Return the distinct values in order, and the index of each value among them."""
    distinct = sorted(set(values))
    indices = {value: index for index, value in enumerate(distinct)}
    return distinct, np.array([indices[value] for value in values])


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
