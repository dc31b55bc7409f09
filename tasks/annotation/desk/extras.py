"""What is paid besides votes and ratings: training, the question before it, late arrival, a late answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from sqlalchemy import ColumnElement, Connection, select

from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.playback import length
from tasks.annotation.desk.tables import ASSIGNMENTS, EXTRAS, TASKS, VOTES, read_spans


class ExtraKind(StrEnum):
    """What is paid. Stored: never rename a value."""

    #: a training task, as a task
    TRAINING = "training"
    #: the question about the instructions, right or wrong: the time of an answer
    CHECK = "check"
    #: there was no task for a worker who had answered none: the time of an answer
    LATECOMER = "latecomer"
    #: others had completed a task that was left open: what was played of it, and the time of an answer
    LATE_TASK = "late_task"


@dataclass(frozen=True)
class Extra:
    """One payment besides votes: for how many seconds, and in the campaign's currency."""

    kind: ExtraKind
    item: str
    seconds: float
    pay: float
    at: str


def pay_of(extras: Iterable[Extra]) -> float:
    """Return the sum of payments."""
    return sum(one.pay for one in extras)


class Extras:
    """The payments besides votes of all campaigns, each of which is stored once. Parts of transactions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, connection: Connection, campaign: str, worker: str | None = None) -> dict[str, list[Extra]]:
        """Return the payments by worker, in order, of one worker or of all."""
        which = [EXTRAS.c.campaign == campaign, *([] if worker is None else [EXTRAS.c.worker == worker])]
        paid: dict[str, list[Extra]] = {}
        for row in connection.execute(EXTRAS.select().where(*which).order_by(EXTRAS.c.at, EXTRAS.c.kind)):
            one = Extra(ExtraKind(row.kind), row.item, row.seconds, row.pay, row.at)
            paid.setdefault(row.worker, []).append(one)
        return paid

    def trained(self, connection: Connection, settings: Campaign, worker: str, item: str, pair: str) -> None:
        """Pay a training task like any other."""
        watch_s = self._watch_s(connection, settings.name, pair)
        self._pay(
            connection,
            settings.name,
            worker,
            ExtraKind.TRAINING,
            item,
            settings.expected_s(watch_s),
            settings.pay_for(watch_s),
        )

    def answered(self, connection: Connection, settings: Campaign, worker: str, kind: ExtraKind) -> None:
        """Pay the time of an answer, for the question about the instructions or for a latecomer.

        Only workers who have answered nothing are latecomers; nothing is stored for others.
        """
        voted = select(VOTES.c.number).where(VOTES.c.campaign == settings.name, VOTES.c.worker == worker)
        if kind is ExtraKind.LATECOMER and connection.execute(voted.limit(1)).first() is not None:
            return
        pay = self.answer_pay(connection, settings)
        self._pay(connection, settings.name, worker, kind, "", settings.expected_answer_s, pay)

    def answer_pay(self, connection: Connection, settings: Campaign) -> float:
        """Return what is paid for the time of an answer, apart from tasks."""
        shown = select(TASKS.c.watch_s).where(TASKS.c.campaign == settings.name, TASKS.c.shown.is_(True))
        usual_s = median([*connection.execute(shown).scalars()] or [0.0])
        return settings.pay_for_time(settings.expected_answer_s, usual_s)

    def too_late(self, connection: Connection, settings: Campaign, worker: str, item: str) -> None:
        """Pay what a worker played of a task that others have completed, if anything, never more than all."""
        which = (
            ASSIGNMENTS.c.campaign == settings.name,
            ASSIGNMENTS.c.worker == worker,
            ASSIGNMENTS.c.assignment == item,
        )
        row = connection.execute(ASSIGNMENTS.select().where(*which)).first()
        # what was answered after all, here or in a file, is paid as an answer
        if row is None or row.state in ("rated", "closed"):
            return
        played_s = row.watched_s + length(read_spans(row.seen_left)) + length(read_spans(row.seen_right))
        if not played_s:
            return
        watch_s = self._watch_s(connection, settings.name, row.pair_id)
        seconds = settings.expected_s(min(played_s, watch_s))
        pay = settings.pay_for_time(seconds, watch_s)
        self._pay(connection, settings.name, worker, ExtraKind.LATE_TASK, item, seconds, pay)

    def withdraw(self, connection: Connection, campaign: str, items: Sequence[str]) -> None:
        """Take back what was paid for late tasks that were answered after all: their votes are paid."""
        late = [EXTRAS.c.campaign == campaign, EXTRAS.c.kind == ExtraKind.LATE_TASK.value]
        for item in items if self._any(connection, late) else ():
            connection.execute(EXTRAS.delete().where(*late, EXTRAS.c.item == item))

    def _any(self, connection: Connection, which: Sequence[ColumnElement[bool]]) -> bool:
        return connection.execute(select(EXTRAS.c.worker).where(*which).limit(1)).first() is not None

    def _watch_s(self, connection: Connection, campaign: str, pair: str) -> float:
        query = select(TASKS.c.watch_s).where(TASKS.c.campaign == campaign, TASKS.c.pair_id == pair)
        return float(connection.execute(query).scalar_one())

    def _pay(
        self,
        connection: Connection,
        campaign: str,
        worker: str,
        kind: ExtraKind,
        item: str,
        seconds: float,
        pay: float,
    ) -> None:
        """Store a payment, unless it is stored; the worker's row is locked."""
        row = {"campaign": campaign, "worker": worker, "kind": kind.value, "item": item}
        same = [EXTRAS.c[name] == value for name, value in row.items()]
        if connection.execute(EXTRAS.select().where(*same)).first() is None:
            values = {**row, "seconds": seconds, "pay": pay, "at": self._database.now()}
            connection.execute(EXTRAS.insert().values(**values))
