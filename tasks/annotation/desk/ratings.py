"""Checks of ratings of single videos: a second person confirms them or sends them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, select

from storage_schemas.errors import UserInputError
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignments import Assignments
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.events import EventKind, EventLog
from tasks.annotation.desk.tables import ASSIGNMENTS, CHECKS, VOTES, plain_text
from tasks.annotation.desk.votes import Votes
from tasks.annotation.rating_task import VideoRating

#: Maximum length of a checker's note, in characters.
MAX_CHECK_NOTE_LENGTH = 1000


class Verdict(StrEnum):
    """A check of a rating. Stored: never rename a value."""

    CONFIRMED = "confirmed"
    SENT_BACK = "sent_back"


@dataclass(frozen=True)
class Check:
    """One check of a rating; `given` is the rating as it was."""

    verdict: Verdict
    note: str
    by: str
    at: str
    given: VideoRating


@dataclass(frozen=True)
class CheckedRating:
    """A rating that counts, with its checks in order; those before the last answer are of earlier ones."""

    given: VideoRating
    checks: tuple[Check, ...]

    @property
    def confirmed(self) -> bool:
        """Whether a second person has confirmed it."""
        return bool(self.checks) and self.checks[-1].verdict is Verdict.CONFIRMED


class Ratings:
    """The ratings of all campaigns of ratings, and their checks."""

    def __init__(
        self,
        database: Database,
        campaigns: Campaigns,
        events: EventLog,
        assignments: Assignments,
        votes: Votes,
    ) -> None:
        self._database, self._campaigns, self._events = database, campaigns, events
        self._assignments, self._votes = assignments, votes

    def read(self, campaign: str, task_id: str | None = None) -> list[CheckedRating]:
        """Return the ratings that count, in order, with their checks; of one task, or of all."""
        of_task = () if task_id is None else (VOTES.c.pair_id == plain_text(task_id, len(task_id)),)
        by_rating: dict[str, list[Check]] = {}
        with self._database.read() as connection:
            settings = self._campaigns.find(connection, campaign)
            for check in self._checks(connection, campaign, task_id):
                by_rating.setdefault(check.given.vote_id, []).append(check)
            ratings = self._votes.stored(connection, settings, *of_task)
        return [
            CheckedRating(one, tuple(by_rating.get(one.vote_id, ())))
            for _, one in ratings
            if isinstance(one, VideoRating)
        ]

    def checks(self, campaign: str) -> list[Check]:
        """Return all checks in order, also those of ratings that were replaced since."""
        with self._database.read() as connection:
            self._campaigns.find(connection, campaign)
            return self._checks(connection, campaign)

    def check(
        self, campaign: str, ratings: Sequence[tuple[str, int]], verdict: Verdict, note: str, by: str
    ) -> int:
        """Record a second person's check of ratings, all or none; return how many are new.

        A rating that is sent back no longer counts. Its rater gets the task again, with the note, as long as
        no one else has taken it.

        Parameters
        ----------
        ratings
            Id and level of each rating, as the person saw them.

        Raises
        ------
        UserInputError
            If a rating is no longer there as it was seen, or one is sent back without a note.
        """
        words = plain_text(note, MAX_CHECK_NOTE_LENGTH).strip()
        if verdict is Verdict.SENT_BACK and not words:
            raise UserInputError("write what the rater should look at again: the rater reads it")
        with self._database.write() as connection:
            settings = self._campaigns.find(connection, campaign, lock=True)
            new = []
            for rating_id, value in ratings:
                rating = self._votes.find(connection, settings, VOTES.c.vote_id == plain_text(rating_id, 64))
                if not isinstance(rating, VideoRating) or rating.rating != value:
                    raise UserInputError("this rating was changed meanwhile: reload the page and look again")
                if not (verdict is Verdict.CONFIRMED and self._is_confirmed(connection, rating)):
                    new.append(rating)
            if not new:
                return 0
            first = self._database.numbers(connection, campaign, "checks", len(new))
            now = self._database.now()
            for index, rating in enumerate(new):
                row = {
                    "campaign": campaign,
                    "number": first + index,
                    "vote_id": rating.vote_id,
                    "worker": rating.worker,
                    "pair_id": rating.pair_id,
                    "verdict": verdict.value,
                    "note": words,
                    "by": plain_text(by, 200),
                    "at": now,
                    "body": rating.model_dump_json(),
                }
                connection.execute(CHECKS.insert().values(**row))
                if verdict is Verdict.SENT_BACK:
                    self._reopen(connection, settings, rating)
            if verdict is Verdict.SENT_BACK:
                self._votes.recount(connection, settings, [rating.pair_id for rating in new])
            kind = EventKind.SENT_BACK if verdict is Verdict.SENT_BACK else EventKind.CHECKED
            for rating in new:
                self._events.add(
                    connection, campaign, kind, rating.worker, rating.vote_id, rating.pair_id, by=by
                )
        return len(new)

    def _reopen(self, connection: Connection, settings: Campaign, rating: VideoRating) -> None:
        """Take a rating out of the votes; its rater gets the task again, and has to watch the video again."""
        which = (VOTES.c.campaign == settings.name, VOTES.c.vote_id == rating.vote_id)
        connection.execute(VOTES.delete().where(*which))
        row = connection.execute(ASSIGNMENTS.select().where(ASSIGNMENTS.c.assignment == rating.vote_id)).one()
        row = self._assignments.renew(connection, settings, row)
        self._assignments.change(
            connection,
            row.assignment,
            state="opened",
            rating="",
            opened_at=self._database.now(),
            last_at=self._database.now(),
            elapsed_s=0.0,
            seen_left="[]",
        )

    def _is_confirmed(self, connection: Connection, rating: VideoRating) -> bool:
        latest = connection.execute(
            select(CHECKS.c.verdict)
            .where(CHECKS.c.campaign == rating.campaign, CHECKS.c.vote_id == rating.vote_id)
            .order_by(CHECKS.c.number.desc())
            .limit(1)
        ).scalar()
        return latest == Verdict.CONFIRMED.value

    def _checks(self, connection: Connection, campaign: str, task_id: str | None = None) -> list[Check]:
        query = CHECKS.select().where(CHECKS.c.campaign == campaign)
        if task_id is not None:
            query = query.where(CHECKS.c.pair_id == plain_text(task_id, len(task_id)))
        return [_check(row) for row in connection.execute(query.order_by(CHECKS.c.number))]


def _check(row: Row[Any]) -> Check:
    return Check(
        verdict=Verdict(row.verdict),
        note=row.note,
        by=row.by,
        at=row.at,
        given=VideoRating.model_validate_json(row.body),
    )
