"""What the organiser's pages know of the desk: votes and events are read once, then only what is new."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from storage_schemas.vote import Vote
from tasks.annotation.desk import Desk
from tasks.annotation.desk_types import Event, EventKind

#: Events that are read at once, so that memory is bounded.
_EVENTS_AT_ONCE = 5000
_COUNTED = (EventKind.REFUSED, EventKind.CLAIM_CUT, EventKind.EXPIRED)


@dataclass(frozen=True)
class Tallies:
    """How often something went wrong, by what.

    Parameters
    ----------
    counts
        Events that tell of trouble, by kind; refusals by ``refused: REASON``.
    by_worker
        The same for each worker.
    """

    counts: Counter[str] = field(default_factory=Counter)
    by_worker: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
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
    """One campaign's votes and tallies, kept up to date."""

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
        """Return all votes in order, and the tallies, as they are now."""
        with self._lock:
            if self._read_events():
                # a worker's data were taken out: nothing of them stays in memory
                self._forget()
                self._read_events()
            new = self._desk.votes(self._campaign, after=self._vote_number)
            if new:
                self._votes.extend(vote for _, vote in new)
                self._vote_number = new[-1][0]
            # copied: who has it is not disturbed by what is read next
            copied = Tallies(
                self._tallies.counts.copy(),
                {worker: counts.copy() for worker, counts in self._tallies.by_worker.items()},
            )
            return list(self._votes), copied

    def _read_events(self) -> bool:
        """Read what is new; say whether somebody was erased since anything was read."""
        known, erased = self._event_number > 0, False
        while True:
            events = self._desk.events(self._campaign, after=self._event_number, most=_EVENTS_AT_ONCE)
            for event in events:
                self._tallies.add(event)
                erased = erased or event.kind is EventKind.ERASED
            if events:
                self._event_number = events[-1].number
            if len(events) < _EVENTS_AT_ONCE:
                return known and erased
