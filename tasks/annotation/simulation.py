"""What a campaign would be worth: the bad workers found, its cost, and the pairs kept.

Workers and pairs are invented, everything else is real: the queue's choice, the check tasks, both rules for
workers, both filters. Good workers differ from each other, and none answers exactly as the worker model
expects.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import numpy as np
from pydantic import Field

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.rng import keyed_rng
from storage_schemas.votes import Check, Rating, SideWord, Vote, check_id, check_of
from tasks.annotation.checks import CHECK_SHARE, FIRST_TASKS, check_tasks, checks_due
from tasks.annotation.desk.choice import WaitingPair, choose_pair
from tasks.votes.filter import FilterRule, FilterVerdict, verdict
from tasks.votes.quality import QualityRule, RuleName, quality
from tasks.votes.stopping import wanted_votes
from tasks.votes.worker_model import CLEAR, NONE, OBVIOUS, WorkerModel, worker_model


class Behaviour(StrEnum):
    """How a simulated worker answers."""

    GOOD = "good"
    #: three tasks of four by habit, the left video and A, in 60 % of the time; the others with care
    LAZY = "lazy"
    #: a coin for the preference, any letter for the rating
    RANDOM = "random"
    #: prefers with care, and always presses A
    ALWAYS_A = "always A"
    #: prefers the opposite, and rates C what is clear, A what failed
    CONTRARY = "contrary"
    #: ten tasks with care, all later ones as the lazy ones
    LATE_LAZY = "late lazy"
    #: ten tasks with care, then ever more by a coin and any letter: after eight more it is four of five
    TIRED = "tired"
    #: prefers the left video in nine tasks of ten, rates with care
    LEFT = "left"
    #: the side and the letter that another worker has just given, on whatever pair
    COPYING = "copying"
    #: all of them agree on an answer to each pair beforehand, without looking
    COLLUDING = "colluding"
    #: recognises pairs of equal videos and gold pairs, and answers the others as random ones do
    KNOWS_CHECKS = "knows checks"
    #: tells from the files' bytes which video is the source, or that both are equal; rates A without watching
    READS_BYTES = "reads bytes"


BAD = tuple(Behaviour)[1:]
#: Kinds of workers that start careful, and the number of tasks after which they change.
CHANGING = {Behaviour.LATE_LAZY: 10, Behaviour.TIRED: 10}


class Crowd(Frozen):
    """Workers and pairs of a simulated campaign.

    Parameters
    ----------
    workers
        Number of workers of each behaviour.
    pairs, gold
        Number of pairs, and of additional gold pairs; the paper's rule uses none.
    states
        Shares of pairs whose damage is clear, weak, failed.
    pair_s
        Length of a pair's two videos together, in seconds.
    """

    workers: Mapping[Behaviour, int]
    pairs: int = Field(default=500, ge=1)
    gold: int = Field(default=12, ge=0)
    states: tuple[float, float, float] = (0.72, 0.2, 0.08)
    pair_s: float = Field(default=600.0, gt=0)


@dataclass(frozen=True)
class SimulatedCampaign:
    """The result of one simulated campaign.

    Parameters
    ----------
    workers
        Workers by behaviour.
    in_time, listed
        Workers listed for review by their eighth task, or the tenth after they changed, and at any time,
        by behaviour.
    answers, checks
        Answers that were paid, and check tasks among them.
    decided, kept, right
        Pairs that were decided, pairs that were kept, and pairs decided correctly.
    clear, clear_kept
        Pairs whose damage is clear, and those among them that were kept.
    certainty
        Under the rule `strict`, the pairs by class (`CLASSES`) of the stated probability that the damage is
        clear.
    """

    rule: RuleName
    workers: Mapping[Behaviour, int]
    in_time: Mapping[Behaviour, int]
    listed: Mapping[Behaviour, int]
    answers: int
    checks: int
    pairs: int
    decided: int
    kept: int
    right: int
    clear: int
    clear_kept: int
    certainty: tuple[CertaintyClass, ...] = ()


#: Upper ends of the classes of stated probability.
CLASSES = (0.05, 0.2, 0.5, 0.8, 0.95, 1.0)


@dataclass(frozen=True)
class CertaintyClass:
    """Pairs whose damage is clear with about the same stated probability.

    Parameters
    ----------
    stated
        Sum of the stated probabilities.
    clear, pairs
        Pairs whose damage is clear, and all.
    """

    stated: float = 0.0
    clear: int = 0
    pairs: int = 0

    @property
    def error(self) -> float:
        """Stated less true share of clear pairs."""
        return (self.stated - self.clear) / self.pairs

    def __add__(self, other: CertaintyClass) -> CertaintyClass:
        return CertaintyClass(self.stated + other.stated, self.clear + other.clear, self.pairs + other.pairs)


def added_up(runs: Sequence[SimulatedCampaign]) -> SimulatedCampaign:
    """Return the sums over several simulated campaigns of the same rule."""
    numbers = ("answers", "checks", "pairs", "decided", "kept", "right", "clear", "clear_kept")
    return SimulatedCampaign(
        rule=runs[0].rule,
        workers=_summed([run.workers for run in runs]),
        in_time=_summed([run.in_time for run in runs]),
        listed=_summed([run.listed for run in runs]),
        certainty=tuple(
            sum(some, CertaintyClass()) for some in zip(*(run.certainty for run in runs), strict=True)
        ),
        **{name: sum(getattr(run, name) for run in runs) for name in numbers},
    )


def _summed(counts: Sequence[Mapping[Behaviour, int]]) -> dict[Behaviour, int]:
    return {behaviour: sum(one[behaviour] for one in counts) for behaviour in counts[0]}


#: Rounds, one task for each worker, between two looks at the workers.
_LOOK_EVERY = 2
#: Tasks by which a bad worker should be listed, and tasks after a change of behaviour.
EARLY, SOON = FIRST_TASKS, 10
_CAMPAIGN = "simulated"
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: Pairs of two equal videos in a campaign.
_EQUAL_PAIRS = 12


def simulate(
    crowd: Crowd, rule: RuleName, seed: int, check_share: float = CHECK_SHARE, wanted: int = 5
) -> SimulatedCampaign:
    """Simulate a campaign until every pair has its votes, or no worker is left.

    Workers do a task each, in random order, round by round. Every second round an organiser
    excludes the workers listed for review.

    Parameters
    ----------
    rule
        ``paper``: a fixed number of votes, no check tasks, and the filter counts votes. ``strict``: check
        tasks, votes until a pair is certain, and votes weighted by how careful their workers are.
    seed
        Same seed, same campaign.
    check_share
        Share of check tasks after a worker's first eight, see :func:`tasks.annotation.checks.check_due`.
    wanted
        Votes on a pair; under the rule `strict` the usual number.

    Raises
    ------
    UserInputError
        If there are no workers.
    """
    if not sum(crowd.workers.values()):
        raise UserInputError("a campaign needs workers: good=95, say")
    return _Run(crowd, rule, seed, check_share, wanted).result()


class _Run:
    """One simulated campaign."""

    def __init__(self, crowd: Crowd, rule: RuleName, seed: int, check_share: float, wanted: int) -> None:
        self.crowd, self.wanted, self.seed = crowd, wanted, seed
        self.strict = rule == "strict"
        self.rule = QualityRule(name=rule)
        self.share = check_share if self.strict else 0.0
        self.rng = keyed_rng(seed, "simulated campaign")
        self.workers = {
            f"{behaviour.value} {number}": Worker(behaviour, self.rng)
            for behaviour, number_of in crowd.workers.items()
            for number in range(number_of)
        }
        self.states = {
            f"pair {n}": int(state)
            for n, state in enumerate(self.rng.choice(3, size=crowd.pairs, p=crowd.states))
        }
        self.checks = [check_id(f"pair {n}", Check.EQUAL) for n in range(_EQUAL_PAIRS)]
        self.checks += [check_id(pair, Check.AGAIN) for pair in self.states]
        self.checks += [f"gold {n}" for n in range(crowd.gold)]
        self.model: WorkerModel = worker_model([])
        self.votes: list[Vote] = []
        self.of_pair: dict[str, list[Vote]] = defaultdict(list)
        #: each pair that is not finished
        self.open = {pair: self._waiting(pair) for pair in self.states}
        self.had: dict[str, list[str]] = {worker: [] for worker in self.workers}
        #: tasks that workers had done when they were listed
        self.listed: dict[str, int] = {}
        #: where the last answer was, and its letter
        self.last: tuple[bool, Rating] = (True, "A")

    def result(self) -> SimulatedCampaign:
        """Run the campaign and add up its results."""
        rounds, going = 0, True
        while going:
            going = self._round()
            rounds += 1
            if rounds % _LOOK_EVERY == 0 or not going:
                self._look()
                # votes that no longer count may have put pairs back
                going = going or self._round()
        kept = self._kept()
        clear = {pair for pair, state in self.states.items() if state == CLEAR}
        return SimulatedCampaign(
            rule=self.rule.name,
            workers=dict(self.crowd.workers),
            in_time=self._counted(name for name, done in self.listed.items() if done <= self._soon(name)),
            listed=self._counted(self.listed),
            answers=len(self.votes),
            checks=sum(vote.gold for vote in self.votes),
            pairs=len(self.states),
            decided=len(kept),
            kept=sum(kept.values()),
            right=sum((pair in clear) == keep for pair, keep in kept.items()),
            clear=len(clear),
            clear_kept=sum(kept.get(pair, False) for pair in clear),
            certainty=self._certainty(clear) if self.strict else (),
        )

    def _soon(self, worker: str) -> int:
        """Return the number of tasks by which a bad worker should be listed."""
        changed = CHANGING.get(self.workers[worker].behaviour)
        return EARLY if changed is None else changed + SOON

    def _certainty(self, clear: Collection[str]) -> tuple[CertaintyClass, ...]:
        classes = [CertaintyClass()] * len(CLASSES)
        for pair, votes in self.of_pair.items():
            if pair in self.states and pair not in self.open:
                stated = self.model.clear_by(votes)
                index = bisect_left(CLASSES, stated)
                classes[index] += CertaintyClass(stated, pair in clear, 1)
        return tuple(classes)

    def _round(self) -> bool:
        """Let each worker do a task; return whether anybody got one."""
        names = [worker for worker in self.workers if worker not in self.listed]
        answered = [self._task(names[int(index)]) for index in self.rng.permutation(len(names))]
        return any(answered)

    def _task(self, worker: str) -> bool:
        pair = choose_pair(
            sorted(self.open.values()), set(self.had[worker]), lambda _: float(self.rng.random())
        )
        if pair is None:
            return False
        self._answer(worker, self._check(worker) or pair.pair_id)
        return True

    def _check(self, worker: str) -> str | None:
        """Return the check task that is due, if any."""
        had = self.had[worker]
        due = checks_due(
            len(had),
            self.share,
            lambda word: float(keyed_rng(self.seed, worker, word).random()),
            self.model,
            worker,
        )
        for kind in due:
            if tasks := check_tasks(had, kind, self.checks):
                return tasks[int(self.rng.integers(len(tasks)))]
        return None

    def _answer(self, worker: str, task: str) -> None:
        pair_id, check = check_of(task)
        before = self.of_pair[pair_id] if check is Check.AGAIN else []
        earlier = next((one for one in before if one.worker == worker), None)
        first: SideWord = "high" if self.rng.random() < 0.5 else "low"
        if earlier is not None:
            first = "low" if earlier.first == "high" else "high"
        gold = pair_id not in self.states
        state = NONE if check is Check.EQUAL else OBVIOUS if gold else self.states[pair_id]
        shown = Shown(pair_id, state, first == "high", len(self.had[worker]), self.last)
        high, rating, pace = self.workers[worker].answer(shown)
        self.last = (high == shown.high_left, rating)
        vote = Vote(
            vote_id=f"{len(self.votes)}",
            campaign=_CAMPAIGN,
            release="simulated",
            version=1,
            pair_id=task,
            source_id=pair_id,
            aspect="simulated",
            worker=worker,
            gold=gold or check is not None,
            first=first,
            preferred="high" if high else "low",
            rating=rating,
            total_s=pace * self.crowd.pair_s,
            pair_duration_s=self.crowd.pair_s,
            at=(_BEGIN + timedelta(seconds=len(self.votes))).isoformat(),
        )
        self.votes.append(vote)
        self.had[worker].append(task)
        if not vote.gold:
            self.of_pair[task].append(vote)
            self._close(task)

    def _close(self, pair: str) -> None:
        """Take a pair out of the queue once it has its votes, or put it back."""
        self.open[pair] = waiting = self._waiting(pair)
        if waiting.votes >= waiting.wanted:
            del self.open[pair]

    def _waiting(self, pair: str) -> WaitingPair:
        votes = self.of_pair[pair]
        return WaitingPair(pair, "simulated", len(votes), 0, self._wanted(votes))

    def _wanted(self, votes: list[Vote]) -> int:
        if not self.strict:
            return self.wanted
        return wanted_votes(len(votes), self.model.clear_by(votes), self.wanted)

    def _look(self) -> None:
        """Exclude listed workers; new estimates of workers change which pairs are certain."""
        if self.strict:
            self.model = worker_model(self.votes, self.rule.careless)
        rows = quality(self.votes, rule=self.rule, models={_CAMPAIGN: self.model})
        for row in rows:
            if row.review:
                self.listed.setdefault(row.worker, len(self.had[row.worker]))
        if not self.strict:
            return
        for pair in self.states:
            votes = self.of_pair[pair]
            # an excluded worker's votes no longer count
            votes[:] = [vote for vote in votes if vote.worker not in self.listed]
            self._close(pair)

    def _kept(self) -> dict[str, bool]:
        """Return whether each decided pair passes the filter."""
        if self.strict:
            return {
                pair: self.model.clear_by(self.of_pair[pair]) >= 0.5
                for pair in self.states
                if pair not in self.open
            }
        rule = FilterRule(workers_per_pair=self.wanted)
        verdicts = {pair: verdict((vote.rating for vote in self.of_pair[pair]), rule) for pair in self.states}
        return {
            pair: one is FilterVerdict.KEPT
            for pair, one in verdicts.items()
            if one is not FilterVerdict.UNDECIDED
        }

    def _counted(self, workers: Iterable[str]) -> dict[Behaviour, int]:
        names = [self.workers[worker].behaviour for worker in workers]
        return {behaviour: names.count(behaviour) for behaviour in self.crowd.workers}


@dataclass(frozen=True)
class Shown:
    """What a simulated worker is shown, and what a cheater knows.

    Parameters
    ----------
    pair_id, state
        The pair, and how clear its damage is.
    high_left
        Whether the high side is on the left.
    done
        Tasks that the worker has done.
    last
        Whether the last answer of anybody was for the left, and its letter.
    """

    pair_id: str
    state: int
    high_left: bool
    done: int = 0
    last: tuple[bool, Rating] = (True, "A")


class Worker:
    """One simulated worker; good ones have their own eye, and now and then a slip."""

    def __init__(self, behaviour: Behaviour, rng: np.random.Generator) -> None:
        self.behaviour, self.rng = behaviour, rng
        self.slip, self.pace = rng.uniform(0, 0.08), float(np.exp(rng.normal(0, 0.25)))
        self.right = (rng.uniform(0.9, 0.99), rng.uniform(0.6, 0.85), 0.5, rng.uniform(0.96, 1), 0.5)
        clear, weak_a, weak_c, failed = rng.uniform((0.78, 0.15, 0.08, 0.75), (0.94, 0.4, 0.2, 0.92))
        obvious, none = rng.uniform((0.88, 0.8), (0.98, 0.96))
        self.ratings = (
            (clear, 0.85 * (1 - clear), 0.15 * (1 - clear)),
            (weak_a, 1 - weak_a - weak_c, weak_c),
            (0.25 * (1 - failed), 0.75 * (1 - failed), failed),
            (obvious, 0.9 * (1 - obvious), 0.1 * (1 - obvious)),
            (0.25 * (1 - none), 0.75 * (1 - none), none),
        )

    def answer(self, shown: Shown) -> tuple[bool, Rating, float]:
        """Return whether the worker prefers the high side, the rating, and time over the videos' length."""
        state, left = shown.state, shown.high_left
        coin, any_letter = bool(self.rng.random() < 0.5), _letter(self.rng, (1 / 3, 1 / 3, 1 / 3))
        high, letter = bool(self.rng.random() < self.right[state]), _letter(self.rng, self.ratings[state])
        pace, drawn = self.pace * float(np.exp(self.rng.normal(0, 0.2))), float(self.rng.random())
        after = shown.done - CHANGING.get(self.behaviour, 0)
        match self.behaviour:
            case Behaviour.LAZY | Behaviour.LATE_LAZY if after >= 0 and drawn < 0.75:
                return left, "A", 0.6 * pace
            case Behaviour.TIRED if after >= 0 and drawn < min(0.1 * (after + 1), 0.8):
                return coin, any_letter, pace
            case Behaviour.RANDOM:
                return coin, any_letter, pace
            case Behaviour.KNOWS_CHECKS if state not in (NONE, OBVIOUS):
                return coin, any_letter, pace
            case Behaviour.ALWAYS_A:
                return high, "A", pace
            case Behaviour.CONTRARY:
                return not high, _OPPOSITE[letter], pace
            case Behaviour.LEFT if drawn < 0.9:
                return left, letter, pace
            case Behaviour.COPYING:
                return shown.last[0] == left, shown.last[1], pace
            case Behaviour.COLLUDING:
                agreed = keyed_rng("colluding", shown.pair_id)
                return bool(agreed.random() < 0.5), _letter(agreed, (0.4, 0.3, 0.3)), pace
            case Behaviour.READS_BYTES:
                return (coin, "C", pace) if state == NONE else (True, "A", pace)
        if self.rng.random() < self.slip:
            return coin, any_letter, pace
        return high, letter, pace


_OPPOSITE: dict[Rating, Rating] = {"A": "C", "B": "B", "C": "A"}


def _letter(rng: np.random.Generator, shares: tuple[float, ...]) -> Rating:
    letters: tuple[Rating, ...] = ("A", "B", "C")
    return letters[int(rng.choice(3, p=shares))]
