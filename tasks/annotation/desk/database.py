"""The desk's database: connections, transactions, and row numbers that never appear out of order."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, TimeoutError

from storage_schemas.commit import private_folder
from storage_schemas.errors import PrerequisiteError, StoreError, UserInputError
from storage_schemas.regular_files import check_regular
from tasks.annotation.desk.tables import COUNTERS, META, METADATA, TABLES_VERSION, stamp

#: Returns the time in UTC; tests supply their own.
Clock = Callable[[], datetime]
#: The append-only tables, in the order in which a transaction takes numbers, so that no two deadlock.
Stream = Literal["votes", "checks", "decisions", "erased", "events"]

#: Seconds to wait for a connection or for another writer.
PATIENCE_S = 60
MIN_KEY_BYTES = 16
#: An advisory lock, held while tables are created; any number that the database does not use otherwise.
_MAKING_TABLES = 0x51A7E5


def utc() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class Database:
    """One database. On SQLite writers take turns; on PostgreSQL rows are locked.

    Parameters
    ----------
    url
        The address; see :meth:`Desk.open` for the supported kinds.
    clock
        Gives the times that are stored.
    patience_s
        Seconds to wait for a connection, for another process that writes, and for other threads that write:
        for those, since one of them last ended, at most :data:`PATIENCE_S` in all.

    Raises
    ------
    UserInputError
        If the address is of an unsupported kind.
    """

    def __init__(self, url: str, clock: Clock = utc, patience_s: float = PATIENCE_S) -> None:
        self.url = _checked(url)
        self._clock, self._patience_s = clock, patience_s
        self._lite = self.url.get_backend_name() == "sqlite"
        # threads of this process wait here; SQLite itself would make them sleep and retry
        self._turn = threading.Lock() if self._lite else None
        self._last_write = 0.0
        make = _lite_engine if self._lite else _postgres_engine
        self._engine = make(self.url, patience_s)

    @property
    def shown_url(self) -> str:
        """The address without its password."""
        return self.url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def now(self, minutes: float = 0.0) -> str:
        """Return the time as stored text, optionally a number of `minutes` from now."""
        return stamp(self._clock() + timedelta(minutes=minutes))

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection for reading."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection all of whose reads see the same moment, whatever is written meanwhile."""
        with self._engine.connect() as connection:
            # a transaction of SQLite is one already
            level = None if self._lite else connection.execution_options(isolation_level="REPEATABLE READ")
            with (level or connection).begin():
                yield connection

    @contextmanager
    def write(self, on_disk: bool = True) -> Iterator[Connection]:
        """Yield a transaction; after an error nothing of it is stored.

        Parameters
        ----------
        on_disk
            Whether to return only once it is on disk. Otherwise a power failure may lose the last moments; a
            killed process loses nothing, and the order of transactions is kept.
        """
        with self._my_turn(), self._engine.connect() as connection:
            connection = connection.execution_options(slvmeval_writes="FULL" if on_disk else "NORMAL")
            with connection.begin():
                if not on_disk and not self._lite:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                yield connection
            self._last_write = time.monotonic()

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        began = time.monotonic()
        # while others' writes end, the database works and the queue moves: many workers only wait longer
        while not self._turn.acquire(timeout=max(self._give_up_at(began) - time.monotonic(), 0)):
            if time.monotonic() >= self._give_up_at(began):
                raise TimeoutError(f"other writers kept the database for more than {self._patience_s:g} s")
        try:
            yield
        finally:
            self._turn.release()

    def _give_up_at(self, began: float) -> float:
        return min(max(began, self._last_write) + self._patience_s, began + PATIENCE_S)

    def check_writing(self) -> None:
        """Write a row as it is, to see whether answers can be stored now.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If they cannot: the database is away, locked, read-only, or its disk is full.
        """
        with self.write() as connection:
            same = META.update().where(META.c.name == "tables_version").values(value=str(TABLES_VERSION))
            connection.execute(same)

    def forget(self) -> None:
        """Remove deleted rows from the files as well, as far as possible: SQLite keeps a journal."""
        if self._turn is not None:
            with self._turn, self._engine.connect() as connection:
                # outside a transaction; while another process reads, the next writer's checkpoint does it
                raw = connection.connection.dbapi_connection
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # type: ignore[union-attr]

    def numbers(self, connection: Connection, campaign: str, stream: Stream, count: int = 1) -> int:
        """Take `count` numbers of an append-only table and return the first.

        The counter stays locked until the transaction ends, so take numbers last.
        """
        here = (COUNTERS.c.campaign == campaign) & (COUNTERS.c.stream == stream)
        raised = COUNTERS.update().where(here).values(value=COUNTERS.c.value + count)
        last: int = connection.execute(raised.returning(COUNTERS.c.value)).scalar_one()
        return last - count + 1

    def begin_numbers(self, connection: Connection, campaign: str) -> None:
        """Create the counters of a new campaign."""
        rows = [{"campaign": campaign, "stream": stream, "value": 0} for stream in get_args(Stream)]
        connection.execute(COUNTERS.insert(), rows)

    def prepare(self, key: bytes) -> None:
        """Create the tables if there are none, and check that they are ours.

        Raises
        ------
        UserInputError
            If the key is too short.
        PrerequisiteError
            If the database cannot be reached.
        StoreError
            If the tables have another version, or were created with another key.
        """
        if len(key) < MIN_KEY_BYTES:
            raise UserInputError(
                f"the installation's key has {len(key)} bytes, but at least {MIN_KEY_BYTES} are needed"
            )
        mark = hmac.new(key, b"slvmeval desk", hashlib.sha256).hexdigest()
        try:
            with self.write() as connection:
                if not self._lite:
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_MAKING_TABLES})"))
                if not inspect(connection).has_table(META.name):
                    METADATA.create_all(connection)
                    values = {"tables_version": str(TABLES_VERSION), "key": mark}
                    rows = [{"name": name, "value": value} for name, value in values.items()]
                    connection.execute(META.insert(), rows)
                meta: dict[str, str] = {row.name: row.value for row in connection.execute(META.select())}
        except OperationalError as problem:
            raise PrerequisiteError(
                f"the database {self.shown_url} cannot be used: {problem.orig}. Is the server running, and "
                "does this user have write access?"
            ) from problem
        except DatabaseError as problem:
            raise StoreError(f"{self.shown_url} is not an annotation database: {problem.orig}") from problem
        if meta.get("tables_version") != str(TABLES_VERSION):
            raise StoreError(
                f"{self.shown_url} has tables of version {meta.get('tables_version')}, but this "
                "program needs "
                f"version {TABLES_VERSION}: use the program that created them, or another database"
            )
        if not hmac.compare_digest(meta["key"], mark):
            raise StoreError(
                f"{self.shown_url} was created with another installation key, and with this one no worker "
                "would be recognised: restore the old key"
            )


def _checked(url: str) -> URL:
    try:
        address = make_url(url)
    except ArgumentError as problem:
        raise UserInputError(f"{url!r} is not a valid database address: {_KINDS}") from problem
    if address.get_backend_name() == "postgresql" and address.drivername in (
        "postgresql",
        "postgresql+psycopg",
    ):
        return address.set(drivername="postgresql+psycopg")
    if address.drivername in ("sqlite", "sqlite+pysqlite"):
        if address.database in (None, "", ":memory:"):
            raise UserInputError(
                "a database in memory would lose votes: give a file, sqlite:////path/desk.sqlite"
            )
        return address
    raise UserInputError(f"{address.render_as_string(hide_password=True)!r} is not supported: {_KINDS}")


_KINDS = "give sqlite:////path/desk.sqlite or postgresql+psycopg://user:password@host/name"


def _lite_engine(url: URL, patience_s: float) -> Engine:
    file = Path(str(url.database))
    try:
        private_folder(file.parent, file.parent.parent)
    except OSError as problem:
        raise PrerequisiteError(
            f"the folder {file.parent} cannot be created: {problem.strerror}"
        ) from problem
    try:
        check_regular(file)
    except FileNotFoundError:
        _make_private(file)
    except OSError as problem:
        raise UserInputError(f"{file} cannot be a database: {problem.strerror}") from problem
    engine = create_engine(
        url, pool_size=10, max_overflow=40, pool_timeout=patience_s, connect_args={"timeout": patience_s}
    )

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not where the driver begins them
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            connection.execute(f"PRAGMA {setting}").fetchall()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        how = connection.get_execution_options().get("slvmeval_writes")
        if how:
            connection.exec_driver_sql(f"PRAGMA synchronous={how}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if how else "BEGIN")

    return engine


def _make_private(file: Path) -> None:
    """Make an empty file that its owner alone reads, or its group where the folder is the group's.

    SQLite gives its other files the same mode.
    """
    mode = 0o660 if file.parent.stat().st_mode & stat.S_IWGRP else 0o600
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        file.chmod(mode)
    except OSError:
        # it is there, or the database says what is wrong
        pass


def _postgres_engine(url: URL, patience_s: float) -> Engine:
    # an acknowledged vote is on disk, whatever the server's default
    more = {} if "options" in url.query else {"options": "-c synchronous_commit=on"}
    return create_engine(
        url, pool_size=10, max_overflow=20, pool_timeout=patience_s, pool_pre_ping=True, connect_args=more
    )
