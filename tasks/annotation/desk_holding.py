"""Assignments as rows: who may still answer one, and for how long."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from storage_schemas.errors import UserInputError
from storage_schemas.votes import SideWord
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk_assignment import Assignment
from tasks.annotation.desk_core import DeskCore, refuse
from tasks.annotation.desk_queue import OPEN_STATES, leases
from tasks.annotation.desk_types import EventKind, Refused, RefusedReason
from tasks.annotation.tables import ASSIGNMENTS, EVENTS, TASKS, WORKERS, moment, stamp
from tasks.annotation.tasks import PLACES, PairTask, Place

#: Refusals that say something of a worker; others are anybody's, and could fill the record.
NOTED = frozenset(
    {
        RefusedReason.EXCLUDED,
        RefusedReason.EXPIRED,
        RefusedReason.LINK_USED,
        RefusedReason.NOT_CONFIRMED,
        RefusedReason.NOT_LOOKED,
        RefusedReason.NOT_SEEN,
        RefusedReason.NO_PREFERENCE,
        RefusedReason.OTHER_ANSWER,
    }
)
#: So many refusals of one assignment are put on record, no more.
MOST_NOTED = 20

AnyRow = Row[Any]
#: What no id looks like is not given to the database: it may not even be storable text.
_ID = re.compile(r"[0-9a-f]{32}").fullmatch


class HoldingDesk(DeskCore):
    """The part of the desk that knows who holds which assignment."""

    def _settings(self, connection: Connection, campaign: str, lock: bool = False) -> Campaign:
        """Return a campaign for a worker."""
        try:
            return self._campaign(connection, campaign, lock)
        except UserInputError:
            refuse(RefusedReason.UNKNOWN_CAMPAIGN, "there is no such campaign: ask who gave you the link")

    @contextmanager
    def _acting(
        self, campaign: str, worker: str, assignment: str = "", on_disk: bool = True
    ) -> Iterator[Connection]:
        """Give a transaction for what a worker does; if it is refused, only that is put on record."""
        try:
            with self._database.write(on_disk) as connection:
                yield connection
        except Refused as refusal:
            if refusal.reason in NOTED:
                self._note(campaign, worker, assignment, refusal.reason)
            raise

    def _note(self, campaign: str, worker: str, assignment: str, reason: RefusedReason) -> None:
        with self._database.write() as connection:
            self._settings(connection, campaign, lock=True)
            here = (WORKERS.c.campaign == campaign, WORKERS.c.worker == worker)
            if connection.execute(WORKERS.select().where(*here)).first() is None:
                return
            earlier = connection.execute(
                select(EVENTS.c.detail).where(
                    EVENTS.c.campaign == campaign,
                    EVENTS.c.worker == worker,
                    EVENTS.c.assignment == assignment,
                    EVENTS.c.kind == EventKind.REFUSED.value,
                )
            ).scalars()
            reasons = [json.loads(said)["reason"] for said in earlier]
            if len(reasons) >= MOST_NOTED:
                return
            if reason is RefusedReason.EXPIRED and reason.value not in reasons:
                more = {WORKERS.c.refused_late: WORKERS.c.refused_late + 1}
                connection.execute(WORKERS.update().where(*here).values(more))
            self._event(connection, campaign, EventKind.REFUSED, worker, assignment, reason=reason.value)

    def _row(self, connection: Connection, campaign: str, worker: str | None, assignment_id: str) -> AnyRow:
        """Return an assignment's row and hold it until the transaction ends."""
        row = None
        if _ID(assignment_id):
            said = ASSIGNMENTS.select().where(
                ASSIGNMENTS.c.assignment == assignment_id, ASSIGNMENTS.c.campaign == campaign
            )
            row = connection.execute(said.with_for_update()).first()
        if row is None or worker not in (None, row.worker):
            refuse(RefusedReason.UNKNOWN_ASSIGNMENT, "there is no such task: go on to your next one")
        return row

    def _held(
        self, connection: Connection, campaign: str, worker: str, assignment_id: str, queue: bool = True
    ) -> tuple[Campaign, AnyRow]:
        """Return an assignment that its worker may still answer, its lease renewed.

        Parameters
        ----------
        queue
            Whether to hold the campaign's queue in any case; else only where a lease has to be won back.
        """
        if not queue:
            here = (ASSIGNMENTS.c.assignment == assignment_id, ASSIGNMENTS.c.campaign == campaign)
            seen = (
                connection.execute(ASSIGNMENTS.select().where(*here)).first() if _ID(assignment_id) else None
            )
            queue = seen is None or not _is_live(seen, self._now())
        settings = self._settings(connection, campaign, lock=queue)
        row = self._row(connection, campaign, worker, assignment_id)
        if row.state == "rated":
            return settings, row
        if self._is_excluded(connection, campaign, worker):
            refuse(RefusedReason.EXCLUDED, "you get no further tasks; thank you for what you did")
        now = self._now()
        if not self._may_answer(connection, settings, row, now):
            refuse(
                RefusedReason.EXPIRED,
                "the time for this task ran out and others have done it since: thank you, go on to the next",
            )
        return settings, self._renewed(connection, settings, row)

    def _may_answer(self, connection: Connection, settings: Campaign, row: AnyRow, now: str) -> bool:
        """Return whether an open assignment still has its place."""
        if row.state not in OPEN_STATES:
            return False
        if _is_live(row, now) or not row.given_on:
            return True
        task = connection.execute(
            select(TASKS.c.gold, TASKS.c.votes).where(
                TASKS.c.campaign == settings.name, TASKS.c.pair_id == row.pair_id
            )
        ).one()
        others = leases(connection, settings.name, now, but=row.worker).get(row.pair_id, 0)
        return bool(task.gold) or task.votes + others < settings.workers_per_pair

    def _renewed(self, connection: Connection, settings: Campaign, row: AnyRow) -> AnyRow:
        return self._changed(
            connection, row.assignment, lease_until=self._lease_end(settings), lapsed=False, given_on=False
        )

    def _lease_end(self, settings: Campaign) -> str:
        return stamp(self._clock() + timedelta(minutes=settings.lease_minutes))

    def _changed(self, connection: Connection, assignment_id: str, **values: Any) -> AnyRow:
        here = ASSIGNMENTS.c.assignment == assignment_id
        connection.execute(ASSIGNMENTS.update().where(here).values(**values))
        return connection.execute(ASSIGNMENTS.select().where(here)).one()

    def _task(self, connection: Connection, campaign: str, pair_id: str) -> PairTask:
        body = connection.execute(
            select(TASKS.c.body).where(TASKS.c.campaign == campaign, TASKS.c.pair_id == pair_id)
        ).scalar_one()
        return PairTask.model_validate_json(body)

    def _language(self, connection: Connection, campaign: str, worker: str) -> str:
        said = select(WORKERS.c.language).where(WORKERS.c.campaign == campaign, WORKERS.c.worker == worker)
        return str(connection.execute(said).scalar_one())

    def _assignment(self, connection: Connection, settings: Campaign, row: AnyRow) -> Assignment:
        """Return a row as an assignment."""
        first: SideWord = row.first_side
        return Assignment(
            id=row.assignment,
            campaign=row.campaign,
            worker=row.worker,
            task=self._task(connection, row.campaign, row.pair_id),
            first=first,
            language=self._language(connection, row.campaign, row.worker),
            state=row.state,
            preferred=row.preferred or None,
            rating=row.rating or None,
            seen={place: parts(getattr(row, f"seen_{place}")) for place in PLACES},
            confirmed=frozenset(json.loads(row.confirmed)),
            lease_until=row.lease_until,
            opened_at=row.opened_at,
            least_seen=settings.least_seen,
            least_look_s=settings.least_look_s,
        )


def _is_live(row: AnyRow, now: str) -> bool:
    return not row.lapsed and row.lease_until > now


def parts(text: str) -> tuple[tuple[Any, Any], ...]:
    """Return stored intervals or ranges."""
    return tuple((start, end) for start, end in json.loads(text))


def checked_place(place: str) -> Place:
    """Return a place, if it is one."""
    for known in PLACES:
        if place == known:
            return known
    refuse(RefusedReason.BAD_VALUE, "a place is left or right")


def seconds_of(text: str) -> float:
    """Return a stored time as seconds since 1970."""
    return moment(text).timestamp()
