"""A campaign of ratings for the organiser's pages and the terminal: progress, agreement, raters, checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from statistics import median

from storage_schemas.votes import Decision
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.extras import pay_of
from tasks.annotation.desk.organiser import WorkerProgress
from tasks.annotation.desk.ratings import Check, CheckedRating, Verdict
from tasks.annotation.progress import CampaignProgress, campaign_progress
from tasks.annotation.rating_task import RatingTask, VideoRating
from tasks.statistics.krippendorff import RaterAnswer, alpha_of


@dataclass(frozen=True)
class RatedTask:
    """One video in one dimension with the ratings that count, in the order in which they came."""

    task: RatingTask
    ratings: tuple[CheckedRating, ...]

    @property
    def unchecked(self) -> tuple[CheckedRating, ...]:
        """The ratings that nobody has confirmed."""
        return tuple(one for one in self.ratings if not one.confirmed)

    @property
    def spread(self) -> int:
        """Levels between the highest and the lowest rating."""
        values = [one.given.rating for one in self.ratings]
        return max(values) - min(values) if values else 0


@dataclass(frozen=True)
class RaterRow:
    """One rater.

    Parameters
    ----------
    worker, platform, language, entered_at, standing
        As the desk knows them; `standing` is ``excluded``, ``cleared`` or empty.
    ratings, open
        Ratings that count, and tasks that are open now.
    apart
        Mean distance between a rating and the mean of the others' of the same task, in levels; None if nobody
        else rated the same.
    shift
        The same with its sign: below 0 for a strict rater.
    used
        How often each level was given, ascending.
    time_share
        Median of a task's duration over that of its video; None without a rating.
    sent_back
        Ratings that a checker sent back.
    last
        When the newest rating was given; empty without one.
    """

    worker: str
    platform: str
    language: str
    entered_at: str
    standing: str
    ratings: int
    open: int
    apart: float | None
    shift: float | None
    used: tuple[tuple[int, int], ...]
    time_share: float | None
    sent_back: int
    last: str

    @property
    def listed(self) -> bool:
        """Nobody is listed by a rule: a person looks at the numbers."""
        return False


@dataclass(frozen=True)
class RatingState:
    """The state of a campaign of ratings.

    Parameters
    ----------
    alphas
        Krippendorff's α, ordinal, among raters by dimension; None where nothing can be compared.
    tasks
        All tasks with their ratings.
    unchecked
        Ratings that nobody has confirmed.
    sent_back
        Ratings that were sent back, ever.
    consented
        People who take part.
    """

    campaign: Campaign
    progress: CampaignProgress
    alphas: Mapping[str, float | None]
    tasks: tuple[RatedTask, ...]
    raters: tuple[RaterRow, ...]
    unchecked: int
    sent_back: int
    consented: int


def rating_state(
    desk: Desk, campaign: Campaign, now: datetime, rate: float | None = None, zone: tzinfo | None = None
) -> RatingState:
    """Return a campaign's state; parameters as of :func:`campaign_state`."""
    name = campaign.name
    ratings, checks = desk.ratings.read(name), desk.ratings.checks(name)
    tasks = desk.campaigns.rating_tasks(name)
    workers = desk.organiser.workers(name)
    values = [one.given for one in ratings]
    extras = sum(pay_of(one.extras) for one in workers)
    return RatingState(
        campaign=campaign,
        progress=campaign_progress(campaign, desk.organiser.progress(name), values, now, rate, zone, extras),
        alphas=_alphas(tasks, values),
        tasks=rated_tasks(tasks, ratings),
        raters=tuple(rater_rows(workers, values, checks)),
        unchecked=sum(not one.confirmed for one in ratings),
        sent_back=sum(one.verdict is Verdict.SENT_BACK for one in checks),
        consented=sum(bool(one.consented_at) for one in workers),
    )


def rated_tasks(tasks: Sequence[RatingTask], ratings: Sequence[CheckedRating]) -> tuple[RatedTask, ...]:
    """Return the tasks with their ratings, those without a rating included."""
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
        name: alpha_of(some, [str(value) for value in range(low, high + 1)], "ordinal").alpha
        for name, some in answers.items()
        for low, high in [scales[name]]
    }


def rater_rows(
    workers: Sequence[WorkerProgress], ratings: Sequence[VideoRating], checks: Sequence[Check]
) -> list[RaterRow]:
    """Return all raters, those whose ratings are farthest from the others' first."""
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
        worker=worker.worker,
        platform=worker.platform,
        language=worker.language,
        entered_at=worker.entered_at,
        standing=worker.standing,
        ratings=len(mine),
        open=worker.open,
        apart=sum(map(abs, shifts)) / len(shifts) if shifts else None,
        shift=sum(shifts) / len(shifts) if shifts else None,
        used=tuple(sorted(used.items())),
        time_share=median(times) if times else None,
        sent_back=sent_back,
        last=max((one.at for one in mine), default=""),
    )


@dataclass(frozen=True)
class RatingBeside:
    """A rater's rating of a task beside those of others."""

    rating: CheckedRating
    task: RatingTask
    others: tuple[int, ...]


@dataclass(frozen=True)
class RaterView:
    """The data of a rater's page; decisions, newest first, and ratings, newest first."""

    row: RaterRow
    ratings: tuple[RatingBeside, ...]
    decisions: tuple[Decision, ...]


def rater_view(state: RatingState, row: RaterRow, decisions: Sequence[Decision]) -> RaterView:
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
    return RaterView(
        row,
        tuple(sorted(beside, key=lambda one: one.rating.given.at, reverse=True)),
        tuple(one for one in reversed(decisions) if one.worker == row.worker),
    )


def to_check(tasks: Iterable[RatedTask], show: str) -> list[RatedTask]:
    """Return the tasks for a list of checks: those on which raters differ most first.

    Parameters
    ----------
    show
        ``open`` for those with a rating that nobody has confirmed, ``done`` for the others; else all that
        have a rating.
    """
    rated = [one for one in tasks if one.ratings]
    if show == "open":
        rated = [one for one in rated if one.unchecked]
    elif show == "done":
        rated = [one for one in rated if not one.unchecked]
    return sorted(rated, key=lambda one: (-one.spread, one.task.dimension, one.task.prompt_id, one.task.id))
