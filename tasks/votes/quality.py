"""Workers' care: the paper's three indicators (SLVMEval, appendix A.4), and the worker model's verdict.

The paper names the indicators and some of their thresholds; :class:`QualityRule` sets the rest. Under the
rule `strict` a worker is also flagged whom :mod:`tasks.votes.worker_model` finds careless. No worker
is excluded automatically: a person reviews those listed.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, ValidationError

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular_text
from storage_schemas.value_problems import value_problem
from storage_schemas.votes import Check, Decision, Rating, Standing, Vote
from tasks.votes.filter import standings
from tasks.votes.worker_model import CARELESS, WorkerKind, WorkerModel, worker_model

_STEPS: dict[Rating, int] = {"A": 0, "B": 1, "C": 2}


class Flag(StrEnum):
    """Suspicious findings about a worker."""

    FAST = "fast"
    DISAGREES = "disagrees"
    INACCURATE = "inaccurate"
    #: by the worker model; under the rule `strict` only
    CARELESS = "careless"


#: The paper's indicators, alone or with the worker model.
RuleName = Literal["paper", "strict"]


class QualityRule(Frozen):
    """The thresholds; those without "paper" are ours.

    Parameters
    ----------
    name
        ``paper``: the three indicators. ``strict``: also the worker model.
    careless
        Share of workers expected to be careless, before any vote; for the worker model.
    doubt, doubt_least_votes
        Workers are flagged who are careless with at least this probability after at least this number of
        tasks, and listed for that alone.
    first_doubt
        The probability that is enough at this number of tasks itself, when most of them were checks: the harm
        that a careless worker can still do is largest. With the next task `doubt` counts.
    fast_share
        A task is fast if its duration, divided by that of its two videos, is among this share of the shortest
        of its campaign and aspect (paper: 10 %).
    fast_least_votes
        Minimum number of timed tasks of a campaign and aspect; with fewer, none is fast.
    fast_times, fast_of
        Workers are flagged with at least this number of fast tasks, if these are at least this share of their
        timed ones.
    easy_agreement
        A pair is easy if at least this share of its votes have the same rating (paper: 4 of 5).
    easy_least_votes
        Pairs with fewer votes are not easy.
    apart
        A rating disagrees if it is at least this number of steps from that rating; from A to C is two (paper:
        C where others say A).
    disagrees_times, disagrees_of
        Workers are flagged who disagree on at least this number of easy pairs, if these are at least this
        share of their easy ones.
    most_reach
        A task is solvable if at least this share of the other workers preferred the right video (paper: 80
        %); gold pairs always are.
    others
        Minimum number of other workers of a solvable task, except for gold pairs.
    low_accuracy
        Workers are flagged with at most this accuracy on solvable tasks (paper: 20 %) …
    low_least_votes
        … if they did at least this number of them.
    flags_for_review
        Workers with at least this number of flags are listed for review (paper: several).
    """

    name: RuleName = "paper"
    careless: float = Field(default=CARELESS, gt=0, lt=1)
    doubt: float = Field(default=0.9, ge=0.5, lt=1)
    doubt_least_votes: int = Field(default=8, ge=1)
    first_doubt: float = Field(default=0.7, ge=0.5, lt=1)
    fast_share: float = Field(default=0.1, gt=0, lt=1)
    fast_least_votes: int = Field(default=20, ge=2)
    fast_times: int = Field(default=3, ge=1)
    fast_of: float = Field(default=0.5, ge=0, le=1)
    easy_agreement: float = Field(default=0.8, gt=0.5, le=1)
    easy_least_votes: int = Field(default=5, ge=3)
    apart: int = Field(default=2, ge=1, le=2)
    disagrees_times: int = Field(default=3, ge=1)
    disagrees_of: float = Field(default=0.25, ge=0, le=1)
    most_reach: float = Field(default=0.8, gt=0, le=1)
    others: int = Field(default=3, ge=1)
    low_accuracy: float = Field(default=0.2, ge=0, lt=1)
    low_least_votes: int = Field(default=10, ge=1)
    flags_for_review: int = Field(default=2, ge=1, le=3)


def find_quality_rule(name: str) -> QualityRule:
    """Return the rule ``paper`` or ``strict``, or read thresholds from a TOML file.

    Thresholds that a file does not name keep their defaults.

    Raises
    ------
    UserInputError
        If the file cannot be read or is not TOML, or a value is invalid.
    """
    if name in get_args(RuleName):
        return QualityRule.model_validate({"name": name})
    path = Path(name)
    try:
        return QualityRule.model_validate(tomllib.loads(read_regular_text(path)))
    except OSError as problem:
        raise UserInputError(f"rule {path} cannot be read: {problem.strerror}") from problem
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserInputError(f"rule {path}: {where}: {value_problem(first)}") from problem
    except ValueError as problem:
        raise UserInputError(f"rule {path} is not valid TOML: {problem}") from problem


@dataclass(frozen=True, slots=True)
class WorkerQuality:
    """One worker of one campaign.

    Parameters
    ----------
    votes
        Number of votes, including gold ones.
    timed, fast
        Numbers of tasks whose time can be compared, and of fast ones among them.
    easy, disagreed
        Numbers of easy pairs, and of those on which the worker disagreed.
    solvable, solved
        Numbers of tasks that most others solve, and of those that the worker solved; no controls.
    gold, gold_solved
        The gold pairs among these.
    flags
        The worker's flags.
    decision
        The latest decision about the worker, if any.
    review
        Whether a person should review the worker: several flags, or found careless, and no decision yet.
    careful, kind
        Probability that the worker is careful, and the most probable kind of worker; None under the rule
        `paper`.
    """

    campaign: str
    worker: str
    votes: int
    timed: int
    fast: int
    easy: int
    disagreed: int
    solvable: int
    solved: int
    gold: int
    gold_solved: int
    flags: tuple[Flag, ...]
    decision: Decision | None
    review: bool
    careful: float | None = None
    kind: WorkerKind | None = None

    @property
    def accuracy(self) -> float | None:
        """Share of the solvable tasks that the worker solved; None without any."""
        return self.solved / self.solvable if self.solvable else None

    @property
    def excluded(self) -> bool:
        """Whether the worker is excluded now."""
        return self.decision is not None and self.decision.decision is Standing.EXCLUDED


def quality(
    votes: Iterable[Vote],
    decisions: Iterable[Decision] = (),
    rule: QualityRule | None = None,
    models: Mapping[str, WorkerModel] | None = None,
) -> list[WorkerQuality]:
    """Return the quality of each worker: those to review first, then by flags, votes, campaign and worker.

    Parameters
    ----------
    votes
        All votes of the campaigns, including gold ones; of a worker's votes on a pair the first by id counts.
    models
        The worker models of these votes, by campaign; None to estimate those that the rule needs.
    """
    rule = rule or QualityRule()
    every = _one_each(votes)
    latest = standings(decisions)
    fast = _fast(every, rule)
    by_pair: dict[tuple[str, str], list[Vote]] = defaultdict(list)
    for vote in every:
        by_pair[vote.campaign, vote.pair_id].append(vote)
    # added up once: nearly all workers vote on a gold pair
    pairs = {pair: _added_up(some) for pair, some in by_pair.items()}
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for vote in every:
        count = counts[vote.campaign, vote.worker]
        count["votes"] += 1
        _count_time(count, vote, fast)
        # the paper's other indicators are about pairs of the release
        if vote.check is None:
            pair = pairs[vote.campaign, vote.pair_id]
            _count_rating(count, vote, pair, rule)
            _count_preference(count, vote, pair, rule)
    if rule.name != "strict":
        models = {}
    elif models is None:
        models = _models(every, rule.careless)
    workers = [
        _worker(campaign, worker, count, latest.get((campaign, worker)), rule, models.get(campaign))
        for (campaign, worker), count in counts.items()
    ]
    return sorted(
        workers, key=lambda one: (not one.review, -len(one.flags), -one.votes, one.campaign, one.worker)
    )


def evidence(votes: Iterable[Vote], worker: str, rule: QualityRule) -> dict[str, tuple[Flag, ...]]:
    """Return for each vote of a worker in one campaign, by its id, the flags that it counts towards.

    Under the rule `strict`, votes that disagree or are wrong count towards `CARELESS` too, and so do failed
    check tasks: two equal videos rated A, or another video preferred when a pair came again.

    Parameters
    ----------
    votes
        All votes of the campaign, as for :func:`quality`.
    """
    every = _one_each(votes)
    fast = _fast(every, rule)
    of_worker = [vote for vote in every if vote.worker == worker]
    pair_ids = {vote.pair_id for vote in of_worker}
    by_pair: dict[str, list[Vote]] = defaultdict(list)
    for vote in every:
        if vote.pair_id in pair_ids:
            by_pair[vote.pair_id].append(vote)
    before = {vote.pair_id: vote for vote in of_worker}
    found = {}
    for vote in of_worker:
        count: Counter[str] = Counter()
        _count_time(count, vote, fast)
        if vote.check is None:
            pair = _added_up(by_pair[vote.pair_id])
            _count_rating(count, vote, pair, rule)
            _count_preference(count, vote, pair, rule)
        against = {
            Flag.FAST: count["fast"] > 0,
            Flag.DISAGREES: count["disagreed"] > 0,
            Flag.INACCURATE: count["solvable"] > count["solved"],
        }
        wrong = _failed(vote, before) or against[Flag.DISAGREES] or against[Flag.INACCURATE]
        against[Flag.CARELESS] = rule.name == "strict" and wrong
        found[vote.vote_id] = tuple(flag for flag, counts in against.items() if counts)
    return found


def _failed(vote: Vote, before: Mapping[str, Vote]) -> bool:
    """Return whether a vote fails a check task that is not a gold pair; `before` has the worker's votes."""
    if vote.check is Check.EQUAL:
        return vote.rating == "A"
    if vote.check is Check.AGAIN:
        first = before.get(vote.judged)
        return first is not None and first.preferred != vote.preferred
    return False


def _models(votes: Iterable[Vote], careless: float) -> dict[str, WorkerModel]:
    """Return the worker model of each campaign."""
    by_campaign: dict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        by_campaign[vote.campaign].append(vote)
    return {name: worker_model(some, careless) for name, some in by_campaign.items()}


def _one_each(votes: Iterable[Vote]) -> list[Vote]:
    first: dict[tuple[str, str, str], Vote] = {}
    for vote in sorted(votes, key=lambda vote: vote.vote_id):
        first.setdefault((vote.campaign, vote.pair_id, vote.worker), vote)
    return list(first.values())


def _fast(votes: Sequence[Vote], rule: QualityRule) -> dict[str, bool]:
    """Return for each vote whether it is fast; votes whose time cannot be compared are absent.

    Equal times at the border are all fast, or all not fast if that would exceed the share.
    """
    timed: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for vote in votes:
        if vote.total_s is not None and vote.pair_duration_s > 0:
            timed[vote.campaign, vote.aspect].append((vote.total_s / vote.pair_duration_s, vote.vote_id))
    fast: dict[str, bool] = {}
    for some in timed.values():
        if len(some) < rule.fast_least_votes:
            continue
        most = math.floor(len(some) * rule.fast_share + 1e-9)
        ordered = sorted(pace for pace, _ in some)
        # the first pace that is not among the fastest; equal ones are not either
        border = ordered[most]
        fast |= {id_: pace < border for pace, id_ in some}
    return fast


@dataclass(frozen=True, slots=True)
class _PairVotes:
    """All votes on a pair: `right` preferred the right video, `most` have the most frequent rating."""

    votes: int
    right: int
    rating: Rating
    most: int


def _added_up(votes: Sequence[Vote]) -> _PairVotes:
    (rating, most), *_ = Counter(vote.rating for vote in votes).most_common()
    return _PairVotes(len(votes), sum(vote.preferred == "high" for vote in votes), rating, most)


def _count_time(count: Counter[str], vote: Vote, fast: dict[str, bool]) -> None:
    if vote.vote_id in fast:
        count["timed"] += 1
        count["fast"] += fast[vote.vote_id]


def _count_rating(count: Counter[str], vote: Vote, pair: _PairVotes, rule: QualityRule) -> None:
    if pair.votes < rule.easy_least_votes:
        return
    if pair.most >= rule.easy_agreement * pair.votes - 1e-9:
        count["easy"] += 1
        count["disagreed"] += abs(_STEPS[vote.rating] - _STEPS[pair.rating]) >= rule.apart


def _count_preference(count: Counter[str], vote: Vote, pair: _PairVotes, rule: QualityRule) -> None:
    if vote.control:
        # no side is better
        return
    others = pair.votes - 1
    right = pair.right - (vote.preferred == "high")
    if vote.gold or (others >= rule.others and right >= rule.most_reach * others - 1e-9):
        count["solvable"] += 1
        count["solved"] += vote.preferred == "high"
    if vote.gold:
        count["gold"] += 1
        count["gold_solved"] += vote.preferred == "high"


def _worker(
    campaign: str,
    worker: str,
    count: Counter[str],
    decision: Decision | None,
    rule: QualityRule,
    model: WorkerModel | None,
) -> WorkerQuality:
    flags = []
    if count["fast"] >= max(rule.fast_times, rule.fast_of * count["timed"]):
        flags.append(Flag.FAST)
    if count["disagreed"] >= max(rule.disagrees_times, rule.disagrees_of * count["easy"]):
        flags.append(Flag.DISAGREES)
    if (
        count["solvable"] >= rule.low_least_votes
        and count["solved"] <= rule.low_accuracy * count["solvable"] + 1e-9
    ):
        flags.append(Flag.INACCURATE)
    careful = None if model is None else model.careful(worker)
    doubt = rule.first_doubt if count["votes"] == rule.doubt_least_votes else rule.doubt
    careless = careful is not None and count["votes"] >= rule.doubt_least_votes and 1 - careful >= doubt
    if careless:
        flags.append(Flag.CARELESS)
    names = (
        "votes", "timed", "fast", "easy", "disagreed", "solvable", "solved", "gold", "gold_solved",
    )  # fmt: skip
    return WorkerQuality(
        campaign=campaign,
        worker=worker,
        **{name: count[name] for name in names},
        flags=tuple(flags),
        decision=decision,
        review=decision is None and (careless or len(flags) >= rule.flags_for_review),
        careful=careful,
        kind=None if model is None else model.kind(worker),
    )
