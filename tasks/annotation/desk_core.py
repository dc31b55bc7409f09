"""What both sides of the desk stand on: settings, the record of events, what counts as a vote."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from sqlalchemy import Connection, bindparam, func, select

from storage_schemas.errors import UserInputError
from storage_schemas.votes import Decision, Standing
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk_database import Database
from tasks.annotation.desk_types import Clock, EventKind, Refused, RefusedReason
from tasks.annotation.tables import CAMPAIGNS, DECISIONS, EVENTS, TASKS, VOTES, as_json, stamp

_PLATFORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
#: Rows of one statement, well below what either database allows.
_AT_ONCE = 500
_CODE_LETTERS = 8


def worker_hash(key: bytes, platform: str, identity: str) -> str:
    """Return a worker's name in this installation: 32 hexadecimal digits that say nothing without the key.

    Raises
    ------
    UserInputError
        If the platform's name is none, or the identity is empty.
    """
    if not _PLATFORM.fullmatch(platform):
        raise UserInputError(
            f"{platform!r:.100} cannot be the name of a platform: letters, digits, -, _ and ., at most 64"
        )
    if not identity.strip():
        raise UserInputError("a worker's identity is empty")
    said = f"{platform}:{identity.strip()}".encode("utf-8", "surrogatepass")
    return hmac.new(key, said, hashlib.sha256).hexdigest()[:32]


def refuse(reason: RefusedReason, message: str) -> NoReturn:
    """Raise `Refused`."""
    raise Refused(reason, message)


class DeskCore:
    """A database, the installation's key and a clock."""

    def __init__(self, database: Database, key: bytes, clock: Clock) -> None:
        self._database, self._key, self._clock = database, key, clock

    def worker_of(self, platform: str, identity: str) -> str:
        """Return the name under which a worker of a platform is known here; see :func:`worker_hash`."""
        return worker_hash(self._key, platform, identity)

    def _token_hash(self, token: str) -> str:
        """Return what is stored of a link's token."""
        said = f"token:{token.strip()}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, said, hashlib.sha256).hexdigest()

    def _now(self) -> str:
        return stamp(self._clock())

    def _chance(self, *parts: str | int) -> float:
        """Return a number in [0, 1) that belongs to `parts`; nobody without the key can tell it."""
        said = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
        return int.from_bytes(hmac.new(self._key, said, hashlib.sha256).digest()[:7], "big") / (1 << 56)

    def _code(self, settings: Campaign, worker: str) -> str:
        """Return a worker's completion code."""
        said = hmac.new(self._key, f"code:{settings.name}:{worker}".encode(), hashlib.sha256).digest()
        return settings.completion_code or base64.b32encode(said).decode()[:_CODE_LETTERS]

    def _campaign(self, connection: Connection, name: str, lock: bool = False) -> Campaign:
        """Return a campaign, and hold its queue until the transaction ends if `lock` says so.

        Raises
        ------
        UserInputError
            If there is none of this name.
        """
        # what no campaign is called is not given to the database: it may not even be storable text
        named = re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
        said = CAMPAIGNS.select().where(CAMPAIGNS.c.campaign == name)
        row = connection.execute(said.with_for_update() if lock else said).first() if named else None
        if row is None:
            names = connection.execute(select(CAMPAIGNS.c.campaign).order_by(CAMPAIGNS.c.campaign)).scalars()
            raise UserInputError(
                f"there is no campaign {name!r:.100} (there are: {', '.join(names) or 'none'})"
            )
        return Campaign.model_validate_json(row.settings)

    def _event(
        self,
        connection: Connection,
        campaign: str,
        kind: EventKind,
        worker: str = "",
        assignment: str = "",
        pair_id: str = "",
        **detail: Any,
    ) -> None:
        """Put one event on record; the last thing that a transaction does."""
        self._events(connection, campaign, [(kind, worker, assignment, pair_id, detail)])

    def _events(
        self,
        connection: Connection,
        campaign: str,
        happened: Iterable[tuple[EventKind, str, str, str, dict[str, Any]]],
    ) -> None:
        """Put (kind, worker, assignment, pair, detail) on record; the last thing that a transaction does."""
        rows = list(happened)
        if not rows:
            return
        first, at = self._database.numbers(connection, campaign, "events", len(rows)), self._now()
        connection.execute(
            EVENTS.insert(),
            [
                {
                    "campaign": campaign,
                    "number": first + place,
                    "kind": kind.value,
                    "at": at,
                    "worker": worker,
                    "assignment": assignment,
                    "pair_id": pair_id,
                    "detail": as_json(detail),
                }
                for place, (kind, worker, assignment, pair_id, detail) in enumerate(rows)
            ],
        )

    def _standings(self, connection: Connection, campaign: str) -> dict[str, Standing]:
        """Return what was decided last about each worker."""
        rows = connection.execute(
            select(DECISIONS.c.body).where(DECISIONS.c.campaign == campaign).order_by(DECISIONS.c.number)
        ).scalars()
        decided = (Decision.model_validate_json(body) for body in rows)
        return {decision.worker: decision.decision for decision in decided}

    def _is_excluded(self, connection: Connection, campaign: str, worker: str) -> bool:
        last = connection.execute(
            select(DECISIONS.c.body)
            .where(DECISIONS.c.campaign == campaign, DECISIONS.c.worker == worker)
            .order_by(DECISIONS.c.number.desc())
            .limit(1)
        ).scalar()
        return last is not None and Decision.model_validate_json(last).decision is Standing.EXCLUDED

    def _recount(
        self, connection: Connection, settings: Campaign, pairs: Iterable[str] | None = None
    ) -> None:
        """Count the votes of some pairs, or of all, again; the only place where they are counted.

        The campaign's queue is held by the caller.
        """
        counted = select(VOTES.c.pair_id, func.count()).where(VOTES.c.campaign == settings.name)
        if settings.drop_excluded:
            standings = self._standings(connection, settings.name)
            gone = [worker for worker, said in standings.items() if said is Standing.EXCLUDED]
            counted = counted.where(VOTES.c.worker.not_in(gone))
        stored = select(TASKS.c.pair_id, TASKS.c.votes).where(TASKS.c.campaign == settings.name)
        chosen = None if pairs is None else sorted(set(pairs))
        steps = [chosen[at : at + _AT_ONCE] for at in range(0, len(chosen), _AT_ONCE)] if chosen else []
        for step in steps if chosen is not None else [None]:
            votes, tasks = counted.group_by(VOTES.c.pair_id), stored
            if step is not None:
                votes, tasks = votes.where(VOTES.c.pair_id.in_(step)), tasks.where(TASKS.c.pair_id.in_(step))
            number = {row[0]: row[1] for row in connection.execute(votes)}
            change_tasks(
                connection,
                settings.name,
                [
                    {"pair_id": row.pair_id, "votes": number.get(row.pair_id, 0)}
                    for row in connection.execute(tasks).all()
                    if row.votes != number.get(row.pair_id, 0)
                ],
            )


def change_tasks(connection: Connection, campaign: str, rows: Sequence[dict[str, Any]]) -> None:
    """Store other values of tasks, all of the same columns; `pair_id` says of which task.

    One statement for all: workers wait while a campaign of thousands of pairs is changed.
    """
    if not rows:
        return
    names = [name for name in rows[0] if name != "pair_id"]
    here = (TASKS.c.campaign == campaign, TASKS.c.pair_id == bindparam("the_pair"))
    update = TASKS.update().where(*here).values({name: bindparam(f"new_{name}") for name in names})
    connection.execute(
        update,
        [{"the_pair": row["pair_id"], **{f"new_{name}": row[name] for name in names}} for row in rows],
    )
