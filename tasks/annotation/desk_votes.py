"""Votes and people as the organiser handles them: read, add from files, decide, erase."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import asdict, replace

from sqlalchemy import ColumnElement, Connection, select

from storage_schemas.errors import UserInputError
from storage_schemas.votes import Decision, Standing, Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk_answers import vote_row
from tasks.annotation.desk_core import DeskCore
from tasks.annotation.desk_queue import OPEN_STATES
from tasks.annotation.desk_types import Added, Erased, EventKind
from tasks.annotation.tables import (
    ASSIGNMENTS,
    DECISIONS,
    ERASED,
    EVENTS,
    INVITATIONS,
    TASKS,
    VOTES,
    WORKERS,
    plain_text,
)

LONGEST_NOTE = 4000


class VoteDesk(DeskCore):
    """Votes, decisions and what is taken out again."""

    def votes(self, campaign: str, after: int = 0) -> list[tuple[int, Vote]]:
        """Return votes with their numbers above `after`, in order.

        No vote appears later with a number at or below one that was read before.
        """
        with self._database.read() as connection:
            self._campaign(connection, campaign)
            rows = connection.execute(
                select(VOTES.c.number, VOTES.c.body)
                .where(VOTES.c.campaign == campaign, VOTES.c.number > after)
                .order_by(VOTES.c.number)
            )
            return [(number, Vote.model_validate_json(body)) for number, body in rows]

    def add_votes(self, campaign: str, votes: Iterable[Vote]) -> Added:
        """Store votes that came from files, all or none; the same vote again is known, not counted twice.

        A worker's open task on a pair that the file has an answer to is closed.

        Raises
        ------
        UserInputError
            If a vote is of another campaign or release.
        """
        given = list(votes)
        with self._database.write() as connection:
            settings = self._campaign(connection, campaign, lock=True)
            _check_votes(settings, given)
            pairs = set(
                connection.execute(select(TASKS.c.pair_id).where(TASKS.c.campaign == campaign)).scalars()
            )
            bodies = connection.execute(select(VOTES.c.body).where(VOTES.c.campaign == campaign)).scalars()
            stored = [Vote.model_validate_json(body) for body in bodies]
            by_id = {vote.vote_id: vote for vote in stored}
            by_worker = {(vote.worker, vote.pair_id): vote for vote in stored}
            new: list[Vote] = []
            unknown: list[str] = []
            refused: list[str] = []
            known = 0
            for vote in given:
                there = by_id.get(vote.vote_id) or by_worker.get((vote.worker, vote.pair_id))
                if vote.pair_id not in pairs:
                    unknown.append(vote.vote_id)
                elif there is None:
                    new.append(vote)
                    by_id[vote.vote_id] = by_worker[vote.worker, vote.pair_id] = vote
                elif _answer(there) == _answer(vote):
                    known += 1
                else:
                    refused.append(vote.vote_id)
            if new:
                self._close(connection, campaign, new)
                first = self._database.numbers(connection, campaign, "votes", len(new))
                connection.execute(
                    VOTES.insert(), [vote_row(first + place, vote) for place, vote in enumerate(new)]
                )
                self._recount(connection, settings, {vote.pair_id for vote in new})
            added = Added(len(new), known, tuple(unknown), tuple(refused))
            counts = {
                key: value if isinstance(value, int) else len(value) for key, value in asdict(added).items()
            }
            self._event(connection, campaign, EventKind.IMPORTED, "", "", "", **counts)
        return added

    def _close(self, connection: Connection, campaign: str, votes: Iterable[Vote]) -> None:
        answered = {(vote.worker, vote.pair_id) for vote in votes}
        open_ = select(ASSIGNMENTS.c.assignment, ASSIGNMENTS.c.worker, ASSIGNMENTS.c.pair_id).where(
            ASSIGNMENTS.c.campaign == campaign, ASSIGNMENTS.c.state.in_(OPEN_STATES)
        )
        # few are open, a file may have very many answers
        for row in connection.execute(open_).all():
            if (row.worker, row.pair_id) in answered:
                here = ASSIGNMENTS.c.assignment == row.assignment
                connection.execute(ASSIGNMENTS.update().where(here).values(state="closed"))

    def decide(self, campaign: str, worker: str, decision: Standing, note: str, by: str) -> Decision:
        """Exclude or clear a worker; the latest decision counts, earlier ones stay on record.

        An excluded worker's open task goes back into the queue at once, and with `drop_excluded` the pairs
        that the worker voted on want a vote again.

        Raises
        ------
        UserInputError
            If the campaign never saw the worker, neither on our pages nor in a vote, or the note is empty.
        """
        words = plain_text(note, LONGEST_NOTE).strip()
        if not words:
            raise UserInputError("say in a note why: the record is kept for the worker's sake too")
        with self._database.write() as connection:
            settings = self._campaign(connection, campaign, lock=True)
            self._check_known(connection, campaign, worker)
            made = Decision(
                decision_id=uuid.uuid4().hex,
                campaign=campaign,
                worker=worker,
                decision=decision,
                note=words,
                by=plain_text(by, 200),
                at=self._now(),
            )
            if decision is Standing.EXCLUDED:
                connection.execute(
                    ASSIGNMENTS.update()
                    .where(
                        ASSIGNMENTS.c.campaign == campaign,
                        ASSIGNMENTS.c.worker == worker,
                        ASSIGNMENTS.c.state.in_(OPEN_STATES),
                    )
                    .values(lapsed=True)
                )
            number = self._database.numbers(connection, campaign, "decisions")
            row = {"campaign": campaign, "number": number, "worker": worker}
            connection.execute(DECISIONS.insert().values(**row, body=made.model_dump_json()))
            voted = select(VOTES.c.pair_id).where(VOTES.c.campaign == campaign, VOTES.c.worker == worker)
            self._recount(connection, settings, connection.execute(voted).scalars())
            kind = EventKind.EXCLUDED if decision is Standing.EXCLUDED else EventKind.CLEARED
            self._event(connection, campaign, kind, worker, note=words, by=made.by)
        return made

    def decisions(self, campaign: str) -> list[Decision]:
        """Return all decisions in order."""
        with self._database.read() as connection:
            self._campaign(connection, campaign)
            said = select(DECISIONS.c.body).where(DECISIONS.c.campaign == campaign)
            rows = connection.execute(said.order_by(DECISIONS.c.number)).scalars()
            return [Decision.model_validate_json(body) for body in rows]

    def erase(self, campaign: str, worker: str, by: str = "") -> Erased:
        """Take out all that is stored of a worker, votes too; a row of counts without a name stays.

        A link of ours that the worker used is worth nothing any more.

        Raises
        ------
        UserInputError
            If the campaign has nothing of this worker.
        """
        with self._database.write() as connection:
            settings = self._campaign(connection, campaign, lock=True)
            self._check_known(connection, campaign, worker)
            voted = VOTES.select().where(VOTES.c.campaign == campaign, VOTES.c.worker == worker)
            votes = connection.execute(voted.order_by(VOTES.c.number)).all()
            links = (INVITATIONS.c.campaign == campaign, INVITATIONS.c.worker == worker)
            connection.execute(INVITATIONS.update().where(*links).values(worker="", withdrawn=True))
            gone = {
                table.name: connection.execute(
                    table.delete().where(table.c.campaign == campaign, table.c.worker == worker)
                ).rowcount
                for table in (WORKERS, ASSIGNMENTS, VOTES, DECISIONS, EVENTS)
            }
            self._recount(connection, settings, [row.pair_id for row in votes])
            erased = Erased(
                campaign=campaign,
                at=self._now(),
                votes=len(votes),
                assignments=gone[ASSIGNMENTS.name],
                events=gone[EVENTS.name],
                decisions=gone[DECISIONS.name],
            )
            number = self._database.numbers(connection, campaign, "erased")
            row = asdict(erased)
            del row["vote_ids"]
            connection.execute(ERASED.insert().values(number=number, **row))
            del row["campaign"], row["at"]
            self._event(connection, campaign, EventKind.ERASED, by=plain_text(by, 200), **row)
        self._database.forget()
        return replace(erased, vote_ids=tuple(row.vote_id for row in votes))

    def erased(self, campaign: str) -> list[Erased]:
        """Return the rows of counts that erased workers left."""
        with self._database.read() as connection:
            self._campaign(connection, campaign)
            rows = connection.execute(
                ERASED.select().where(ERASED.c.campaign == campaign).order_by(ERASED.c.number)
            )
            return [
                Erased(campaign, row.at, row.votes, row.assignments, row.events, row.decisions)
                for row in rows
            ]

    def _check_known(self, connection: Connection, campaign: str, worker: str) -> None:
        name = plain_text(worker, len(worker))
        for table in (WORKERS, VOTES, DECISIONS):
            here: tuple[ColumnElement[bool], ...] = (table.c.campaign == campaign, table.c.worker == name)
            if connection.execute(select(table.c.worker).where(*here).limit(1)).first():
                return
        raise UserInputError(f"the campaign {campaign} knows no worker {worker!r:.100}")


def _answer(vote: Vote) -> tuple[str, str, str, str]:
    """Return what makes a vote the same vote, whichever way it came."""
    return vote.pair_id, vote.worker, vote.preferred, vote.rating


def _check_votes(settings: Campaign, votes: Iterable[Vote]) -> None:
    for vote in votes:
        said = (vote.campaign, vote.release, vote.version)
        if said != (settings.name, settings.release, settings.version):
            raise UserInputError(
                f"vote {vote.vote_id} is of campaign {vote.campaign}, release {vote.release} version "
                f"{vote.version}; this is {settings.name}, {settings.release} version {settings.version}"
            )
