"""What the desk takes and gives: refusals, sessions, events, counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

#: Gives the time in UTC. Tests bring their own.
Clock = Callable[[], datetime]


def utc() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class RefusedReason(StrEnum):
    """Why the desk does not do what a worker asked. Stored in events: never rename a value."""

    UNKNOWN_CAMPAIGN = "unknown_campaign"
    #: nobody entered with this identity
    UNKNOWN_WORKER = "unknown_worker"
    #: the link's token was never given out, or was changed on its way
    BAD_LINK = "bad_link"
    #: the link belongs to somebody else
    LINK_USED = "link_used"
    NO_CONSENT = "no_consent"
    EXCLUDED = "excluded"
    #: this worker has done, or the campaign has got, all there is
    DONE = "done"
    #: all that is left is with other workers now: come back later
    NO_TASKS = "no_tasks"
    #: this worker has done as many tasks as one may
    LIMIT = "limit"
    #: there is no such assignment, or it is somebody else's
    UNKNOWN_ASSIGNMENT = "unknown_assignment"
    #: the lease ran out and the pair has all the workers it wants
    EXPIRED = "expired"
    #: a preference needs that some seconds of both videos were played
    NOT_LOOKED = "not_looked"
    #: confirming and rating come after the preference
    NO_PREFERENCE = "no_preference"
    #: this stretch, or one of them, was not played
    NOT_SEEN = "not_seen"
    #: a stretch was not confirmed
    NOT_CONFIRMED = "not_confirmed"
    #: an answer is stored already, and this is another one
    OTHER_ANSWER = "other_answer"
    #: a value that no page of ours sends
    BAD_VALUE = "bad_value"
    #: a completion code needs at least one answer
    NOTHING_DONE = "nothing_done"


class Refused(Exception):
    """What a worker asked for may not be.

    Parameters
    ----------
    reason
        A member of :class:`RefusedReason`; pages have a text for each.
    message
        What is wrong and what to do, in English, for logs and programs.
    """

    def __init__(self, reason: RefusedReason, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.message}"


@dataclass(frozen=True)
class WorkerSession:
    """A worker who has entered; `language` is empty until the consent."""

    campaign: str
    worker: str
    platform: str
    language: str
    consented: bool
    returning: bool


class EventKind(StrEnum):
    """What happened. Stored: never rename a value."""

    ENTERED = "entered"
    CONSENTED = "consented"
    LANGUAGE = "language"
    OPENED = "opened"
    PREFERRED = "preferred"
    CLAIM_CUT = "claim_cut"
    CONFIRMED = "confirmed"
    RATED = "rated"
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
class Event:
    """One row of the record of what happened; `at` is UTC in ISO 8601, `number` only grows."""

    number: int
    campaign: str
    kind: EventKind
    at: str
    worker: str = ""
    assignment: str = ""
    pair_id: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """What `publish` did: tasks that are new, that were there, and that are no longer shown."""

    new: int
    known: int
    retired: int


@dataclass(frozen=True)
class Added:
    """What became of votes that came from files.

    `unknown_pairs` and `refused` are vote ids: of pairs that the campaign does not have, and of a worker's
    second and different answer on a pair.
    """

    accepted: int
    known: int
    unknown_pairs: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Erased:
    """What was taken out with a worker; `vote_ids` are given once, for files made from the votes earlier."""

    campaign: str
    at: str
    votes: int
    assignments: int
    events: int
    decisions: int
    vote_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskProgress:
    """How far one pair is: votes that count, open leases, and how many votes are wanted."""

    pair_id: str
    aspect: str
    gold: bool
    votes: int
    leases: int
    wanted: int

    @property
    def done(self) -> bool:
        """Whether the pair has all the votes it wants."""
        return self.votes >= self.wanted


@dataclass(frozen=True)
class WorkerProgress:
    """What one worker did; times are UTC in ISO 8601, empty where it did not happen.

    `standing` is ``excluded``, ``cleared`` or empty; `refused_late` counts answers that came too late.
    `session` is the platform's own id of the session or assignment in which the worker first came, and `code`
    the completion code; both are empty of a worker who never entered, the code also of one without an answer.
    """

    worker: str
    platform: str
    language: str
    entered_at: str
    consented_at: str
    finished_at: str
    votes: int
    open: int
    refused_late: int
    standing: str
    session: str = ""
    code: str = ""
