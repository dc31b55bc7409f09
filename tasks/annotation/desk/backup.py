"""Backups of the desk's database, as one SQLite file, from and to any kind of database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Table, create_engine, func, select
from sqlalchemy.exc import DatabaseError

from storage_schemas.commit import sync_path
from storage_schemas.errors import StoreError, UserInputError
from storage_schemas.regular_files import check_regular
from storage_schemas.votes import VotesStore
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.tables import CAMPAIGNS, META, METADATA, VOTES

#: Rows that are copied at once.
_AT_ONCE = 1000


@dataclass(frozen=True)
class BackedUp:
    """What a backup holds, or what was restored from one.

    Parameters
    ----------
    erased_again
        Workers who were erased after the backup had been made, and are erased from what was restored.
    """

    campaigns: tuple[str, ...]
    votes: int
    erased_again: int = 0


def back_up(desk: Desk, file: Path) -> BackedUp:
    """Write all tables, as they are at one moment, into a new file; the server may continue working.

    The file has everything that the database has, and not the installation's key.

    Raises
    ------
    UserInputError
        If the file exists, or cannot be written.
    """
    if file.exists():
        raise UserInputError(f"{file} already exists: name a new file")
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with draft.open("xb"):
            draft.chmod(0o600)
    except OSError as problem:
        raise UserInputError(f"{file} cannot be written: {problem.strerror}") from problem
    try:
        with desk.database.snapshot() as source, _opened(draft) as copy:
            METADATA.create_all(copy)
            for table in METADATA.sorted_tables:
                _copy(table, source, copy)
            summary = _held(copy)
        sync_path(draft)
        draft.rename(file)
    finally:
        draft.unlink(missing_ok=True)
    return summary


def restore(desk: Desk, file: Path, votes: VotesStore) -> BackedUp:
    """Fill an empty database with a backup, all of it or nothing.

    Workers who were erased since the backup was made are erased again, as far as the store's files know.

    Parameters
    ----------
    desk
        Of the same installation, since workers are hashed with its key; its database must hold no campaign.
    votes
        The store's collected votes, which record erasures.

    Raises
    ------
    UserInputError
        If the database holds campaigns, or the backup was made with another key or version.
    StoreError
        If the file is not a backup, or damaged.
    """
    if not file.exists():
        raise UserInputError(f"there is no file {file}")
    try:
        check_regular(file)
    except OSError as problem:
        raise UserInputError(f"{file} cannot be restored: {problem.strerror}") from problem
    try:
        with _opened(file, read_only=True) as source, desk.database.write() as target:
            known = target.execute(select(CAMPAIGNS.c.campaign)).scalars().all()
            if known:
                raise UserInputError(
                    f"the database {desk.database.shown_url} holds campaigns ({', '.join(known)}): restore "
                    "into an empty one, --database, or move its file away first"
                )
            # version and key
            if _meta(source) != _meta(target):
                raise UserInputError(
                    f"{file} was made with another installation key or version of the program: restore the "
                    "key first, annotation/key of the store"
                )
            for table in METADATA.sorted_tables:
                if table is not META:
                    _copy(table, source, target)
            summary = _held(target)
    except DatabaseError as problem:
        raise StoreError(f"{file} is not a backup, or it is damaged: {problem.orig}") from problem
    again = 0
    for campaign in summary.campaigns:
        gone = votes.erased_workers(campaign)
        for worker in desk.organiser.workers(campaign):
            if gone(worker.worker, worker.entered_at):
                desk.organiser.erase(campaign, worker.worker, by="restore")
                again += 1
    return BackedUp(summary.campaigns, summary.votes, again)


@contextmanager
def _opened(file: Path, read_only: bool = False) -> Iterator[Connection]:
    mode = "?mode=ro&uri=true" if read_only else ""
    engine = create_engine(f"sqlite:///{'file:' if read_only else ''}{file.absolute()}{mode}")
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _copy(table: Table, source: Connection, target: Connection) -> None:
    for rows in source.execute(table.select()).partitions(_AT_ONCE):
        target.execute(table.insert(), [row._asdict() for row in rows])


def _meta(connection: Connection) -> dict[str, str]:
    return {row.name: row.value for row in connection.execute(META.select())}


def _held(connection: Connection) -> BackedUp:
    names = connection.execute(select(CAMPAIGNS.c.campaign).order_by(CAMPAIGNS.c.campaign)).scalars()
    return BackedUp(tuple(names), connection.execute(select(func.count()).select_from(VOTES)).scalar_one())
