"""Tables `votes` and `decisions`: what people said of pairs, and what was decided about people.

Both are append-only. A worker is never named: `worker` is a keyed hash of the identity, made with a key that
stays with the installation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import pyarrow as pa

from storage_schemas.model import Frozen

#: A: the damage is clear in all degraded clips; B: weak, or not in all; C: failed in all (SPEC, section 4).
Rating = Literal["A", "B", "C"]
SideWord = Literal["high", "low"]
#: Where a vote was given: on our own pages, or on a platform from which it came back as a file.
Origin = Literal["web", "file"]

VOTES = pa.schema(
    [
        ("vote_id", pa.string()),
        ("campaign", pa.string()),
        ("release", pa.string()),
        ("version", pa.int32()),
        ("pair_id", pa.string()),
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("worker", pa.string()),
        ("platform", pa.string()),
        ("origin", pa.string()),
        ("language", pa.string()),
        ("gold", pa.bool_()),
        ("first", pa.string()),
        ("preferred", pa.string()),
        ("rating", pa.string()),
        ("preference_s", pa.float64()),
        ("total_s", pa.float64()),
        ("watched_s", pa.float64()),
        ("pair_duration_s", pa.float64()),
        ("comment", pa.string()),
        ("opened_at", pa.string()),
        ("at", pa.string()),
    ]
)

DECISIONS = pa.schema(
    [
        ("decision_id", pa.string()),
        ("campaign", pa.string()),
        ("worker", pa.string()),
        ("decision", pa.string()),
        ("note", pa.string()),
        ("by", pa.string()),
        ("at", pa.string()),
    ]
)


class Vote(Frozen):
    """One worker's answer on one pair.

    Parameters
    ----------
    vote_id
        Id of the assignment (web) or checksum of the row (file): the same vote has the same id everywhere.
    campaign
        Name of the campaign in which it was given.
    worker
        Keyed hash of who gave it, 32 hexadecimal digits.
    platform
        Where the worker came from: ``link``, ``prolific``, ``mturk``, or the name of a platform of one's own.
    gold
        Whether the pair was mixed in to see how well the worker looks; such votes are not filtered by.
    first
        The side that was shown on the left, or as number one.
    preferred
        The side that the worker called better before the intended answer was shown.
    rating
        What the worker said of the damage afterwards.
    preference_s, total_s
        Seconds from opening the task to the preference and to the rating, by the server's clock; None where a
        platform does not say.
    watched_s
        Seconds of media that were really played, both videos together; None where that is not known.
    pair_duration_s
        Seconds of both videos together.
    opened_at, at
        When the task was opened and the rating stored, UTC in ISO 8601; empty where not known.
    """

    vote_id: str
    campaign: str
    release: str
    version: int
    pair_id: str
    source_id: str
    aspect: str
    worker: str
    platform: str = "link"
    origin: Origin = "web"
    language: str = "en"
    gold: bool = False
    first: SideWord
    preferred: SideWord
    rating: Rating
    preference_s: float | None = None
    total_s: float | None = None
    watched_s: float | None = None
    pair_duration_s: float
    comment: str = ""
    opened_at: str = ""
    at: str = ""


class Standing(StrEnum):
    """What was decided about a worker. Stored: never rename a value."""

    EXCLUDED = "excluded"
    CLEARED = "cleared"


class Decision(Frozen):
    """What a person decided about a worker; the latest of a worker counts.

    Parameters
    ----------
    note
        Why, in the words of the person who decided.
    by
        Who decided.
    """

    decision_id: str
    campaign: str
    worker: str
    decision: Standing
    note: str
    by: str
    at: str
