"""The worker's side of the desk: enter, agree, get a task, look, answer."""

from __future__ import annotations

from collections.abc import Sequence

from storage_schemas.vote import Vote
from tasks.annotation.desk_assignment import Assignment
from tasks.annotation.desk_types import WorkerSession


class WorkerDesk:
    """What workers do. Every method raises `Refused` for what may not be, and says why."""

    def enter(
        self,
        campaign: str,
        platform: str,
        identity: str,
        token: str | None = None,
        study: str = "",
        session: str = "",
    ) -> WorkerSession:
        """Let a worker in; one who was here before is the same worker again.

        Parameters
        ----------
        platform
            ``link``, ``prolific``, ``mturk`` or a platform of one's own.
        identity
            Who it is on that platform; it is not stored, only its keyed hash. With ``link`` it is the token.
        token
            Of a link of :meth:`invite`; needed with the platform ``link``.
        study, session
            What the platform says besides, stored as it is said.
        """
        raise NotImplementedError

    def worker(self, campaign: str, worker: str) -> WorkerSession:
        """Return a worker who has entered."""
        raise NotImplementedError

    def consent(self, campaign: str, worker: str, language: str) -> WorkerSession:
        """Store that a worker agreed, and in which language; agreeing again changes nothing but that."""
        raise NotImplementedError

    def set_language(self, campaign: str, worker: str, language: str) -> WorkerSession:
        """Store which language a worker wants; votes from now on carry it."""
        raise NotImplementedError

    def next(self, campaign: str, worker: str) -> Assignment:
        """Return the worker's open assignment, or open one (`DONE`, `NO_TASKS`, `LIMIT`, `EXCLUDED`, …)."""
        raise NotImplementedError

    def assignment(self, campaign: str, worker: str, assignment_id: str) -> Assignment:
        """Return an assignment of this worker and renew its lease; one that is rated is only returned."""
        raise NotImplementedError

    def prefer(self, campaign: str, worker: str, assignment_id: str, place: str) -> Assignment:
        """Store which video is better; the same answer again changes nothing, another one is refused."""
        raise NotImplementedError

    def play(
        self,
        campaign: str,
        worker: str,
        assignment_id: str,
        place: str,
        intervals: Sequence[tuple[float, float]],
        speed: float,
    ) -> Assignment:
        """Take the page's report of what was played at a place, as far as it can be true.

        Parameters
        ----------
        intervals
            ``[start, end)`` in seconds of the video; those of earlier reports may come again.
        speed
            Playback rate; above the campaign's `most_speed` nothing counts.
        """
        raise NotImplementedError

    def serve(self, campaign: str, assignment_id: str, place: str, first_byte: int, last_byte: int) -> None:
        """Note that bytes `first_byte` to `last_byte` (both included) of a video were sent.

        Call it for each response, or each few MB of one, after the bytes went out: it is a transaction.
        """
        raise NotImplementedError

    def confirm(self, campaign: str, worker: str, assignment_id: str, number: int) -> Assignment:
        """Store that the worker saw a stretch; only one that was played, and only after the preference."""
        raise NotImplementedError

    def rate(self, campaign: str, worker: str, assignment_id: str, rating: str, comment: str = "") -> Vote:
        """Store the rating and return the vote, once it is on the disk; again for the same answer again."""
        raise NotImplementedError

    def finish(self, campaign: str, worker: str) -> str:
        """Return the completion code of a worker who has done at least one task."""
        raise NotImplementedError
