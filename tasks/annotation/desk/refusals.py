"""Why the desk refuses what a worker asks for."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn


class RefusalReason(StrEnum):
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
    #: this worker has done everything, or the campaign has all its votes
    DONE = "done"
    #: all remaining tasks are with other workers now: come back later
    NO_TASKS = "no_tasks"
    #: this worker has done as many tasks as allowed
    LIMIT = "limit"
    #: there is no such assignment, or it is somebody else's
    UNKNOWN_ASSIGNMENT = "unknown_assignment"
    #: the lease ran out and the pair has all the workers it wants
    EXPIRED = "expired"
    #: a preference requires that some seconds of both videos were played
    NOT_LOOKED = "not_looked"
    #: confirming and rating come after the preference
    NO_PREFERENCE = "no_preference"
    #: this stretch, or one of them, was not played
    NOT_SEEN = "not_seen"
    #: a stretch was not confirmed
    NOT_CONFIRMED = "not_confirmed"
    #: another answer is stored already
    OTHER_ANSWER = "other_answer"
    #: a value that none of our pages sends
    BAD_VALUE = "bad_value"
    #: a completion code requires at least one answer
    NOTHING_DONE = "nothing_done"


class DeskRefusal(Exception):
    """The desk refuses what a worker asked for.

    Parameters
    ----------
    reason
        A member of :class:`RefusalReason`; pages have a text for each.
    message
        What is wrong and what to do, in English, for logs and programs.
    """

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.message}"


def refuse(reason: RefusalReason, message: str) -> NoReturn:
    """Raise `DeskRefusal`."""
    raise DeskRefusal(reason, message)
