"""Ratings of single videos: raters give them, a second person confirms them or sends them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, select

from storage_schemas.errors import UserInputError
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignments import AssignmentRow, Assignments
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.events import EventKind, EventLog
from tasks.annotation.desk.playback import length
from tasks.annotation.desk.rating_assignment import ONLY
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import ASSIGNMENTS, CHECKS, VOTES, WORKERS, moment, plain_text
from tasks.annotation.desk.votes import Votes
from tasks.annotation.pair_task import MAX_COMMENT_LENGTH
from tasks.annotation.rating_task import VideoRating

#: Maximum length of a checker's note, in characters.
MAX_CHECK_NOTE_LENGTH = 1000


class Verdict(StrEnum):
    """A check of a rating. Stored: never rename a value."""

    CONFIRMED = "confirmed"
    SENT_BACK = "sent_back"


@dataclass(frozen=True)
class Check:
    """One check of a rating; `rating` is the rating as it was."""

    number: int
    verdict: Verdict
    note: str
    by: str
    at: str
    rating: VideoRating


@dataclass(frozen=True)
class CheckedRating:
    """A rating that counts, with its checks in order; those before the last answer are of earlier ones."""

    number: int
    rating: VideoRating
    checks: tuple[Check, ...]

    @property
    def confirmed(self) -> bool:
        """Whether a second person has confirmed it."""
        return bool(self.checks) and self.checks[-1].verdict is Verdict.CONFIRMED


class Ratings:
    """The ratings of all campaigns of ratings. Forbidden requests of raters raise `DeskRefusal`."""

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

    def rate(
        self, campaign: str, worker: str, assignment_id: str, value: int, comment: str = ""
    ) -> VideoRating:
        """Store the level and return the rating; repeating the answer returns the same rating.

        The video must have been played as far as the campaign demands. A comment is truncated to
        `MAX_COMMENT_LENGTH` characters.
        """
        with self._events.worker_request(campaign, worker, assignment_id) as connection:
            words = plain_text(comment, MAX_COMMENT_LENGTH)
            settings, row = self._assignments.hold(connection, campaign, worker, assignment_id, counts=True)
            assignment = self._assignments.rating(connection, settings, row)
            task = assignment.task
            if not task.low <= value <= task.high:
                refuse(RefusalReason.BAD_VALUE, f"a level is a whole number from {task.low} to {task.high}")
            known = self._find(connection, campaign, assignment_id)
            if known is not None:
                if (known.value, known.comment) != (value, words):
                    refuse(RefusalReason.OTHER_ANSWER, "your answer is stored and cannot be changed")
                return known
            if not assignment.was_seen():
                refuse(
                    RefusalReason.NOT_SEEN,
                    f"play the video first: {assignment.seen_share:.0%} of it has been played, "
                    f"{assignment.least_seen:.0%} is needed",
                )
            row = self._assignments.change(connection, row.assignment, state="rated", rating=str(value))
            rating = self._rating(connection, settings, row, value, words)
            self._votes.append(
                connection,
                settings,
                [(rating.rating_id, worker, rating.task_id, rating.model_dump_json())],
            )
            self._events.add(
                connection, campaign, EventKind.RATED, worker, row.assignment, row.pair_id, rating=value
            )
        return rating

    def read(self, campaign: str, task_id: str | None = None) -> list[CheckedRating]:
        """Return the ratings that count, in order, with their checks; of one task, or of all."""
        of_task = () if task_id is None else (VOTES.c.pair_id == plain_text(task_id, len(task_id)),)
        with self._database.read() as connection:
            self._campaigns.find(connection, campaign)
            checks = self._checks(connection, campaign, task_id)
            by_rating: dict[str, list[Check]] = {}
            for check in checks:
                by_rating.setdefault(check.rating.rating_id, []).append(check)
            rows = connection.execute(
                select(VOTES.c.number, VOTES.c.body)
                .where(VOTES.c.campaign == campaign, *of_task)
                .order_by(VOTES.c.number)
            )
            ratings = [(number, VideoRating.model_validate_json(body)) for number, body in rows]
        return [
            CheckedRating(number, rating, tuple(by_rating.get(rating.rating_id, ())))
            for number, rating in ratings
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
        nobody else has taken the place.

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
                rating = self._find(connection, campaign, plain_text(rating_id, 64))
                if rating is None or rating.value != value:
                    raise UserInputError("this rating was changed meanwhile: reload the page and look again")
                if not (verdict is Verdict.CONFIRMED and self._is_confirmed(connection, rating)):
                    new.append(rating)
            if not new:
                return 0
            first = self._database.numbers(connection, campaign, "checks", len(new))
            now = self._database.now()
            for place, rating in enumerate(new):
                row = {
                    "campaign": campaign,
                    "number": first + place,
                    "vote_id": rating.rating_id,
                    "worker": rating.worker,
                    "pair_id": rating.task_id,
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
                self._votes.recount(connection, settings, [rating.task_id for rating in new])
            kind = EventKind.SENT_BACK if verdict is Verdict.SENT_BACK else EventKind.CHECKED
            for rating in new:
                self._events.add(
                    connection, campaign, kind, rating.worker, rating.rating_id, rating.task_id, by=by
                )
        return len(new)

    def _reopen(self, connection: Connection, settings: Campaign, rating: VideoRating) -> None:
        """Take a rating out of the votes; its rater gets the task again, and has to watch the video again."""
        which = (VOTES.c.campaign == settings.name, VOTES.c.vote_id == rating.rating_id)
        connection.execute(VOTES.delete().where(*which))
        row = connection.execute(
            ASSIGNMENTS.select().where(ASSIGNMENTS.c.assignment == rating.rating_id)
        ).one()
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

    def _find(self, connection: Connection, campaign: str, rating_id: str) -> VideoRating | None:
        which = (VOTES.c.campaign == campaign, VOTES.c.vote_id == rating_id)
        body = connection.execute(select(VOTES.c.body).where(*which)).scalar()
        return None if body is None else VideoRating.model_validate_json(body)

    def _is_confirmed(self, connection: Connection, rating: VideoRating) -> bool:
        latest = connection.execute(
            select(CHECKS.c.verdict)
            .where(CHECKS.c.campaign == rating.campaign, CHECKS.c.vote_id == rating.rating_id)
            .order_by(CHECKS.c.number.desc())
            .limit(1)
        ).scalar()
        return latest == Verdict.CONFIRMED.value

    def _checks(self, connection: Connection, campaign: str, task_id: str | None = None) -> list[Check]:
        query = CHECKS.select().where(CHECKS.c.campaign == campaign)
        if task_id is not None:
            query = query.where(CHECKS.c.pair_id == plain_text(task_id, len(task_id)))
        return [_check(row) for row in connection.execute(query.order_by(CHECKS.c.number))]

    def _rating(
        self, connection: Connection, settings: Campaign, row: AssignmentRow, value: int, comment: str
    ) -> VideoRating:
        assignment, now = self._assignments.rating(connection, settings, row), self._database.now()
        task = assignment.task
        worker = connection.execute(
            WORKERS.select().where(WORKERS.c.campaign == row.campaign, WORKERS.c.worker == row.worker)
        ).one()
        return VideoRating(
            rating_id=row.assignment,
            campaign=settings.name,
            task_id=task.id,
            dimension=task.dimension,
            model=task.model,
            prompt_id=task.prompt_id,
            sample=task.sample,
            worker=row.worker,
            platform=worker.platform,
            language=worker.language,
            value=value,
            total_s=max((moment(now) - moment(row.opened_at)).total_seconds(), 0.0),
            watched_s=length(assignment.seen[ONLY]),
            duration_s=task.seconds,
            comment=comment,
            opened_at=row.opened_at,
            at=now,
        )


def _check(row: Row[Any]) -> Check:
    return Check(
        number=row.number,
        verdict=Verdict(row.verdict),
        note=row.note,
        by=row.by,
        at=row.at,
        rating=VideoRating.model_validate_json(row.body),
    )
