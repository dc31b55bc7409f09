"""The queue: which task a worker gets."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import Connection, and_, or_, select

from storage_schemas.votes import Check, SideWord, check_of
from tasks.annotation.campaign import Campaign
from tasks.annotation.checks import CheckKind, check_tasks, checks_due
from tasks.annotation.desk.assignment import Assignment, AssignmentRow
from tasks.annotation.desk.assignments import OPEN_STATES, Assignments, lock_worker
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.choice import WaitingPair, choose_pair
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.decisions import Decisions
from tasks.annotation.desk.events import EventKind, EventLog, NewEvent
from tasks.annotation.desk.extras import Extras
from tasks.annotation.desk.keys import DeskKey
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import ASSIGNMENTS, TASKS
from tasks.annotation.desk.votes import Votes
from tasks.annotation.desk.workers import Workers


class Queue:
    """The queue of each campaign. Forbidden requests raise `DeskRefusal`."""

    def __init__(
        self,
        database: Database,
        key: DeskKey,
        campaigns: Campaigns,
        events: EventLog,
        decisions: Decisions,
        assignments: Assignments,
        votes: Votes,
        workers: Workers,
        extras: Extras,
    ) -> None:
        self._database, self._key, self._campaigns, self._events = database, key, campaigns, events
        self._decisions, self._assignments = decisions, assignments
        self._votes, self._workers, self._extras = votes, workers, extras

    def next(self, campaign: str, worker: str) -> Assignment:
        """Return the worker's open assignment, or open one (`DONE`, `NO_TASKS`, `LIMIT`, `EXCLUDED`, …).

        With `comprehension` a question comes before the first (`CHECK_FIRST`, `SCREENED_OUT`), with
        `training` the first are training.
        """
        late: list[str] = []
        try:
            return self._next(campaign, worker, late)
        finally:
            if late:
                self._pay_late(campaign, worker, late)

    def _pay_late(self, campaign: str, worker: str, late: Sequence[str]) -> None:
        with self._database.write() as connection:
            lock_worker(connection, campaign, worker)
            settings = self._campaigns.find_for_worker(connection, campaign)
            for item in late:
                self._extras.too_late(connection, settings, worker, item)

    def _next(self, campaign: str, worker: str, late: list[str]) -> Assignment:
        """Return the next assignment, and add those to `late` that may no longer be answered."""
        # a task that is lost by a power failure is given out again
        with self._events.worker_request(campaign, worker, on_disk=False) as connection:
            settings = self._campaigns.find_for_worker(connection, campaign)
            # a worker's requests one after the other: none gets two tasks
            lock_worker(connection, campaign, worker)
            session = self._workers.session(connection, campaign, worker)
            if not session.consented:
                refuse(RefusalReason.NO_CONSENT, "read and accept the consent first")
            self._decisions.refuse_excluded(connection, campaign, worker)
            events = [
                NewEvent(EventKind.EXPIRED, row.worker, row.assignment, row.pair_id)
                for row in self._assignments.lapse(connection, campaign)
            ]
            voted = self._votes.pairs_of(connection, campaign, worker)
            if settings.comprehension and not voted:
                self._workers.refuse_unchecked(session)
            at_limit = 0 < settings.tasks_per_worker <= len(voted)
            row = self._open_row(connection, settings, worker, late, lapsed=False)
            if row is None and not at_limit and self._has_lapsed(connection, campaign, worker):
                settings = self._campaigns.find_for_worker(connection, campaign, lock=True)
                row = self._open_row(connection, settings, worker, late, lapsed=True)
            if row is None and at_limit:
                refuse(
                    RefusalReason.LIMIT,
                    f"you have done all {len(voted)} tasks that one worker may do: thank you",
                )
            if row is None:
                # the choice takes longest, and others need not wait for it
                pair = self._pick(connection, settings, worker, voted)
                settings = self._campaigns.find_for_worker(connection, campaign, lock=True)
                if not self._is_free(connection, campaign, pair):
                    pair = self._pick(connection, settings, worker, voted)
                lesson = self._lesson(connection, settings, worker, voted)
                row = self._assign(connection, settings, worker, lesson or pair, lesson is not None)
                events.append(NewEvent(EventKind.OPENED, row.worker, row.assignment, row.pair_id))
            assignment = self._assignments.value(connection, settings, row)
            self._events.add_all(connection, campaign, events)
            return assignment

    def look(self, campaign: str, worker: str) -> None:
        """Refuse a worker who has not agreed yet if there is no task (`DONE`, `NO_TASKS`, `FULL`)."""
        with self._events.worker_request(campaign, worker, on_disk=False) as connection:
            settings = self._campaigns.find_for_worker(connection, campaign)
            if not self._workers.session(connection, campaign, worker).consented:
                self._workers.refuse_full(connection, settings)
                self._pick(connection, settings, worker, set())

    def _lesson(
        self, connection: Connection, settings: Campaign, worker: str, voted: set[str]
    ) -> WaitingPair | None:
        """Return the gold pair with which the worker trains next; None from the first other task on."""
        if not settings.training or voted:
            return None
        name = settings.name
        query = select(ASSIGNMENTS.c.pair_id, ASSIGNMENTS.c.training).where(
            ASSIGNMENTS.c.campaign == name, ASSIGNMENTS.c.worker == worker
        )
        had = {pair: training for pair, training in connection.execute(query)}
        if len(had) >= settings.training or not all(had.values()):
            return None
        gold = [
            one
            for one in self._waiting(connection, name, gold=True)
            if check_of(one.pair_id)[1] is None and one.pair_id not in had
        ]
        return min(
            gold, key=lambda one: self._key.chance("training", name, worker, one.pair_id), default=None
        )

    def _open_row(
        self, connection: Connection, settings: Campaign, worker: str, late: list[str], lapsed: bool
    ) -> AssignmentRow | None:
        """Return the worker's open assignment that may still be answered, with its lease renewed.

        It may be a training task that is answered, until its explanation was read. `lapsed` allows one whose
        lease has expired; those that may no longer be answered are added to `late`.
        """
        explained = (ASSIGNMENTS.c.training.is_(True), ASSIGNMENTS.c.state == "rated")
        rows = connection.execute(
            ASSIGNMENTS.select()
            .where(
                ASSIGNMENTS.c.campaign == settings.name,
                ASSIGNMENTS.c.worker == worker,
                or_(ASSIGNMENTS.c.state.in_(OPEN_STATES), and_(*explained)),
            )
            .order_by(ASSIGNMENTS.c.lapsed, ASSIGNMENTS.c.opened_at)
        ).all()
        for row in rows:
            if row.state == "rated":
                return row
            if not lapsed and row.lapsed:
                continue
            if self._assignments.may_answer(connection, settings, row):
                return self._assignments.renew(connection, settings, row)
            late.append(row.assignment)
        return None

    def _has_lapsed(self, connection: Connection, campaign: str, worker: str) -> bool:
        which = (
            ASSIGNMENTS.c.campaign == campaign,
            ASSIGNMENTS.c.worker == worker,
            ASSIGNMENTS.c.state.in_(OPEN_STATES),
        )
        return connection.execute(select(ASSIGNMENTS.c.assignment).where(*which).limit(1)).first() is not None

    def _is_free(self, connection: Connection, campaign: str, pair: WaitingPair) -> bool:
        """Return whether a pair still wants a vote, or is gold."""
        leases = self._assignments.leases(connection, campaign, pair=pair.pair_id)
        row = connection.execute(
            select(TASKS.c.gold, TASKS.c.shown, TASKS.c.votes, TASKS.c.wanted).where(
                TASKS.c.campaign == campaign, TASKS.c.pair_id == pair.pair_id
            )
        ).one()
        return bool(row.shown and (row.gold or row.votes + leases.get(pair.pair_id, 0) < row.wanted))

    def _pick(self, connection: Connection, settings: Campaign, worker: str, voted: set[str]) -> WaitingPair:
        """Return the worker's next pair, gold or not."""
        if settings.closed:
            refuse(RefusalReason.DONE, "this campaign takes no more answers: thank you")
        name = settings.name
        query = select(ASSIGNMENTS.c.pair_id).where(
            ASSIGNMENTS.c.campaign == name, ASSIGNMENTS.c.worker == worker
        )
        had = list(connection.execute(query.order_by(ASSIGNMENTS.c.opened_at)).scalars())
        judged = voted | set(had)
        waiting = self._waiting(connection, name, gold=False)
        pair = choose_pair(waiting, judged, lambda what: self._key.chance("tie", name, worker, what))
        if pair is None:
            if any(other.votes < other.wanted and other.pair_id not in voted for other in waiting):
                refuse(
                    RefusalReason.NO_TASKS,
                    "all remaining tasks are with other workers now: come back in an hour",
                )
            refuse(RefusalReason.DONE, "you have done all tasks: thank you")
        done = [one for one in had if one in voted]
        due: tuple[CheckKind, ...]
        if settings.rule == "strict":
            model = self._votes.model(connection, settings)
            due = checks_due(
                len(done),
                settings.checks,
                lambda word: self._key.chance("check", name, worker, word),
                model,
                worker,
            )
        else:
            gold_due = self._key.chance("gold", name, worker, len(judged)) < settings.gold_share
            due = ("gold",) if gold_due else ()
        gold = {one.pair_id: one for one in self._waiting(connection, name, gold=True)} if due else {}
        for kind in due:
            fitting = [task for task in check_tasks(done, kind, gold) if task not in judged]
            if fitting:
                return gold[min(fitting, key=lambda task: self._key.chance("gold pair", name, worker, task))]
        return pair

    def _waiting(self, connection: Connection, campaign: str, gold: bool) -> list[WaitingPair]:
        """Return all published pairs, either gold ones or the others."""
        leases = self._assignments.leases(connection, campaign)
        rows = connection.execute(
            select(TASKS.c.pair_id, TASKS.c.aspect, TASKS.c.votes, TASKS.c.wanted).where(
                TASKS.c.campaign == campaign, TASKS.c.gold.is_(gold), TASKS.c.shown.is_(True)
            )
        ).all()
        return [
            WaitingPair(id_, aspect, votes, leases.get(id_, 0), wanted) for id_, aspect, votes, wanted in rows
        ]

    def _assign(
        self, connection: Connection, settings: Campaign, worker: str, pair: WaitingPair, training: bool
    ) -> AssignmentRow:
        """Give a pair to a worker, as a task or as training."""
        name, now = settings.name, self._database.now()
        expired = (
            ASSIGNMENTS.c.campaign == name,
            ASSIGNMENTS.c.pair_id == pair.pair_id,
            # a lease may have expired since the others were marked
            or_(ASSIGNMENTS.c.lapsed.is_(True), ASSIGNMENTS.c.lease_until <= now),
        )
        connection.execute(ASSIGNMENTS.update().where(*expired).values(given_on=True))
        values = {
            "assignment": uuid.uuid4().hex,
            "campaign": name,
            "pair_id": pair.pair_id,
            "worker": worker,
            "training": training,
            "first_side": self._first_side(connection, name, worker, pair.pair_id),
            "state": "opened",
            "preferred": "",
            "rating": "",
            "opened_at": now,
            "preferred_at": "",
            "lease_until": self._database.now(settings.lease_minutes),
            "lapsed": False,
            "given_on": False,
            "last_at": now,
            "elapsed_s": 0.0,
            "cuts": 0,
            "watched_s": 0.0,
            **dict.fromkeys(("seen_left", "seen_right", "sent_left", "sent_right", "confirmed"), "[]"),
        }
        return connection.execute(ASSIGNMENTS.insert().values(**values).returning(ASSIGNMENTS)).one()

    def _first_side(self, connection: Connection, name: str, worker: str, task: str) -> SideWord:
        """Return the side that is shown on the left: by chance, or the other one if a pair is repeated."""
        pair_id, check = check_of(task)
        before = connection.execute(
            select(ASSIGNMENTS.c.first_side).where(
                ASSIGNMENTS.c.campaign == name,
                ASSIGNMENTS.c.worker == worker,
                ASSIGNMENTS.c.pair_id == pair_id,
            )
        ).scalar()
        if check is Check.AGAIN and before is not None:
            return "low" if before == "high" else "high"
        return "high" if self._key.chance("order", name, worker, task) < 0.5 else "low"
