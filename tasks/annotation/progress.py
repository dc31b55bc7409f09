"""A campaign's progress: votes by aspect, needed votes, and cost. No clock: the time is an argument."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from statistics import median
from typing import Literal

from storage_schemas.votes import Answer
from tasks.annotation.campaign import Campaign
from tasks.annotation.checks import FIRST_CHECKS, FIRST_TASKS
from tasks.annotation.desk.organiser import TaskProgress
from tasks.annotation.pace import ExpectedEnd, Pace, VoteCount, by_day, by_hour, estimated_end, pace, when

#: Tasks that a worker is expected to do if the campaign sets no maximum.
USUAL_TASKS = 40


@dataclass(frozen=True)
class AspectProgress:
    """The progress of one aspect, without gold pairs.

    Parameters
    ----------
    aspect
        The aspect's name; empty for the total.
    pairs, done
        Numbers of pairs, and of pairs that have all the votes they need.
    votes, wanted
        Votes that count, at most the needed number for each pair; and the number of needed votes, which is
        expected where pairs get votes until they are certain.
    more
        Votes beyond the needed number, such as late ones; they are stored as well.
    leases
        Tasks that are open now.
    """

    aspect: str
    pairs: int
    done: int
    votes: int
    wanted: int
    more: int
    leases: int

    @property
    def left(self) -> int:
        """Votes that are still needed."""
        return self.wanted - self.votes

    @property
    def share(self) -> float:
        """Share of the needed votes that has been given, 0 to 1."""
        return self.votes / self.wanted if self.wanted else 1.0


@dataclass(frozen=True)
class CampaignCost:
    """Workers' pay, in the campaign's currency, without a platform's fee.

    Parameters
    ----------
    rate, per
        Pay for one ``task``, or for one ``hour`` of tasks' expected time.
    so_far
        For all answered tasks, including gold ones and those beyond the needed number, and `extras`.
    extras
        For training, the question before the first task, latecomers and late answers.
    to_end
        For the tasks still needed, including the gold tasks that will be mixed in.
    """

    rate: float
    per: Literal["task", "hour"]
    so_far: float
    to_end: float
    currency: str
    extras: float = 0.0

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.so_far + self.to_end


@dataclass(frozen=True)
class CampaignProgress:
    """The progress of a campaign at one moment.

    Parameters
    ----------
    at
        The moment, UTC.
    aspects, total
        By aspect, in the order of their names, and the total.
    gold_votes
        Votes on gold pairs.
    answered
        All votes of the campaign, whether they count or not.
    from_files
        How many of them were imported from files.
    tasks_left
        Answers still to come, gold ones included.
    last_vote
        When the newest came; None if no vote carries a time.
    hours, days
        Votes of the last 48 hours and 14 days.
    pace, end
        Pace of votes and expected time of the last one; None if unknown.
    expected_s, measured_s
        Medians over the tasks answered on our pages: the expected time, by which an hour is paid, and the
        measured one; None without such an answer.
    """

    at: datetime
    aspects: tuple[AspectProgress, ...]
    total: AspectProgress
    gold_votes: int
    answered: int
    from_files: int
    tasks_left: float
    last_vote: datetime | None
    hours: tuple[VoteCount, ...]
    days: tuple[VoteCount, ...]
    pace: Pace | None
    end: ExpectedEnd | None
    cost: CampaignCost
    expected_s: float | None = None
    measured_s: float | None = None

    @property
    def done(self) -> bool:
        """Whether all pairs have the votes they need."""
        return self.total.pairs > 0 and self.total.done == self.total.pairs


def by_aspect(tasks: Iterable[TaskProgress]) -> tuple[AspectProgress, ...]:
    """Return the progress of each aspect that has pairs other than gold."""
    of_aspect: dict[str, list[TaskProgress]] = defaultdict(list)
    for task in tasks:
        if not task.gold:
            of_aspect[task.aspect].append(task)
    return tuple(_added(aspect, of_aspect[aspect]) for aspect in sorted(of_aspect))


def _added(aspect: str, tasks: Sequence[TaskProgress]) -> AspectProgress:
    counted = sum(min(task.votes, task.wanted) for task in tasks)
    return AspectProgress(
        aspect=aspect,
        pairs=len(tasks),
        done=sum(task.done for task in tasks),
        votes=counted,
        wanted=sum(task.expected for task in tasks),
        more=sum(task.votes for task in tasks) - counted,
        leases=sum(task.leases for task in tasks),
    )


def added_up(aspects: Iterable[AspectProgress]) -> AspectProgress:
    """Return the sums over the aspects."""
    rows = list(aspects)
    return AspectProgress(
        "",
        *(
            sum(getattr(row, name) for row in rows)
            for name in ("pairs", "done", "votes", "wanted", "more", "leases")
        ),
    )


def campaign_progress(
    campaign: Campaign,
    tasks: Sequence[TaskProgress],
    votes: Sequence[Answer],
    now: datetime,
    rate: float | None = None,
    zone: tzinfo | None = None,
    extras: float = 0.0,
) -> CampaignProgress:
    """Return a campaign's progress.

    Parameters
    ----------
    campaign
        The campaign's settings.
    tasks
        The campaign's pairs.
    votes
        All votes of the campaign.
    now
        The time, UTC.
    rate
        Pay for a task, whatever its length; the campaign's own way to pay by default.
    zone
        Time zone of the days; this machine's by default.
    extras
        Payments besides votes.
    """
    aspects = by_aspect(tasks)
    total = added_up(aspects)
    tasks_left = total.left * with_checks(campaign)
    times = [time for vote in votes if vote.origin == "web" and (time := when(vote.at)) is not None]
    speed = pace(times, now)
    watch_s = {task.pair_id: task.watch_s for task in tasks}
    took = [
        (campaign.expected_s(watch_s[vote.pair_id]), vote.total_s)
        for vote in votes
        if vote.origin == "web" and vote.total_s is not None and vote.pair_id in watch_s
    ]
    return CampaignProgress(
        at=now,
        aspects=aspects,
        total=total,
        gold_votes=sum(vote.gold for vote in votes),
        answered=len(votes),
        from_files=sum(vote.origin == "file" for vote in votes),
        tasks_left=tasks_left,
        last_vote=max(times, default=None),
        hours=tuple(by_hour(times, now)),
        days=tuple(by_day(times, now, zone=zone)),
        pace=speed,
        end=estimated_end(tasks_left, speed, now) if total.left else None,
        cost=_cost(campaign if rate is None else _paid_by_task(campaign, rate), tasks, votes, extras),
        expected_s=median(expected for expected, _ in took) if took else None,
        measured_s=median(measured for _, measured in took) if took else None,
    )


def with_checks(campaign: Campaign) -> float:
    """Return how many tasks are given out for each vote that counts: some of them check the worker.

    Under the rule `strict` a worker is expected to do `tasks_per_worker` tasks, or `USUAL_TASKS`.
    """
    if campaign.checks:
        tasks = max(campaign.tasks_per_worker or USUAL_TASKS, FIRST_TASKS)
        return tasks / ((tasks - FIRST_TASKS) * (1 - campaign.checks) + FIRST_TASKS - len(FIRST_CHECKS))
    return 1 / (1 - campaign.gold_share) if campaign.rule == "paper" and campaign.gold_pairs else 1.0


def _paid_by_task(campaign: Campaign, rate: float) -> Campaign:
    return campaign.model_copy(update={"pay_per_task": rate, "pay_per_hour": 0.0})


def _cost(
    campaign: Campaign, tasks: Sequence[TaskProgress], votes: Iterable[Answer], extras: float
) -> CampaignCost:
    # a task that is no longer shown cost no more than watching all of it
    watch_s = {task.pair_id: task.watch_s for task in tasks}
    pairs = [task for task in tasks if not task.gold]
    left = (campaign.pay_for(task.watch_s) * max(0, task.expected - task.votes) for task in pairs)
    return CampaignCost(
        rate=campaign.pay_per_hour or campaign.pay_per_task,
        per="hour" if campaign.pay_per_hour else "task",
        so_far=extras
        + sum(campaign.pay_for(watch_s.get(vote.pair_id, vote.pair_duration_s)) for vote in votes),
        to_end=sum(left) * with_checks(campaign),
        currency=campaign.currency,
        extras=extras,
    )
