"""A worker's answers in one assignment: preference, confirmed stretches and rating of a pair; or a level."""

from __future__ import annotations

from typing import overload

from sqlalchemy import Connection

from storage_schemas.votes import Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.assignment import Assignment, AssignmentRow
from tasks.annotation.desk.assignments import Assignments
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.events import EventKind, EventLog
from tasks.annotation.desk.extras import Extras
from tasks.annotation.desk.pair_assignment import PairAssignment
from tasks.annotation.desk.refusals import RefusalReason, refuse
from tasks.annotation.desk.tables import VOTES, WORKERS, as_json, moment, plain_text
from tasks.annotation.desk.viewing import checked_place
from tasks.annotation.desk.votes import Votes
from tasks.annotation.pair_task import MAX_COMMENT_LENGTH
from tasks.annotation.rating_task import AnyAnswer, VideoRating


class Answers:
    """Answers in order: prefer, confirm each stretch, rate; of a video only rate.

    Forbidden requests raise `DeskRefusal`.

    Each answer is one transaction, which is on disk when the method returns.
    """

    def __init__(
        self, database: Database, events: EventLog, assignments: Assignments, votes: Votes, extras: Extras
    ) -> None:
        self._database, self._events, self._assignments, self._votes = database, events, assignments, votes
        self._extras = extras

    def assignment(self, campaign: str, worker: str, assignment_id: str) -> Assignment:
        """Return an assignment of this worker and renew its lease, unless it is already rated."""
        with self._events.worker_request(campaign, worker, assignment_id, on_disk=False) as connection:
            settings, row = self._assignments.hold(connection, campaign, worker, assignment_id)
            return self._assignments.value(connection, settings, row)

    def prefer(self, campaign: str, worker: str, assignment_id: str, place: str) -> PairAssignment:
        """Store which video is better; repeating the answer changes nothing, a different one is refused.

        What was played before no longer counts: the changed parts are to be watched by a worker who knows
        what to look for.
        """
        with self._events.worker_request(campaign, worker, assignment_id) as connection:
            wanted = checked_place(place)
            settings, row = self._assignments.hold(connection, campaign, worker, assignment_id)
            assignment = self._assignments.pair(connection, settings, row)
            if assignment.preferred is not None:
                if assignment.preferred != wanted:
                    refuse(RefusalReason.OTHER_ANSWER, "your first answer is stored and cannot be changed")
                return assignment
            if not assignment.looked():
                what = f"{settings.look_share:.0%}" if settings.look_share else "the marked parts"
                refuse(RefusalReason.NOT_LOOKED, f"play {what} of both videos before you answer")
            row = self._assignments.change(
                connection,
                row.assignment,
                state="preferred",
                preferred=wanted,
                preferred_at=self._database.now(),
                watched_s=assignment.played_s,
                last_at=self._database.now(),
                elapsed_s=0.0,
                seen_left="[]",
                seen_right="[]",
            )
            self._record(connection, EventKind.PREFERRED, row, side=assignment.side_at(wanted))
            return self._assignments.pair(connection, settings, row)

    def confirm(self, campaign: str, worker: str, assignment_id: str, number: int) -> PairAssignment:
        """Store that the worker watched a stretch, which must have been played, after the preference."""
        with self._events.worker_request(campaign, worker, assignment_id) as connection:
            settings, row = self._assignments.hold(connection, campaign, worker, assignment_id)
            assignment = self._assignments.pair(connection, settings, row)
            if assignment.state == "opened":
                refuse(RefusalReason.NO_PREFERENCE, "first say which video is better")
            if not 0 <= number < len(assignment.task.must_see):
                refuse(RefusalReason.BAD_VALUE, f"this task has no stretch number {number}")
            if number in assignment.confirmed or assignment.state == "rated":
                return assignment
            if not assignment.was_seen(number):
                refuse(RefusalReason.NOT_SEEN, f"stretch {number + 1} has not been played to its end yet")
            confirmed = as_json(sorted(assignment.confirmed | {number}))
            row = self._assignments.change(connection, row.assignment, confirmed=confirmed)
            self._record(connection, EventKind.CONFIRMED, row, number=number)
            return self._assignments.pair(connection, settings, row, assignment)

    @overload
    def rate(
        self, campaign: str, worker: str, assignment_id: str, rating: str, comment: str = ""
    ) -> Vote: ...

    @overload
    def rate(
        self, campaign: str, worker: str, assignment_id: str, rating: int, comment: str = ""
    ) -> VideoRating: ...

    def rate(
        self, campaign: str, worker: str, assignment_id: str, rating: str | int, comment: str = ""
    ) -> AnyAnswer:
        """Store the last answer of a task and return it: A, B or C makes a vote, a level a rating.

        Repeating it returns the same. An answer after the lease expired is accepted if the task was not given
        to another worker, or still needs answers. A comment is truncated to `MAX_COMMENT_LENGTH` characters.
        """
        with self._events.worker_request(campaign, worker, assignment_id) as connection:
            words = plain_text(comment, MAX_COMMENT_LENGTH)
            settings, row = self._assignments.hold(connection, campaign, worker, assignment_id, counts=True)
            if row.training:
                refuse(RefusalReason.BAD_VALUE, "this is training, not a vote")
            assignment = self._assignments.value(connection, settings, row)
            assignment.check_value(rating)
            which = (VOTES.c.worker == worker, VOTES.c.pair_id == row.pair_id)
            known = self._votes.find(connection, settings, *which)
            if known is not None:
                if (known.vote_id, known.rating, known.comment) != (row.assignment, rating, words):
                    refuse(RefusalReason.OTHER_ANSWER, "your answer is stored and cannot be changed")
                return known
            assignment.check_seen()
            row = self._assignments.change(connection, row.assignment, state="rated", rating=str(rating))
            answer = self._answer(connection, settings, row, assignment, words)
            self._votes.store(connection, settings, [answer])
            self._record(connection, EventKind.RATED, row, rating=rating)
        return answer

    def train(self, campaign: str, worker: str, assignment_id: str, rating: str | int) -> PairAssignment:
        """Store the answer of a training task, which is paid, and not a vote; repeating it changes nothing.

        The assignment stays with the worker, who reads the explanation, until :meth:`finish_training`.
        """
        with self._events.worker_request(campaign, worker, assignment_id) as connection:
            settings, row = self._trains(connection, campaign, worker, assignment_id)
            assignment = self._assignments.pair(connection, settings, row)
            assignment.check_value(rating)
            if row.state == "rated":
                if row.rating != rating:
                    refuse(RefusalReason.OTHER_ANSWER, "your answer is stored and cannot be changed")
                return assignment
            assignment.check_seen()
            row = self._assignments.change(connection, row.assignment, state="rated", rating=rating)
            self._extras.trained(connection, settings, worker, row.assignment, row.pair_id)
            side = assignment.side_at(row.preferred)
            self._record(connection, EventKind.TRAINED, row, side=side, rating=rating)
            return self._assignments.pair(connection, settings, row)

    def finish_training(self, campaign: str, worker: str, assignment_id: str) -> None:
        """End a training task whose explanation was read; the queue continues."""
        with self._events.worker_request(campaign, worker, assignment_id) as connection:
            _, row = self._trains(connection, campaign, worker, assignment_id)
            if row.state != "rated":
                refuse(RefusalReason.NO_PREFERENCE, "answer the training task first")
            self._assignments.change(connection, row.assignment, state="closed")

    def _trains(
        self, connection: Connection, campaign: str, worker: str, assignment_id: str
    ) -> tuple[Campaign, AssignmentRow]:
        settings, row = self._assignments.hold(connection, campaign, worker, assignment_id, counts=True)
        if not row.training:
            refuse(RefusalReason.BAD_VALUE, "this task is not training")
        return settings, row

    def _record(
        self, connection: Connection, kind: EventKind, row: AssignmentRow, **detail: str | int
    ) -> None:
        self._events.add(connection, row.campaign, kind, row.worker, row.assignment, row.pair_id, **detail)

    def _answer(
        self,
        connection: Connection,
        settings: Campaign,
        row: AssignmentRow,
        assignment: Assignment,
        comment: str,
    ) -> AnyAnswer:
        now = self._database.now()
        worker = connection.execute(
            WORKERS.select().where(WORKERS.c.campaign == row.campaign, WORKERS.c.worker == row.worker)
        ).one()
        common = {
            "vote_id": row.assignment,
            "campaign": settings.name,
            "pair_id": row.pair_id,
            "aspect": assignment.task.group,
            "worker": row.worker,
            "platform": worker.platform,
            "language": worker.language,
            "gold": assignment.task.gold,
            "total_s": max((moment(now) - moment(row.opened_at)).total_seconds(), 0.0),
            "watched_s": row.watched_s + assignment.played_s,
            "pair_duration_s": assignment.task.videos_s,
            "comment": comment,
            "opened_at": row.opened_at,
            "at": now,
        }
        return assignment.answered(settings, row, common)
