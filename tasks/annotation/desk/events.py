"""The log of events at the desk, and a worker's request as one transaction with its event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, select

from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.extras import ExtraKind, Extras
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tasks.annotation.desk.tables import EVENTS, WORKERS, as_json

#: Refusals that say something about a worker. Others may come from anybody, and could fill the log.
RECORDED_REFUSALS = frozenset(
    {
        RefusalReason.EXCLUDED,
        RefusalReason.EXPIRED,
        RefusalReason.LINK_USED,
        RefusalReason.NOT_CONFIRMED,
        RefusalReason.NOT_LOOKED,
        RefusalReason.NOT_SEEN,
        RefusalReason.NO_PREFERENCE,
        RefusalReason.OTHER_ANSWER,
    }
)
#: Workers who are refused for these reasons, and have answered nothing, are paid for coming.
TOO_LATE = frozenset({RefusalReason.DONE, RefusalReason.FULL, RefusalReason.NO_TASKS})
#: Maximum number of recorded refusals per assignment.
MAX_REFUSALS = 20


class EventKind(StrEnum):
    """Kinds of events. Stored: never rename a value."""

    ENTERED = "entered"
    CONSENTED = "consented"
    LANGUAGE = "language"
    OPENED = "opened"
    PREFERRED = "preferred"
    CLAIM_CUT = "claim_cut"
    CONFIRMED = "confirmed"
    RATED = "rated"
    TRAINED = "trained"
    UNDERSTOOD = "understood"
    MISUNDERSTOOD = "misunderstood"
    CHECKED = "checked"
    SENT_BACK = "sent_back"
    REFUSED = "refused"
    EXPIRED = "expired"
    FINISHED = "finished"
    EXCLUDED = "excluded"
    CLEARED = "cleared"
    PUBLISHED = "published"
    INVITED = "invited"
    IMPORTED = "imported"
    ERASED = "erased"


@dataclass(frozen=True)
class DeskEvent:
    """One row of the log; `at` is UTC in ISO 8601, `number` only increases."""

    number: int
    campaign: str
    kind: EventKind
    at: str
    worker: str = ""
    assignment: str = ""
    pair_id: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NewEvent:
    """An event to be recorded; it has no number yet."""

    kind: EventKind
    worker: str = ""
    assignment: str = ""
    pair_id: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


class EventLog:
    """The append-only log of all campaigns."""

    def __init__(self, database: Database, campaigns: Campaigns, extras: Extras) -> None:
        self._database, self._campaigns, self._extras = database, campaigns, extras

    def read(self, campaign: str, after: int = 0, most: int | None = None) -> list[DeskEvent]:
        """Return events with numbers above `after`, in order, at most `most` of them."""
        with self._database.read() as connection:
            self._campaigns.find(connection, campaign)
            query = EVENTS.select().where(EVENTS.c.campaign == campaign, EVENTS.c.number > after)
            rows = connection.execute(query.order_by(EVENTS.c.number).limit(most))
            return [
                DeskEvent(
                    number=row.number,
                    campaign=row.campaign,
                    kind=EventKind(row.kind),
                    at=row.at,
                    worker=row.worker,
                    assignment=row.assignment,
                    pair_id=row.pair_id,
                    detail=json.loads(row.detail),
                )
                for row in rows
            ]

    def add(
        self,
        connection: Connection,
        campaign: str,
        kind: EventKind,
        worker: str = "",
        assignment: str = "",
        pair_id: str = "",
        **detail: Any,
    ) -> None:
        """Record one event, as the last step of a transaction."""
        self.add_all(connection, campaign, [NewEvent(kind, worker, assignment, pair_id, detail)])

    def add_all(self, connection: Connection, campaign: str, events: Iterable[NewEvent]) -> None:
        """Record events in order, as the last step of a transaction."""
        new = list(events)
        if not new:
            return
        first = self._database.numbers(connection, campaign, "events", len(new))
        at = self._database.now()
        connection.execute(
            EVENTS.insert(),
            [
                {
                    "campaign": campaign,
                    "number": first + index,
                    "kind": event.kind.value,
                    "at": at,
                    "worker": event.worker,
                    "assignment": event.assignment,
                    "pair_id": event.pair_id,
                    "detail": as_json(event.detail),
                }
                for index, event in enumerate(new)
            ],
        )

    @contextmanager
    def worker_request(
        self, campaign: str, worker: str, assignment: str = "", on_disk: bool = True
    ) -> Iterator[Connection]:
        """Yield the single transaction of a worker's request; if it is refused, only the refusal is recorded,
        and what is paid to a worker who is too late.

        Parameters
        ----------
        on_disk
            See :meth:`Database.write`.
        """
        try:
            with self._database.write(on_disk) as connection:
                yield connection
        except DeskRefusal as refusal:
            if refusal.reason in RECORDED_REFUSALS | TOO_LATE:
                self._record_refusal(campaign, worker, assignment, refusal.reason)
            raise

    def _record_refusal(self, campaign: str, worker: str, assignment: str, reason: RefusalReason) -> None:
        with self._database.write() as connection:
            settings = self._campaigns.find_for_worker(connection, campaign)
            of_worker = (WORKERS.c.campaign == campaign, WORKERS.c.worker == worker)
            if connection.execute(WORKERS.select().where(*of_worker).with_for_update()).first() is None:
                return
            if reason in TOO_LATE:
                self._extras.answered(connection, settings, worker, ExtraKind.LATECOMER)
                return
            earlier = connection.execute(
                select(EVENTS.c.detail).where(
                    EVENTS.c.campaign == campaign,
                    EVENTS.c.worker == worker,
                    EVENTS.c.assignment == assignment,
                    EVENTS.c.kind == EventKind.REFUSED.value,
                )
            ).scalars()
            reasons = [json.loads(detail)["reason"] for detail in earlier]
            if len(reasons) >= MAX_REFUSALS:
                return
            if reason is RefusalReason.EXPIRED and reason.value not in reasons:
                one_more = {WORKERS.c.refused_late: WORKERS.c.refused_late + 1}
                connection.execute(WORKERS.update().where(*of_worker).values(one_more))
                self._extras.too_late(connection, settings, worker, assignment)
            self.add(connection, campaign, EventKind.REFUSED, worker, assignment, reason=reason.value)
