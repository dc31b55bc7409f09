"""A campaign of ratings for the organiser's pages and the terminal: progress, agreement, raters, checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, tzinfo
from statistics import median
from typing import Any

from slvmeval.web.annotation.organiser.campaign_state import (
    CampaignState,
    Facts,
    Reading,
    common_state,
    pair_state,
    read_facts,
)
from slvmeval.web.annotation.organiser.worker_record import PersonRow, PersonView, known, told
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.organiser import WorkerProgress
from tasks.annotation.desk.ratings import Check, CheckedRating, Verdict
from tasks.annotation.rating_task import RatingTask, VideoRating
from tasks.statistics.krippendorff import RaterAnswer, alpha_of
from tasks.votes.agreement import of_several


@dataclass(frozen=True)
class RatedTask:
    """One video in one dimension with the ratings that count, in order of arrival."""

    task: RatingTask
    ratings: tuple[CheckedRating, ...]

    @property
    def unchecked(self) -> tuple[CheckedRating, ...]:
        """The ratings that have not been confirmed."""
        return tuple(one for one in self.ratings if not one.confirmed)

    @property
    def spread(self) -> int:
        """Levels between the highest and the lowest rating."""
        values = [one.given.rating for one in self.ratings]
        return max(values) - min(values) if values else 0


@dataclass(frozen=True, kw_only=True)
class RaterRow(PersonRow):
    """One rater.

    Parameters
    ----------
    ratings
        Ratings that count.
    apart
        Mean distance, in levels, between a rating and the mean of the others' for the same task; None if no
        task has other ratings.
    shift
        The same with its sign: below 0 for a strict rater.
    used
        How often each level was given, ascending.
    time_share
        Median ratio of a task's duration to that of its video; None without a rating.
    sent_back
        Ratings that a checker sent back.
    """

    ratings: int
    apart: float | None
    shift: float | None
    used: tuple[tuple[int, int], ...]
    time_share: float | None
    sent_back: int


@dataclass(frozen=True)
class RatingState(CampaignState):
    """The state of a campaign of ratings.

    Parameters
    ----------
    tasks
        All tasks with their ratings.
    unchecked
        Ratings that have not been confirmed.
    sent_back
        Ratings that were sent back, ever.
    """

    tasks: tuple[RatedTask, ...]
    raters: tuple[RaterRow, ...]
    unchecked: int
    sent_back: int

    @property
    def lines(self) -> list[str]:
        """Raters and checks in words."""
        most = self.campaign.most_workers
        return [
            f"raters: {self.people.consented}{f' of {most}' if most else ''} take part",
            f"checks: {self.unchecked} ratings not confirmed, {self.sent_back} sent back",
        ]

    @property
    def plain(self) -> dict[str, Any]:
        """Raters and checks for JSON."""
        raters = [asdict(row) for row in self.raters]
        return {"unchecked": self.unchecked, "sent_back": self.sent_back, "raters": raters}


def rating_state(
    desk: Desk, facts: Facts, now: datetime, rate: float | None = None, zone: tzinfo | None = None
) -> RatingState:
    """Return the state of a campaign of ratings; parameters as of :func:`common_state`."""
    name = facts.campaign.name
    ratings, checks = desk.ratings.read(name), desk.ratings.checks(name)
    tasks, values = desk.campaigns.rating_tasks(name), [one.given for one in ratings]
    return RatingState(
        **common_state(facts, values, 0, now, rate, zone),
        alphas=_alphas(tasks, values),
        tasks=rated_tasks(tasks, ratings),
        raters=tuple(rater_rows(facts.workers, values, checks)),
        unchecked=sum(not one.confirmed for one in ratings),
        sent_back=sum(one.verdict is Verdict.SENT_BACK for one in checks),
    )


def read_state(desk: Desk, campaign: Campaign, now: datetime, rate: float | None = None) -> CampaignState:
    """Return the state of a campaign of either kind."""
    facts = read_facts(desk, campaign, Reading(desk, campaign.name))
    if campaign.kind == "ratings":
        return rating_state(desk, facts, now, rate)
    return pair_state(facts, now, rate)


def rated_tasks(tasks: Sequence[RatingTask], ratings: Sequence[CheckedRating]) -> tuple[RatedTask, ...]:
    """Return the tasks with their ratings, including tasks without any."""
    by_task: dict[str, list[CheckedRating]] = defaultdict(list)
    for one in ratings:
        by_task[one.given.pair_id].append(one)
    return tuple(RatedTask(task, tuple(by_task[task.id])) for task in tasks)


def _alphas(tasks: Sequence[RatingTask], ratings: Sequence[VideoRating]) -> dict[str, float | None]:
    scales = {task.dimension: (task.low, task.high) for task in tasks}
    answers: dict[str, list[RaterAnswer]] = {name: [] for name in scales}
    for one in ratings:
        answers[one.aspect].append(RaterAnswer(one.pair_id, one.worker, str(one.rating)))
    return {
        name: of_several(alpha_of(some, [str(value) for value in range(low, high + 1)], "ordinal")).alpha
        for name, some in answers.items()
        for low, high in [scales[name]]
    }


def rater_rows(
    workers: Sequence[WorkerProgress], ratings: Sequence[VideoRating], checks: Sequence[Check]
) -> list[RaterRow]:
    """Return all raters, starting with those whose ratings differ most from the others'."""
    by_task: dict[str, list[VideoRating]] = defaultdict(list)
    mine: dict[str, list[VideoRating]] = defaultdict(list)
    for one in ratings:
        by_task[one.pair_id].append(one)
        mine[one.worker].append(one)
    back: dict[str, int] = defaultdict(int)
    for check in checks:
        back[check.given.worker] += check.verdict is Verdict.SENT_BACK
    rows = [_rater(worker, mine[worker.worker], by_task, back[worker.worker]) for worker in workers]
    return sorted(rows, key=lambda row: (-(row.apart or 0.0), -row.ratings, row.worker))


def _rater(
    worker: WorkerProgress,
    mine: Sequence[VideoRating],
    by_task: Mapping[str, Sequence[VideoRating]],
    sent_back: int,
) -> RaterRow:
    shifts = [
        one.rating - sum(other.rating for other in others) / len(others)
        for one in mine
        if (others := [other for other in by_task[one.pair_id] if other.worker != one.worker])
    ]
    used: dict[int, int] = defaultdict(int)
    for one in mine:
        used[one.rating] += 1
    times = [one.total_s / one.pair_duration_s for one in mine if one.pair_duration_s > 0]
    return RaterRow(
        **known(worker),
        ratings=len(mine),
        apart=sum(map(abs, shifts)) / len(shifts) if shifts else None,
        shift=sum(shifts) / len(shifts) if shifts else None,
        used=tuple(sorted(used.items())),
        time_share=median(times) if times else None,
        sent_back=sent_back,
        last=max((one.at for one in mine), default=""),
    )


@dataclass(frozen=True)
class RatingBeside:
    """A rater's rating of a task, next to those of others."""

    rating: CheckedRating
    task: RatingTask
    others: tuple[int, ...]


@dataclass(frozen=True)
class RaterView(PersonView):
    """The data of a rater's page; the newest rating comes first."""

    row: RaterRow
    votes: tuple[RatingBeside, ...]


def rater_view(facts: Facts, state: RatingState, row: RaterRow) -> RaterView:
    """Return the data of a rater's page."""
    beside = [
        RatingBeside(
            one,
            rated.task,
            tuple(sorted(other.given.rating for other in rated.ratings if other is not one)),
        )
        for rated in state.tasks
        for one in rated.ratings
        if one.given.worker == row.worker
    ]
    votes = tuple(sorted(beside, key=lambda one: one.rating.given.at, reverse=True))
    return RaterView(row=row, votes=votes, **told(facts, row.worker))


def to_check(tasks: Iterable[RatedTask], show: str) -> list[RatedTask]:
    """Return the tasks for a list of checks, starting with those on which raters differ most.

    Parameters
    ----------
    show
        ``open`` for those with an unconfirmed rating, ``done`` for the others; otherwise all that have
        ratings.
    """
    rated = [one for one in tasks if one.ratings]
    if show == "open":
        rated = [one for one in rated if one.unchecked]
    elif show == "done":
        rated = [one for one in rated if not one.unchecked]
    return sorted(rated, key=lambda one: (-one.spread, one.task.dimension, one.task.prompt_id, one.task.id))
