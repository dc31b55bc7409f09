"""The data of each organiser's page."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from typing import Any, TypeVar

from slvmeval.web.annotation.organiser.campaign_state import (
    Facts,
    Reading,
    agreed_of,
    judged_of,
    pair_state,
    read_facts,
)
from slvmeval.web.annotation.organiser.rating_state import (
    RatedTask,
    RaterRow,
    RatingState,
    rated_tasks,
    rater_view,
    rating_state,
)
from slvmeval.web.annotation.organiser.worker_record import (
    PersonRow,
    PersonView,
    WorkerRow,
    WorkerView,
    worker_rows,
    worker_view,
)
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from storage_schemas.votes import Decision, Standing, VotesStore
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.database import Clock
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.ratings import Verdict
from tasks.annotation.pair_task import PairTask
from tasks.annotation.publish import untranslated
from tasks.annotation.sync import ErasedWorker, erase_worker
from tasks.votes.agreement import worker_agreement
from tasks.votes.filter import FilterRule, counting
from tasks.votes.quality import WorkerQuality

#: Computing agreement takes a second for a campaign of the paper's size, so it is cached for this long.
_AGREEMENT_S = 60.0
_WORKERS_S = 10.0
_TRANSLATED_S = 60.0
T = TypeVar("T")
#: Rows on one page.
PAGE = 100


def paged(rows: Sequence[Any], first: int) -> dict[str, Any]:
    """Return rows starting at `first`, for the template with links to the previous and next rows."""
    first = max(0, min(first, len(rows) - 1))
    return {
        "rows": rows[first : first + PAGE],
        "total": len(rows),
        "first": first,
        "before": max(0, first - PAGE) if first else None,
        "after": first + PAGE if first + PAGE < len(rows) else None,
    }


class Views:
    """The data of the pages, from the desk.

    Parameters
    ----------
    campaigns
        Names of the campaigns to show; all if empty.
    """

    def __init__(
        self, desk: Desk, store: Store, clock: Clock, zone: tzinfo | None, campaigns: Sequence[str]
    ) -> None:
        self.zone = zone
        self._desk = desk
        self._files = VotesStore(store)
        self._clock = clock
        self._names = frozenset(campaigns)
        self._lock = threading.Lock()
        self._readings: dict[str, Reading] = {}
        self._cache: dict[tuple[str, str], tuple[float, object, Any]] = {}

    def campaigns(self) -> list[Campaign]:
        """Return the campaigns to show."""
        return [one for one in self._desk.campaigns.all() if not self._names or one.name in self._names]

    def campaign(self, name: str) -> Campaign:
        """Return a campaign.

        Raises
        ------
        UserInputError
            If there is no campaign of this name.
        """
        match = next((one for one in self.campaigns() if one.name == name), None)
        if match is None:
            raise UserInputError(f"there is no campaign {name!r}")
        return match

    def progress(self, campaign: Campaign) -> dict[str, Any]:
        """Return the dashboard's data."""
        facts = self._facts(campaign)
        if campaign.kind == "ratings":
            return {"state": self._ratings(facts), "untranslated": ""}
        agreed = self._cached("agreement", facts, _AGREEMENT_S, agreed_of)
        judged = self._judged(facts)
        return {
            "state": pair_state(facts, self._clock(), zone=self.zone, agreed=agreed, judged=judged),
            "untranslated": self._cached("untranslated", facts, _TRANSLATED_S, self._untranslated),
        }

    def _untranslated(self, facts: Facts) -> str:
        return untranslated(facts.campaign, self._desk.campaigns.tasks(facts.campaign.name))

    def workers(self, campaign: Campaign, show: str, first: int) -> dict[str, Any]:
        """Return a page of the list of workers; `show` is a kind of `PersonRow`, or empty for all."""
        rows = self._rows(self._facts(campaign))
        filtered = [row for row in rows if not show or show in row.kinds]
        return {
            **paged(filtered, first),
            "show": show,
            "counts": Counter(kind for row in rows for kind in row.kinds),
            "everybody": len(rows),
        }

    def rated(self, campaign: Campaign, task: str) -> RatedTask:
        """Return one task of a campaign of ratings with its ratings.

        Raises
        ------
        UserInputError
            If the campaign has no such task.
        """
        found = self._desk.campaigns.rating_task(campaign.name, task)
        return RatedTask(found, tuple(self._desk.ratings.read(campaign.name, found.id)))

    def rated_tasks(self, campaign: Campaign) -> tuple[RatedTask, ...]:
        """Return all tasks of a campaign of ratings with their ratings."""
        name = campaign.name
        return rated_tasks(self._desk.campaigns.rating_tasks(name), self._desk.ratings.read(name))

    def check(
        self, campaign: Campaign, ratings: Sequence[tuple[str, int]], verdict: Verdict, note: str, by: str
    ) -> int:
        """Record a check of ratings; the desk raises errors."""
        return self._desk.ratings.check(campaign.name, ratings, verdict, note, by)

    def worker(self, campaign: Campaign, worker: str, order: str = "newest") -> PersonView:
        """Return a worker's review page.

        Raises
        ------
        UserInputError
            If the worker is not in the campaign.
        """
        facts = self._facts(campaign)
        row = next((row for row in self._rows(facts) if row.worker == worker), None)
        if isinstance(row, RaterRow):
            return rater_view(facts, self._ratings(facts), row)
        if not isinstance(row, WorkerRow):
            raise UserInputError(f"there is no worker {worker!r} in campaign {campaign.name}")
        # show only votes that the indicators count
        return worker_view(replace(facts, votes=facts.votes[: self._judgement(facts)[0]]), row, order)

    def pair(self, campaign: Campaign, pair_id: str) -> PairTask:
        """Return a pair of a campaign, or a check task.

        Raises
        ------
        UserInputError
            If the campaign has no such pair.
        """
        return self._desk.campaigns.task(campaign.name, pair_id)

    def shown_pairs(self, campaign: Campaign, view: PersonView) -> dict[str, PairTask]:
        """Return the published pairs of the votes that best explain a worker's flags."""
        pairs = {}
        for one in view.telling if isinstance(view, WorkerView) else ():
            with suppress(UserInputError):
                pairs[one.vote.pair_id] = self.pair(campaign, one.vote.pair_id)
        return pairs

    def record(self, campaign: Campaign) -> dict[str, Any]:
        """Return the record's entries, newest first."""
        return {
            "decisions": self._desk.decisions.read(campaign.name)[::-1],
            "erased": self._desk.organiser.erased(campaign.name)[::-1],
        }

    def decide(
        self, campaign: Campaign, worker: str, standing: Standing, note: str, by: str, after: str | None
    ) -> Decision:
        """Record a decision; the desk raises errors."""
        return self._desk.organiser.decide(campaign.name, worker, standing, note, by, after)

    def erase(self, campaign: Campaign, worker: str, by: str) -> ErasedWorker:
        """Erase a worker's data, and these pages' cache of the campaign."""
        gone = erase_worker(self._desk, self._files, campaign.name, worker, by)
        with self._lock:
            self._cache = {key: value for key, value in self._cache.items() if key[1] != campaign.name}
        return gone

    def _rows(self, facts: Facts) -> Sequence[PersonRow]:
        if facts.campaign.kind == "ratings":
            return self._ratings(facts).raters
        return worker_rows(facts, self._judged(facts), self._alphas(facts))

    def _ratings(self, facts: Facts) -> RatingState:
        return rating_state(self._desk, facts, self._clock(), zone=self.zone)

    def _facts(self, campaign: Campaign) -> Facts:
        with self._lock:
            reading = self._readings.setdefault(campaign.name, Reading(self._desk, campaign.name))
        return read_facts(self._desk, campaign, reading)

    def _judged(self, facts: Facts) -> list[WorkerQuality]:
        return self._judgement(facts)[1]

    def _judgement(self, facts: Facts) -> tuple[int, list[WorkerQuality]]:
        """Return the workers' quality, and the number of the campaign's votes that it counts."""
        return self._cached("workers", facts, _WORKERS_S, lambda some: (len(some.votes), judged_of(some)))

    def _alphas(self, facts: Facts) -> dict[str, float | None]:
        def alphas(facts: Facts) -> dict[str, float | None]:
            # all votes, because the agreement of excluded workers is needed too
            votes = counting(facts.votes, (), FilterRule())
            return {worker: mine.alpha for worker, mine in worker_agreement(votes).items()}

        return self._cached("alphas", facts, _AGREEMENT_S, alphas)

    def _cached(self, what: str, facts: Facts, seconds: float, make: Callable[[Facts], T]) -> T:
        """Return the result of `make`, cached for a limited time while decisions are unchanged."""
        key = (what, facts.campaign.name)
        state = (len(facts.decisions), facts.campaign.drops_excluded)
        entry = self._cache.get(key)
        if entry is None or entry[1] != state or time.monotonic() - entry[0] > seconds:
            entry = (time.monotonic(), state, make(facts))
            with self._lock:
                self._cache[key] = entry
        value: T = entry[2]
        return value
