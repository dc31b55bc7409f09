"""The desk's tables, the same on SQLite and PostgreSQL.

Times are UTC in ISO 8601 with microseconds, so that they sort as text. Records and lists are JSON text.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

#: Increases with every change of a table.
TABLES_VERSION = 2

METADATA = MetaData()

#: `tables_version`, and `key`, a checksum that detects a changed installation key.
META = Table(
    "desk_meta", METADATA, Column("name", Text, primary_key=True), Column("value", Text, nullable=False)
)

#: A campaign's row is locked by every transaction that depends on the whole queue: giving out tasks.
CAMPAIGNS = Table(
    "desk_campaigns",
    METADATA,
    Column("campaign", Text, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("published_at", Text, nullable=False),
)

#: The last number of each append-only table. Its row stays locked until the transaction that took a number
#: is committed, so that a number is never visible before a smaller one. Always locked last.
COUNTERS = Table(
    "desk_counters",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("value", Integer, nullable=False),
    PrimaryKeyConstraint("campaign", "stream"),
)

#: `pair_id` is the id of the task: of a pair, or of a video in one dimension; `aspect` is the aspect or the
#: dimension, here and in all tables. `votes` is the number of votes or ratings that count, `wanted` the
#: number that it should have; `shown` is false for a task that is no longer published; `watch_s` is how
#: many seconds of its videos have to be watched.
TASKS = Table(
    "desk_tasks",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("pair_id", Text, nullable=False),
    Column("aspect", Text, nullable=False),
    Column("gold", Boolean, nullable=False),
    Column("shown", Boolean, nullable=False),
    Column("watch_s", Float, nullable=False),
    Column("votes", Integer, nullable=False),
    Column("wanted", Integer, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("campaign", "pair_id"),
)

#: `check_tries` is how often the question about the instructions was answered, `check` how it ended: passed,
#: failed, or empty.
WORKERS = Table(
    "desk_workers",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("platform", Text, nullable=False),
    Column("study", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("entered_at", Text, nullable=False),
    Column("consented_at", Text, nullable=False),
    Column("finished_at", Text, nullable=False),
    Column("refused_late", Integer, nullable=False),
    Column("check_tries", Integer, nullable=False),
    Column("check", Text, nullable=False),
    PrimaryKeyConstraint("campaign", "worker"),
)

#: What is paid besides votes and ratings, each once: see :mod:`tasks.annotation.desk.extras`. `item` is the
#: assignment that it is paid for, if any; `seconds` is the time that is paid.
EXTRAS = Table(
    "desk_extras",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("item", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("pay", Float, nullable=False),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("campaign", "worker", "kind", "item"),
)

#: One row per link; `worker` is who used it; a `withdrawn` link admits no one.
INVITATIONS = Table(
    "desk_invitations",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("token_hash", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("made_at", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("withdrawn", Boolean, nullable=False),
    PrimaryKeyConstraint("campaign", "token_hash"),
)

#: A video that is rated alone is at the place ``left``.
#: `training`: its answer is not a vote, and it is closed once its explanation was read.
#: `state` is opened, preferred, rated, or closed (or answered in a file). `lapsed`: the end of the lease is
#: recorded; `given_on`: another worker got the pair after it. `elapsed_s` is how much can have been played so
#: far, `last_at` the time of the last report.
ASSIGNMENTS = Table(
    "desk_assignments",
    METADATA,
    Column("assignment", Text, primary_key=True),
    Column("campaign", Text, nullable=False),
    Column("pair_id", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("training", Boolean, nullable=False),
    Column("first_side", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("preferred", Text, nullable=False),
    Column("rating", Text, nullable=False),
    Column("opened_at", Text, nullable=False),
    Column("preferred_at", Text, nullable=False),
    Column("lease_until", Text, nullable=False),
    Column("lapsed", Boolean, nullable=False),
    Column("given_on", Boolean, nullable=False),
    Column("last_at", Text, nullable=False),
    Column("elapsed_s", Float, nullable=False),
    Column("cuts", Integer, nullable=False),
    Column("watched_s", Float, nullable=False),
    Column("seen_left", Text, nullable=False),
    Column("seen_right", Text, nullable=False),
    Column("sent_left", Text, nullable=False),
    Column("sent_right", Text, nullable=False),
    Column("confirmed", Text, nullable=False),
    UniqueConstraint("campaign", "worker", "pair_id"),
    Index("desk_assignments_of_a_pair", "campaign", "pair_id"),
    Index("desk_assignments_open", "campaign", "state", "lease_until"),
)

VOTES = Table(
    "desk_votes",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("vote_id", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("pair_id", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("campaign", "number"),
    UniqueConstraint("campaign", "vote_id"),
    UniqueConstraint("campaign", "worker", "pair_id"),
    Index("desk_votes_of_a_pair", "campaign", "pair_id"),
)

#: A second person's checks of ratings: `vote_id` is the rating, `body` the rating as it was. A rating that
#: was sent back is no longer among the votes.
CHECKS = Table(
    "desk_checks",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("vote_id", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("pair_id", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("campaign", "number"),
    Index("desk_checks_of_a_rating", "campaign", "vote_id"),
)

#: What was last estimated of a campaign's workers, from its votes up to number `votes`: see
#: :mod:`tasks.votes.worker_model`.
MODELS = Table(
    "desk_models",
    METADATA,
    Column("campaign", Text, primary_key=True),
    Column("votes", Integer, nullable=False),
    Column("body", Text, nullable=False),
)

DECISIONS = Table(
    "desk_decisions",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("worker", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("campaign", "number"),
    Index("desk_decisions_of_a_worker", "campaign", "worker"),
)

EVENTS = Table(
    "desk_events",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("assignment", Text, nullable=False),
    Column("pair_id", Text, nullable=False),
    Column("detail", Text, nullable=False),
    PrimaryKeyConstraint("campaign", "number"),
    Index("desk_events_of_a_worker", "campaign", "worker"),
)

#: What remains of erased workers: counts, no names.
ERASED = Table(
    "desk_erased",
    METADATA,
    Column("campaign", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", Text, nullable=False),
    Column("votes", Integer, nullable=False),
    Column("assignments", Integer, nullable=False),
    Column("events", Integer, nullable=False),
    Column("decisions", Integer, nullable=False),
    PrimaryKeyConstraint("campaign", "number"),
)


def stamp(at: datetime) -> str:
    """Return a time as it is stored."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def moment(text: str) -> datetime:
    """Return a stored time."""
    return datetime.fromisoformat(text)


def as_json(value: Any) -> str:
    """Return plain data as stored text."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_spans(text: str) -> tuple[tuple[Any, Any], ...]:
    """Return stored intervals or ranges."""
    return tuple((start, end) for start, end in json.loads(text))


def plain_text(text: str, longest: int) -> str:
    """Return text that both databases can store: no NUL, no lone surrogates, at most `longest` characters."""
    valid = text.encode("utf-8", "replace").decode("utf-8")
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "", valid)[:longest]
