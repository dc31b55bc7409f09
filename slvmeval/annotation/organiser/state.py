"""How a campaign stands: progress, agreement, people and trouble together, for the pages and the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from slvmeval.annotation.organiser.reading import Tallies
from slvmeval.annotation.organiser.reasons import described
from storage_schemas.vote import Decision, Standing, Vote
from tasks.annotation.agreement import ALL, AspectAgreement, agreement
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk_types import TaskProgress, WorkerProgress
from tasks.annotation.filter import counting, standings
from tasks.annotation.progress import CampaignProgress, campaign_progress
from tasks.annotation.quality import WorkerQuality, quality
from tasks.annotation.rule import FilterRule

#: A campaign without a vote for so long is said to stand still.
STILL_AFTER_HOURS = 24.0


@dataclass(frozen=True)
class People:
    """How many workers came, and what became of them.

    Parameters
    ----------
    entered, consented, answered, finished
        On our pages, or by files: those are taken to have entered.
    excluded, cleared
        By the latest decision.
    to_review
        Flagged by several indicators, and nobody has decided yet.
    """

    entered: int
    consented: int
    answered: int
    finished: int
    excluded: int
    cleared: int
    to_review: int


@dataclass(frozen=True)
class Trouble:
    """Something that went wrong, how often, and what it mostly means."""

    what: str
    times: int
    mostly: str


@dataclass(frozen=True)
class CampaignState:
    """All of it. `agreement` is by aspect, `overall` of all together, None without a vote that counts."""

    campaign: Campaign
    progress: CampaignProgress
    agreement: dict[str, AspectAgreement]
    overall: AspectAgreement | None
    people: People
    trouble: tuple[Trouble, ...]

    @property
    def still_hours(self) -> int:
        """Whole hours without a vote, if they are many and votes are still wanted; else 0."""
        last = self.progress.last_vote
        if self.progress.done or last is None:
            return 0
        hours = (self.progress.at - last).total_seconds() / 3600
        return int(hours) if hours >= STILL_AFTER_HOURS else 0


@dataclass(frozen=True)
class Facts:
    """What is read of one campaign."""

    campaign: Campaign
    tasks: Sequence[TaskProgress]
    votes: Sequence[Vote]
    decisions: Sequence[Decision]
    workers: Sequence[WorkerProgress]
    tallies: Tallies


def campaign_state(
    facts: Facts,
    now: datetime,
    *,
    rate: float | None = None,
    zone: tzinfo | None = None,
    agreed: Sequence[AspectAgreement] | None = None,
    judged: Sequence[WorkerQuality] | None = None,
) -> CampaignState:
    """Return how a campaign stands.

    Parameters
    ----------
    now
        The time, UTC.
    rate
        Pay for a task; the campaign's own by default.
    zone
        Where days begin at midnight; this machine's by default.
    agreed, judged
        What `agreed_of` and `judged_of` returned, where that is known already.
    """
    rows = agreed_of(facts) if agreed is None else agreed
    workers = judged_of(facts) if judged is None else judged
    return CampaignState(
        campaign=facts.campaign,
        progress=campaign_progress(facts.campaign, facts.tasks, facts.votes, now, rate, zone),
        agreement={row.aspect: row for row in rows if row.aspect != ALL},
        overall=next((row for row in rows if row.aspect == ALL), None),
        people=_people(facts, workers),
        trouble=troubles(facts.tallies.counts),
    )


def agreed_of(facts: Facts) -> list[AspectAgreement]:
    """Return the agreement of the votes that count."""
    rule = FilterRule(drop_excluded=facts.campaign.drop_excluded)
    return agreement(counting(facts.votes, facts.decisions, rule))


def judged_of(facts: Facts) -> list[WorkerQuality]:
    """Return how well each worker with a vote looks."""
    return quality(facts.votes, facts.decisions)


def _people(facts: Facts, judged: Sequence[WorkerQuality]) -> People:
    latest = [row.decision for row in standings(facts.decisions).values()]
    return People(
        entered=len(facts.workers),
        consented=sum(bool(one.consented_at) for one in facts.workers),
        answered=len(judged),
        finished=sum(bool(one.finished_at) for one in facts.workers),
        excluded=latest.count(Standing.EXCLUDED),
        cleared=latest.count(Standing.CLEARED),
        to_review=sum(one.review for one in judged),
    )


def troubles(counts: Mapping[str, int]) -> tuple[Trouble, ...]:
    """Return counts of events in words, the most frequent first."""
    found = [Trouble(what, n, mostly) for kind, n in counts.items() for what, mostly in [described(kind)]]
    return tuple(sorted(found, key=lambda one: (-one.times, one.what)))
