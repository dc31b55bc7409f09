"""Workers' assignments as rows.

An assignment has a lease. It may be answered during the lease, after that until the pair is given to another
worker, and even then as long as the pair still needs votes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from storage_schemas.votes import Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignment import Assignment, AssignmentRow
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.decisions import Decisions
from tasks.annotation.desk.pair_assignment import PairAssignment
from tasks.annotation.desk.rating_assignment import ONLY, RatingAssignment
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import ASSIGNMENTS, CHECKS, TASKS, WORKERS, plain_text, read_spans
from tasks.annotation.pair_task import PLACES
from tasks.annotation.rating_task import AnyTask, RatingTask, read_task

#: States in which an answer is possible.
OPEN_STATES = ("opened", "preferred")
#: Leases are renewed at most this often, and ten times in their time at least.
_RENEWED_EVERY_S = 30.0

#: A string that cannot be an id is not sent to the database: it may not even be valid text.
_ID = re.compile(r"[0-9a-f]{32}").fullmatch


def _is_live(row: AssignmentRow, now: str) -> bool:
    return not row.lapsed and row.lease_until > now


def lock_worker(connection: Connection, campaign: str, worker: str) -> None:
    """Lock a worker's row, if there is one, until the transaction ends; before any other row."""
    name = plain_text(worker, len(worker))
    which = (WORKERS.c.campaign == plain_text(campaign, len(campaign)), WORKERS.c.worker == name)
    connection.execute(select(WORKERS.c.worker).where(*which).with_for_update()).first()


class Assignments:
    """Assignments as rows: who may answer them, and until when. Each method is part of a transaction."""

    def __init__(self, database: Database, campaigns: Campaigns, decisions: Decisions) -> None:
        self._database, self._campaigns, self._decisions = database, campaigns, decisions

    def row(
        self, connection: Connection, campaign: str, worker: str | None, assignment_id: str
    ) -> AssignmentRow:
        """Return an assignment's row and lock it until the transaction ends.

        Parameters
        ----------
        worker
            The worker to whom it must belong; None for any.
        """
        row = None
        if _ID(assignment_id):
            query = ASSIGNMENTS.select().where(
                ASSIGNMENTS.c.assignment == assignment_id, ASSIGNMENTS.c.campaign == campaign
            )
            row = connection.execute(query.with_for_update()).first()
        if row is None or worker not in (None, row.worker):
            refuse(RefusalReason.UNKNOWN_ASSIGNMENT, "there is no such task: continue with your next one")
        return row

    def hold(
        self, connection: Connection, campaign: str, worker: str, assignment_id: str, counts: bool = False
    ) -> tuple[Campaign, AssignmentRow]:
        """Return an assignment that its worker may still answer, with its lease renewed; or refuse.

        Parameters
        ----------
        counts
            Whether a vote will be counted, so that the worker may not be excluded or erased until then.
        """
        # the queue is locked only to regain a lease: requests come from all workers all the time
        queue = not self._is_live(connection, campaign, assignment_id)
        if counts:
            lock_worker(connection, campaign, worker)
        settings = self._campaigns.find_for_worker(connection, campaign, lock=queue)
        row = self.row(connection, campaign, worker, assignment_id)
        if row.state == "rated":
            return settings, row
        if row.training and row.state == "closed":
            refuse(RefusalReason.UNKNOWN_ASSIGNMENT, "your training is over: continue with your next task")
        self._decisions.refuse_excluded(connection, campaign, worker)
        if not self.may_answer(connection, settings, row):
            refuse(
                RefusalReason.EXPIRED,
                "this task has expired and others have done it since: thank you, continue with the next one",
            )
        return settings, self.renew(connection, settings, row)

    def _is_live(self, connection: Connection, campaign: str, assignment_id: str) -> bool:
        if not _ID(assignment_id):
            return False
        which = (ASSIGNMENTS.c.assignment == assignment_id, ASSIGNMENTS.c.campaign == campaign)
        lease = select(ASSIGNMENTS.c.lapsed, ASSIGNMENTS.c.lease_until)
        row = connection.execute(lease.where(*which)).first()
        return row is not None and _is_live(row, self._database.now())

    def may_answer(self, connection: Connection, settings: Campaign, row: AssignmentRow) -> bool:
        """Return whether an open assignment may still be answered."""
        if row.state not in OPEN_STATES:
            return False
        if _is_live(row, self._database.now()) or not row.given_on:
            return True
        # leases first: one that becomes a vote in between counts twice rather than not at all
        others = self.leases(connection, settings.name, row.worker, row.pair_id).get(row.pair_id, 0)
        task = connection.execute(
            select(TASKS.c.gold, TASKS.c.votes, TASKS.c.wanted).where(
                TASKS.c.campaign == settings.name, TASKS.c.pair_id == row.pair_id
            )
        ).one()
        return bool(task.gold) or task.votes + others < task.wanted

    def renew(self, connection: Connection, settings: Campaign, row: AssignmentRow) -> AssignmentRow:
        """Start a new lease on an assignment, unless it has just been started."""
        lease_s = 60 * settings.lease_minutes
        fresh = self._database.now(settings.lease_minutes - min(_RENEWED_EVERY_S, lease_s / 10) / 60)
        if not row.lapsed and not row.given_on and row.lease_until > fresh:
            return row
        return self.change(
            connection,
            row.assignment,
            lease_until=self._database.now(settings.lease_minutes),
            lapsed=False,
            given_on=False,
        )

    def change(self, connection: Connection, assignment_id: str, **values: Any) -> AssignmentRow:
        """Change values of a row and return it."""
        which = ASSIGNMENTS.c.assignment == assignment_id
        update = ASSIGNMENTS.update().where(which).values(**values)
        return connection.execute(update.returning(*ASSIGNMENTS.c)).one()

    def leases(
        self, connection: Connection, campaign: str, but: str = "", pair: str = ""
    ) -> Mapping[str, int]:
        """Return the number of current leases on each pair, or on one, without those of the worker `but`."""
        one = (ASSIGNMENTS.c.pair_id == pair,) if pair else ()
        rows = connection.execute(
            select(ASSIGNMENTS.c.pair_id, func.count())
            .where(
                ASSIGNMENTS.c.campaign == campaign,
                ASSIGNMENTS.c.state.in_(OPEN_STATES),
                ASSIGNMENTS.c.lapsed.is_(False),
                ASSIGNMENTS.c.lease_until > self._database.now(),
                ASSIGNMENTS.c.worker != but,
                *one,
            )
            .group_by(ASSIGNMENTS.c.pair_id)
        )
        return {row[0]: row[1] for row in rows}

    def lapse(self, connection: Connection, campaign: str) -> list[AssignmentRow]:
        """Mark the leases that have expired, and return their rows."""
        expired = (
            ASSIGNMENTS.c.campaign == campaign,
            ASSIGNMENTS.c.state.in_(OPEN_STATES),
            ASSIGNMENTS.c.lapsed.is_(False),
            ASSIGNMENTS.c.lease_until <= self._database.now(),
        )
        rows = connection.execute(ASSIGNMENTS.select().where(*expired)).all()
        # one that was renewed after it was read has not expired
        update = ASSIGNMENTS.update().values(lapsed=True)
        return [
            row
            for row in rows
            if connection.execute(update.where(ASSIGNMENTS.c.assignment == row.assignment, *expired)).rowcount
        ]

    def lapse_of_worker(self, connection: Connection, campaign: str, worker: str) -> None:
        """End a worker's leases immediately, so that others get the tasks."""
        which = (
            ASSIGNMENTS.c.campaign == campaign,
            ASSIGNMENTS.c.worker == worker,
            ASSIGNMENTS.c.state.in_(OPEN_STATES),
        )
        connection.execute(ASSIGNMENTS.update().where(*which).values(lapsed=True))

    def close(self, connection: Connection, campaign: str, votes: Iterable[Vote]) -> list[str]:
        """Close the open assignments that were answered elsewhere, and return their ids."""
        answered = {(vote.worker, vote.pair_id) for vote in votes}
        query = select(ASSIGNMENTS.c.assignment, ASSIGNMENTS.c.worker, ASSIGNMENTS.c.pair_id).where(
            ASSIGNMENTS.c.campaign == campaign, ASSIGNMENTS.c.state.in_(OPEN_STATES)
        )
        # few are open, but a file may contain very many answers
        closed = [
            row.assignment for row in connection.execute(query) if (row.worker, row.pair_id) in answered
        ]
        for assignment in closed:
            self.change(connection, assignment, state="closed")
        return closed

    def value(
        self,
        connection: Connection,
        settings: Campaign,
        row: AssignmentRow,
        before: Assignment | None = None,
    ) -> Assignment:
        """Convert a row into an assignment.

        Parameters
        ----------
        before
            The assignment before it was changed, whose task and language are not read again.
        """
        if before is None:
            query = select(TASKS.c.body, WORKERS.c.language).where(
                *(TASKS.c.campaign == row.campaign, TASKS.c.pair_id == row.pair_id),
                *(WORKERS.c.campaign == TASKS.c.campaign, WORKERS.c.worker == row.worker),
            )
            body, language = connection.execute(query).one()
            task: AnyTask = read_task(body)
        else:
            task, language = before.task, before.language
        settings = settings.shown_to(row.worker)
        places = (ONLY,) if isinstance(task, RatingTask) else PLACES
        common: dict[str, Any] = {
            "id": row.assignment,
            "campaign": row.campaign,
            "worker": row.worker,
            "language": str(language),
            "state": row.state,
            "rating": row.rating or None,
            "seen": {place: read_spans(getattr(row, f"seen_{place}")) for place in places},
            "lease_until": row.lease_until,
            "opened_at": row.opened_at,
            "least_seen": settings.least_seen,
        }
        if isinstance(task, RatingTask):
            return RatingAssignment(**common, task=task, note=self._note(connection, row))
        return PairAssignment(
            **common,
            task=task,
            first=row.first_side,
            preferred=row.preferred or None,
            confirmed=frozenset(json.loads(row.confirmed)),
            look_share=settings.look_first,
            training=row.training,
        )

    def pair(
        self,
        connection: Connection,
        settings: Campaign,
        row: AssignmentRow,
        before: PairAssignment | None = None,
    ) -> PairAssignment:
        """Convert the row of a pair into an assignment, or refuse; see :meth:`value`."""
        assignment = self.value(connection, settings, row, before)
        if not isinstance(assignment, PairAssignment):
            refuse(RefusalReason.BAD_VALUE, "this task asks for a rating of one video")
        return assignment

    def _note(self, connection: Connection, row: AssignmentRow) -> str:
        """Return what was last written about an earlier rating; empty for nothing."""
        query = select(CHECKS.c.note).where(
            CHECKS.c.campaign == row.campaign, CHECKS.c.vote_id == row.assignment
        )
        return connection.execute(query.order_by(CHECKS.c.number.desc()).limit(1)).scalar() or ""
