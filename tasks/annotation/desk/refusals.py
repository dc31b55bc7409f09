"""Why the desk refuses a worker's request."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn


class RefusalReason(StrEnum):
    """Reasons of refusals. Stored in events: never rename a value."""

    UNKNOWN_CAMPAIGN = "unknown_campaign"
    #: no worker entered with this identity
    UNKNOWN_WORKER = "unknown_worker"
    #: the link's token was never issued, or was altered
    BAD_LINK = "bad_link"
    #: the link belongs to another worker
    LINK_USED = "link_used"
    NO_CONSENT = "no_consent"
    #: as many people as may take part do
    FULL = "full"
    EXCLUDED = "excluded"
    #: this worker has done everything, or the campaign has all its votes
    DONE = "done"
    #: all remaining tasks are with other workers at the moment
    NO_TASKS = "no_tasks"
    #: this worker has done as many tasks as allowed
    LIMIT = "limit"
    #: there is no such assignment, or it belongs to another worker
    UNKNOWN_ASSIGNMENT = "unknown_assignment"
    #: the lease expired and the pair has all the workers it needs
    EXPIRED = "expired"
    #: a preference requires some seconds of both videos to be played
    NOT_LOOKED = "not_looked"
    #: confirming and rating come after the preference
    NO_PREFERENCE = "no_preference"
    #: this stretch, or one of them, was not played
    NOT_SEEN = "not_seen"
    #: a stretch was not confirmed
    NOT_CONFIRMED = "not_confirmed"
    #: a different answer is already stored
    OTHER_ANSWER = "other_answer"
    #: a value that our pages never send
    BAD_VALUE = "bad_value"
    #: the question about the instructions comes first
    CHECK_FIRST = "check_first"
    #: the question about the instructions was answered wrongly as often as allowed
    SCREENED_OUT = "screened_out"
    #: a completion code requires at least one answer
    NOTHING_DONE = "nothing_done"


class DeskRefusal(Exception):
    """The desk refuses a worker's request.

    Parameters
    ----------
    reason
        The reason; pages have a text for each.
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
