"""The desk: the database behind the pages on which people annotate."""

from __future__ import annotations

from typing import Self

from tasks.annotation.desk_assignment import Assignment
from tasks.annotation.desk_core import worker_hash
from tasks.annotation.desk_database import Database
from tasks.annotation.desk_organiser import OrganiserDesk
from tasks.annotation.desk_types import (
    Added,
    Clock,
    Erased,
    Event,
    EventKind,
    Published,
    Refused,
    RefusedReason,
    TaskProgress,
    WorkerProgress,
    WorkerSession,
    utc,
)
from tasks.annotation.desk_worker import WorkerDesk

__all__ = [
    "Added",
    "Assignment",
    "Clock",
    "Desk",
    "Erased",
    "Event",
    "EventKind",
    "Published",
    "Refused",
    "RefusedReason",
    "TaskProgress",
    "WorkerProgress",
    "WorkerSession",
    "utc",
    "worker_hash",
]


class Desk(WorkerDesk, OrganiserDesk):
    """Tasks, assignments and votes of all campaigns in one database.

    SQLite and PostgreSQL take the same code. A desk may be used by many threads, and several processes may
    have one open on the same database.
    """

    @classmethod
    def open(cls, url: str, key: bytes, clock: Clock = utc) -> Self:
        """Open a database, and make its tables if there are none.

        Parameters
        ----------
        url
            ``sqlite:////path/desk.sqlite`` or ``postgresql+psycopg://user:password@host/name``.
        key
            The installation's key, by which workers' identities are hashed; at least 16 bytes.

        Raises
        ------
        UserInputError
            If the address is none of the two kinds, or the key is too short.
        PrerequisiteError
            If the database cannot be reached.
        StoreError
            If its tables are of another version, or were made with another key.
        """
        database = Database(url)
        try:
            database.prepare(key)
        except BaseException:
            database.close()
            raise
        return cls(database, key, clock)

    @property
    def shown_url(self) -> str:
        """The database's address without its password."""
        return self._database.shown_url

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
