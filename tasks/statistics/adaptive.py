"""Choose the pairs whose answers say most about a judge's threshold; state in, next pairs out.

A :class:`Search` is one evaluator on one aspect. Its pairs differ in their dose; each is asked at most once.
A round is a number of pairs that are asked together, so that they fit a batch. They are chosen one after the
other, as in QUEST+ (Watson, Journal of Vision 2017): each by how much its answer is expected to say about the
threshold, given that the ones before it are answered as expected.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from storage_schemas.rng import keyed_rank
from tasks.statistics.psychometric import (
    FINE,
    Answer,
    Array,
    Dose,
    Ladder,
    design_effect,
    focused_grid,
    tally,
)

#: Pairs of a round, by evaluator and aspect. Simulated judges were asked a tenth more in rounds of 8.
ROUND_PAIRS = 4
#: The interval's upper end over its lower one at which a search ends.
PRECISION = 2.0

#: An interval this many times as wide as asked, in doublings, is not computed on more nodes.
_ROUGHLY = 1.5

Ending = Literal["precise", "below_smallest", "not_reached", "exhausted", "budget", ""]


@dataclass(frozen=True, slots=True)
class LadderPair:
    """A pair that may be asked: its id, source and dose."""

    pair_id: str
    source_id: str
    dose: Dose


@dataclass(frozen=True)
class Search:
    """The search for the threshold of one evaluator on one aspect.

    Parameters
    ----------
    ladder
        All doses.
    pairs
        All pairs, each on a dose of the ladder.
    precision
        Ratio of the interval's ends that is precise enough.
    most_pairs
        Maximum number of pairs; None for all.
    """

    ladder: Ladder
    pairs: tuple[LadderPair, ...]
    precision: float = PRECISION
    most_pairs: int | None = None

    def next_pairs(
        self, points: Mapping[str, Sequence[float]], count: int = ROUND_PAIRS
    ) -> tuple[LadderPair, ...]:
        """Return the pairs of the next round; empty if the search has ended.

        Parameters
        ----------
        points
            The points of each pair that was asked, one for each answer; empty if all of them failed.
        count
            Maximum number of pairs.
        """
        if self.ending(points):
            return ()
        left = len(self.pairs) - len(points)
        if self.most_pairs is not None:
            left = min(left, self.most_pairs - len(points))
        return _Round(self, points).choose(min(count, left))

    def ending(self, points: Mapping[str, Sequence[float]]) -> Ending:
        """Return why the search has ended; empty if it continues."""
        answers = self.answers(points)
        if len({answer.source for answer in answers}) > 1:
            low, high = self._interval(answers)
            below, above = self.ladder.ends
            if high < below:
                return "below_smallest"
            if low > above:
                return "not_reached"
            if high / low <= self.precision:
                return "precise"
        if len(points) >= len(self.pairs):
            return "exhausted"
        if self.most_pairs is not None and len(points) >= self.most_pairs:
            return "budget"
        return ""

    def answers(self, points: Mapping[str, Sequence[float]]) -> list[Answer]:
        """Return the answers on the search's pairs."""
        pairs_by_id = self.pairs_by_id
        return [
            Answer(pairs_by_id[pair_id].dose, one, pairs_by_id[pair_id].source_id)
            for pair_id, some in sorted(points.items())
            for one in some
        ]

    def _interval(self, answers: Sequence[Answer]) -> tuple[float, float]:
        """Return the interval of the threshold, which may leave the ladder; roughly if it is wide."""
        right, wrong = tally(self.ladder, answers)
        grid = focused_grid(self.ladder, right, wrong)
        effect = design_effect(self.ladder, answers, grid.best(grid.posterior(right, wrong)))
        sources = len({answer.source for answer in answers})
        low, high = grid.interval(right, wrong, sources, 1 / effect)
        below, above = (math.log2(end) for end in self.ladder.ends)
        if high - low > _ROUGHLY * math.log2(self.precision) and low < above and high > below:
            return 2**low, 2**high
        grid = focused_grid(self.ladder, right, wrong, 1 / effect, FINE)
        low, high = grid.interval(right, wrong, sources, 1 / effect)
        return 2**low, 2**high

    @cached_property
    def pairs_by_id(self) -> dict[str, LadderPair]:
        """The pairs by their ids."""
        return {pair.pair_id: pair for pair in self.pairs}

    @cached_property
    def by_dose(self) -> dict[Dose, list[LadderPair]]:
        """The pairs on each dose."""
        by_dose: dict[Dose, list[LadderPair]] = {}
        for pair in self.pairs:
            by_dose.setdefault(pair.dose, []).append(pair)
        return by_dose

    @cached_property
    def ranks(self) -> dict[str, str]:
        """A keyed order of the pairs."""
        return {pair.pair_id: keyed_rank("adaptive", pair.pair_id) for pair in self.pairs}


@dataclass
class _Round:
    """The choice of one round."""

    search: Search
    points: Mapping[str, Sequence[float]]
    chosen: list[LadderPair] = field(default_factory=list)

    @cached_property
    def free(self) -> dict[Dose, list[LadderPair]]:
        """Pairs that were not asked, by dose."""
        return {
            dose: [pair for pair in pairs if pair.pair_id not in self.points]
            for dose, pairs in self.search.by_dose.items()
        }

    def choose(self, count: int) -> tuple[LadderPair, ...]:
        """Return the pairs of the round."""
        ladder = self.search.ladder
        right, wrong = tally(ladder, self.search.answers(self.points))
        grid = focused_grid(ladder, right, wrong)
        chances = grid.accuracy.reshape(-1, len(ladder.doses))
        used = Counter(self.search.pairs_by_id[pair_id].source_id for pair_id in self.points)
        for _ in range(count):
            posterior = grid.posterior(right, wrong)
            information, accuracy = _information(posterior, chances)
            doses = [index for index, dose in enumerate(ladder.doses) if self.free.get(dose)]
            best = max(doses, key=lambda at: round(float(information[at]), 9))
            some = self.free[ladder.doses[best]]
            # sources share the answers evenly: those of one source are alike
            pair = min(some, key=lambda one: (used[one.source_id], self.search.ranks[one.pair_id]))
            some.remove(pair)
            used[pair.source_id] += 1
            self.chosen.append(pair)
            right[best] += accuracy[best]
            wrong[best] += 1 - accuracy[best]
        return tuple(self.chosen)


def _information(posterior: Array, chances: Array) -> tuple[Array, Array]:
    """Return what an answer at each dose says about the threshold, in nats, and the expected accuracy.

    Parameters
    ----------
    posterior
        Its first axis is the threshold.
    chances
        Accuracy of each combination of parameters at each dose, shape ``(combinations, doses)``.
    """
    nodes = posterior.shape[0]
    by_node = posterior.reshape(nodes, 1, -1) @ chances.reshape(nodes, -1, chances.shape[1])
    mass = posterior.reshape(nodes, -1).sum(axis=1)
    right: Array = by_node[:, 0, :]
    accuracy: Array = right.sum(axis=0)
    given = right / np.maximum(mass, 1e-300)[:, None]
    return _entropy(accuracy) - mass @ _entropy(given), accuracy


def _entropy(chances: Array) -> Array:
    """Return the entropy of right and wrong, in nats."""
    inside = np.clip(chances, 1e-12, 1 - 1e-12)
    return np.asarray(-inside * np.log(inside) - (1 - inside) * np.log1p(-inside), np.float64)


def expected_pairs(search: Search, count: int = ROUND_PAIRS) -> int:
    """Return how many pairs a search would ask of a judge whose threshold is in the middle of the ladder.

    Each pair is answered by the expected accuracy, in part right and in part wrong.
    """
    below, above = search.ladder.ends
    middle = math.log2(below * above) / 2
    width = max(2 * search.ladder.steps[0], search.ladder.steps[1] / 2)
    exchange = np.array([sum(search.ladder.exchanges) / len(search.ladder.exchanges)])
    positions = dict(zip(search.ladder.doses, search.ladder.positions(exchange)[0], strict=True))
    points: dict[str, Sequence[float]] = {}
    while pairs := search.next_pairs(points, count):
        for pair in pairs:
            # a logistic curve of about the same shape, without a lapse
            risen = 1 / (1 + math.exp(-5.9 * (float(positions[pair.dose]) - middle) / width))
            chance = 0.5 + 0.5 * risen
            # fractions would have no variance; keyed draws have that of answers
            draw = int(keyed_rank("expected", pair.pair_id)[:12], 16) / 16**12
            points[pair.pair_id] = [float(draw < chance)]
    return len(points)
