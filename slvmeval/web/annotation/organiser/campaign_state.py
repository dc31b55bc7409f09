"""A campaign's state for the pages and the terminal: progress, agreement, workers and problems.

Votes and events are read from the desk once, and then incrementally. Events are described in words for the
organiser.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from storage_schemas.votes import Decision, Standing, Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.events import DeskEvent, EventKind
from tasks.annotation.desk.extras import ExtraKind, pay_of
from tasks.annotation.desk.organiser import TaskProgress, WorkerProgress
from tasks.annotation.desk.refusals import RefusalReason as R
from tasks.annotation.progress import CampaignProgress, campaign_progress
from tasks.annotation.rating_task import AnyAnswer
from tasks.votes.agreement import ALL, VoteAgreement, agreement
from tasks.votes.filter import FilterRule, counting, standings
from tasks.votes.quality import QualityRule, WorkerQuality, quality

#: Events read at once, to limit memory.
_EVENTS_AT_ONCE = 5000
_COUNTED = (EventKind.REFUSED, EventKind.CLAIM_CUT, EventKind.EXPIRED)


@dataclass(frozen=True)
class Tallies:
    """Counts of problems.

    Parameters
    ----------
    counts
        Problem events by kind; refusals as ``refused: REASON``.
    by_worker
        The same for each worker.
    """

    counts: Counter[str] = field(default_factory=Counter)
    by_worker: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, event: DeskEvent) -> None:
        """Count an event."""
        if event.kind not in _COUNTED:
            return
        name = event.kind.value
        if event.kind is EventKind.REFUSED:
            name = f"{name}: {event.detail.get('reason', 'unknown')}"
        self.counts[name] += 1
        if event.worker:
            self.by_worker.setdefault(event.worker, Counter())[name] += 1


class Reading:
    """A campaign's votes and tallies, updated incrementally."""

    def __init__(self, desk: Desk, campaign: str) -> None:
        self._desk = desk
        self._campaign = campaign
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._votes: list[Vote] = []
        self._vote_number = 0
        self._event_number = 0
        self._tallies = Tallies()

    def renewed(self) -> tuple[Sequence[Vote], Tallies]:
        """Return all current votes, in order, and the tallies."""
        with self._lock:
            if self._read_events():
                # a worker was erased: keep nothing in memory
                self._forget()
                self._read_events()
            new = self._desk.votes.read(self._campaign, after=self._vote_number)
            if new:
                self._votes.extend(vote for _, vote in new)
                self._vote_number = new[-1][0]
            # copied: later reads do not change the caller's data
            copied = Tallies(
                self._tallies.counts.copy(),
                {worker: counts.copy() for worker, counts in self._tallies.by_worker.items()},
            )
            return list(self._votes), copied

    def _read_events(self) -> bool:
        """Read what is new; return whether a worker was erased since the last read."""
        known, erased = self._event_number > 0, False
        while True:
            events = self._desk.events.read(self._campaign, after=self._event_number, most=_EVENTS_AT_ONCE)
            for event in events:
                self._tallies.add(event)
                erased = erased or event.kind is EventKind.ERASED
            if events:
                self._event_number = events[-1].number
            if len(events) < _EVENTS_AT_ONCE:
                return known and erased


#: For each reason: what was refused, and the usual cause.
REFUSED = {
    R.UNKNOWN_CAMPAIGN: ("No such campaign", "a mistyped address"),
    R.UNKNOWN_WORKER: ("No worker entered with this session", "a cookie of another installation"),
    R.BAD_LINK: ("A link that was never issued", "it was truncated or altered"),
    R.LINK_USED: ("A link that belongs to another worker", "a link was passed on"),
    R.NO_CONSENT: ("A task before consent", "a page opened out of order"),
    R.FULL: ("The campaign has all its participants", "raise most_workers, or withdraw links"),
    R.EXCLUDED: ("An excluded worker came back", "nothing to do"),
    R.DONE: ("No task is left for the worker", "nothing to do"),
    R.NO_TASKS: ("All remaining tasks are open with others", "workers are asked to come back later"),
    R.LIMIT: ("The worker reached the maximum number of tasks", "nothing to do"),
    R.UNKNOWN_ASSIGNMENT: ("An answer to another worker's task", "a second browser, or cheating"),
    R.EXPIRED: ("A late answer", "the lease expired and others answered; a longer lease may help"),
    R.NOT_LOOKED: ("A preference before both videos were played", "haste, or cheating"),
    R.NO_PREFERENCE: ("A rating before the preference", "cheating"),
    R.NOT_SEEN: ("A segment or video that was not played", "haste, or cheating"),
    R.NOT_CONFIRMED: ("A rating before every segment was confirmed", "haste, or cheating"),
    R.OTHER_ANSWER: ("A second, different answer", "two tabs"),
    R.BAD_VALUE: ("A value that our pages never send", "cheating"),
    R.CHECK_FIRST: ("A task before the question about the instructions", "nothing to do"),
    R.SCREENED_OUT: ("The question was answered wrongly twice", "nothing to do"),
    R.NOTHING_DONE: ("A completion code without any answer", "the worker left immediately"),
}
OTHER = {
    "claim_cut": ("A playback report longer than possible", "a slow clock, or cheating; it was cut"),
    "expired": ("A task left open until its lease expired", "the worker closed the page"),
}


def described(kind: str) -> tuple[str, str]:
    """Return the description and usual cause of a kind of event or ``refused: REASON``."""
    if kind in OTHER:
        return OTHER[kind]
    reason = kind.removeprefix("refused: ")
    try:
        return REFUSED[R(reason)]
    except ValueError:
        return reason.replace("_", " ").capitalize(), ""


#: A campaign without a vote for this long counts as stalled.
STILL_AFTER_HOURS = 24.0


@dataclass(frozen=True)
class WorkerCounts:
    """Numbers of workers by state.

    Parameters
    ----------
    entered, consented, answered, finished
        On our pages or by import; imported workers count as entered.
    excluded, cleared
        By the latest decision.
    to_review
        Flagged by several indicators or careless, and not yet decided.
    understood, screened_out
        Workers who answered the question before the first task correctly, and those who failed both tries.
    trained, latecomers, late_tasks
        Workers who trained, those who came when there was no task, and answers to tasks that others had
        completed.
    """

    entered: int
    consented: int
    answered: int
    finished: int
    excluded: int
    cleared: int
    to_review: int
    understood: int
    screened_out: int
    trained: int
    latecomers: int
    late_tasks: int

    @property
    def in_words(self) -> str:
        """Workers' activities other than answering tasks; empty for none."""
        counts = (
            (self.understood, "answered the question correctly"),
            (self.screened_out, "failed it twice"),
            (self.trained, "trained"),
            (self.latecomers, "came too late for a task"),
            (self.late_tasks, "answered a task too late"),
        )
        return ", ".join(f"{count} {what}" for count, what in counts if count)


@dataclass(frozen=True)
class Trouble:
    """A problem, its count, and its usual cause."""

    what: str
    times: int
    mostly: str


@dataclass(frozen=True)
class CampaignState:
    """What the states of both kinds of campaigns share.

    Parameters
    ----------
    alphas
        Krippendorff's α by aspect or dimension; None where nothing can be compared.
    """

    campaign: Campaign
    progress: CampaignProgress
    alphas: Mapping[str, float | None]
    people: WorkerCounts
    trouble: tuple[Trouble, ...]

    @property
    def still_hours(self) -> int:
        """Hours without an answer, if the campaign is stalled and answers are still needed; else 0."""
        last = self.progress.last_vote
        if self.progress.done or last is None:
            return 0
        hours = (self.progress.at - last).total_seconds() / 3600
        return int(hours) if hours >= STILL_AFTER_HOURS else 0

    @property
    def lines(self) -> list[str]:
        """What only this kind of campaign reports, in words."""
        return []

    @property
    def plain(self) -> dict[str, Any]:
        """What only this kind of campaign reports, for JSON."""
        return {}


@dataclass(frozen=True)
class PairState(CampaignState):
    """The state of a campaign of pairs; `overall` is the overall agreement, None without a counted vote."""

    overall: VoteAgreement | None

    @property
    def plain(self) -> dict[str, Any]:
        """How often the better video was preferred."""
        return {"right": None if self.overall is None else self.overall.right}


@dataclass(frozen=True)
class Facts:
    """The facts read about one campaign; only pairs have votes."""

    campaign: Campaign
    tasks: Sequence[TaskProgress]
    votes: Sequence[Vote]
    decisions: Sequence[Decision]
    workers: Sequence[WorkerProgress]
    tallies: Tallies


def read_facts(desk: Desk, campaign: Campaign, reading: Reading) -> Facts:
    """Return the current facts about a campaign."""
    votes, tallies = reading.renewed()
    name = campaign.name
    progress, workers = desk.organiser.progress(name), desk.organiser.workers(name)
    return Facts(campaign, progress, votes, desk.decisions.read(name), workers, tallies)


def pair_state(
    facts: Facts,
    now: datetime,
    rate: float | None = None,
    zone: tzinfo | None = None,
    agreed: Sequence[VoteAgreement] | None = None,
    judged: Sequence[WorkerQuality] | None = None,
) -> PairState:
    """Return the state of a campaign of pairs; parameters as of :func:`common_state`.

    Parameters
    ----------
    agreed, judged
        Results of `agreed_of` and `judged_of`, if already known.
    """
    rows = agreed_of(facts) if agreed is None else agreed
    workers = judged_of(facts) if judged is None else judged
    to_review = sum(one.review for one in workers)
    return PairState(
        **common_state(facts, facts.votes, to_review, now, rate, zone),
        alphas={"" if row.aspect == ALL else row.aspect: row.ratings.alpha for row in rows},
        overall=next((row for row in rows if row.aspect == ALL), None),
    )


def common_state(
    facts: Facts,
    answers: Sequence[AnyAnswer],
    to_review: int,
    now: datetime,
    rate: float | None,
    zone: tzinfo | None,
) -> dict[str, Any]:
    """Return the values shared by the states of both kinds of campaigns.

    Parameters
    ----------
    answers
        All votes, or all ratings.
    to_review
        Number of workers who should be reviewed.
    now
        The time, UTC.
    rate
        Pay per task; by default the campaign's rate.
    zone
        Time zone of days; this machine's by default.
    """
    extras = sum(pay_of(one.extras) for one in facts.workers)
    return {
        "campaign": facts.campaign,
        "progress": campaign_progress(facts.campaign, facts.tasks, answers, now, rate, zone, extras),
        "people": _people(facts, len({one.worker for one in answers}), to_review),
        "trouble": troubles(facts.tallies.counts),
    }


def agreed_of(facts: Facts) -> list[VoteAgreement]:
    """Return the agreement of the counted votes, excluding controls, as in the report."""
    rule = FilterRule(drop_excluded=facts.campaign.drops_excluded)
    counted = counting(facts.votes, facts.decisions, rule)
    return agreement([vote for vote in counted if not vote.control])


def judged_of(facts: Facts) -> list[WorkerQuality]:
    """Return the quality of each worker with a vote."""
    return quality(facts.votes, facts.decisions, QualityRule(name=facts.campaign.rule))


def _people(facts: Facts, answered: int, to_review: int) -> WorkerCounts:
    latest = [row.decision for row in standings(facts.decisions).values()]
    paid = Counter(kind for one in facts.workers for kind in {extra.kind for extra in one.extras})
    return WorkerCounts(
        entered=len(facts.workers),
        consented=sum(bool(one.consented_at) for one in facts.workers),
        answered=answered,
        finished=sum(bool(one.finished_at) for one in facts.workers),
        excluded=latest.count(Standing.EXCLUDED),
        cleared=latest.count(Standing.CLEARED),
        to_review=to_review,
        understood=sum(one.check == "passed" for one in facts.workers),
        screened_out=sum(one.check == "failed" for one in facts.workers),
        trained=paid[ExtraKind.TRAINING],
        latecomers=paid[ExtraKind.LATECOMER],
        late_tasks=paid[ExtraKind.LATE_TASK],
    )


def troubles(counts: Mapping[str, int]) -> tuple[Trouble, ...]:
    """Return counts of events in words, the most frequent first."""
    rows = [Trouble(what, n, mostly) for kind, n in counts.items() for what, mostly in [described(kind)]]
    return tuple(sorted(rows, key=lambda one: (-one.times, one.what)))
