"""The database itself: addresses, versions, keys, and numbers that never appear out of order."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from storage_schemas.errors import PrerequisiteError, StoreError, UserInputError
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.tables import META, TABLES_VERSION, plain_text
from tests.tasks.annotation.conftest import ON_POSTGRES
from tests.tasks.annotation.example_desk import KEY, HandClock, example_campaign, example_task, open_desk


@pytest.mark.parametrize(
    "url, message",
    [
        ("", "is not a valid database address"),
        ("desk.sqlite", "is not a valid database address"),
        ("sqlite://", "in memory would lose votes"),
        ("sqlite:///:memory:", "in memory would lose votes"),
        ("mysql://me:secret@host/desk", r"'mysql://me:\*\*\*@host/desk' is not supported"),
        ("sqlite+aiosqlite:///desk.sqlite", "is not supported"),
    ],
)
def test_other_addresses_are_refused(url: str, message: str) -> None:
    with pytest.raises(UserInputError, match=message) as problem:
        Desk.open(url, KEY)
    assert "secret" not in str(problem.value)


@pytest.mark.timeout(60)
def test_open_reports_other_files_and_short_keys_and_leaves_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = tmp_path / "file"
    file.write_bytes(b"holiday pictures" * 100)
    with pytest.raises(UserInputError, match="pipe cannot be a database: it is a named pipe, not a file"):
        Desk.open(f"sqlite:///{tmp_path / 'pipe'}", KEY)
    with pytest.raises(UserInputError, match="has 5 bytes, but at least 16"):
        Desk.open(f"sqlite:///{tmp_path / 'desk.sqlite'}", b"short")
    with pytest.raises(PrerequisiteError, match="cannot be created"):
        Desk.open(f"sqlite:///{file / 'deeper' / 'desk.sqlite'}", KEY)
    with pytest.raises(StoreError, match="is not an annotation database"):
        Desk.open(f"sqlite:///{file}", KEY)
    assert file.read_bytes() == b"holiday pictures" * 100


def test_a_server_that_is_not_there_is_reported_without_its_password() -> None:
    with pytest.raises(PrerequisiteError, match=r"127\.0\.0\.1.*cannot be used") as problem:
        Desk.open("postgresql://me:secret@127.0.0.1:1/desk", KEY)
    assert "secret" not in str(problem.value)


def test_another_key_or_version_is_noticed(desk_url: str, tmp_path: Path, clock: HandClock) -> None:
    open_desk(tmp_path, clock, desk_url).close()
    with pytest.raises(StoreError, match="created with another installation key"):
        Desk.open(desk_url, KEY + b"!")
    database = Database(desk_url)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE desk_meta SET value = '99' WHERE name = 'tables_version'")
    database.close()
    with pytest.raises(StoreError, match="tables of version 99"):
        Desk.open(desk_url, KEY)


def test_campaign_and_tasks_are_there_after_a_restart(
    desk_url: str, tmp_path: Path, clock: HandClock
) -> None:
    with open_desk(tmp_path, clock, desk_url) as desk:
        desk.organiser.publish(example_campaign(), [example_task()])
    with open_desk(tmp_path, clock, desk_url) as desk:
        assert desk.campaigns.all() == [example_campaign()]
        assert desk.campaigns.tasks("autumn") == [example_task()]


def test_many_may_open_a_new_database_at_once(desk_url: str, tmp_path: Path, clock: HandClock) -> None:
    with ThreadPoolExecutor(8) as pool:
        desks = list(pool.map(lambda _: open_desk(tmp_path, clock, desk_url), range(8)))
        tasks = [example_task()]
        done = list(pool.map(lambda desk: desk.organiser.publish(example_campaign(), tasks), desks))
    for desk in desks:
        desk.close()
    assert sorted(one.new for one in done) == [0] * 7 + [1]


def test_sqlite_waits_for_the_disk_before_it_says_yes(tmp_path: Path, clock: HandClock) -> None:
    settings = []
    with open_desk(tmp_path, clock) as desk:
        for on_disk in (True, False, True):
            with desk.database.write(on_disk) as connection:
                names = ("journal_mode", "synchronous")
                settings.append([connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names])
    assert settings == [["wal", 2], ["wal", 1], ["wal", 2]]
    with closing(sqlite3.connect(tmp_path / "desk.sqlite")) as plain:
        version = plain.execute("SELECT value FROM desk_meta WHERE name = 'tables_version'").fetchone()
        assert version == (str(TABLES_VERSION),)


def test_an_error_in_a_transaction_leaves_nothing(desk: Desk) -> None:
    desk.organiser.publish(example_campaign(), [example_task()])
    with pytest.raises(ZeroDivisionError), desk.database.write() as connection:
        desk.database.numbers(connection, "autumn", "events", 5)
        raise ZeroDivisionError
    with desk.database.write() as connection:
        assert desk.database.numbers(connection, "autumn", "events") == 2


def test_a_number_is_never_seen_before_a_smaller_one(desk: Desk, desk_url: str) -> None:
    """One transaction takes a number and waits; another must not overtake it."""
    desk.organiser.publish(example_campaign(), [example_task()])
    took, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def dawdle() -> None:
        with desk.database.write() as connection:
            assert desk.database.numbers(connection, "autumn", "votes") == 1
            took.set()
            may_end.wait(30)
            order.append("first")

    def hurry() -> None:
        assert took.wait(30)
        other = Database(desk_url)
        with other.write() as connection:
            assert other.numbers(connection, "autumn", "votes") == 2
            order.append("second")
        other.close()

    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(dawdle), pool.submit(hurry)]
        assert took.wait(30)
        time.sleep(0.3)
        assert order == [], "the second waits"
        may_end.set()
        for wait in waits:
            wait.result(30)
    assert order == ["first", "second"]


@pytest.mark.parametrize("desk_url", [ON_POSTGRES], indirect=True)
@pytest.mark.parametrize("on_disk, setting", [(True, "on"), (False, "off")])
def test_postgres_waits_for_the_disk_whatever_its_default(
    desk_url: str, tmp_path: Path, clock: HandClock, on_disk: bool, setting: str
) -> None:
    with open_desk(tmp_path, clock, desk_url) as desk, desk.database.write() as connection:
        connection.exec_driver_sql(f"ALTER ROLE {connection.engine.url.username} SET synchronous_commit=off")
    with open_desk(tmp_path, clock, desk_url) as desk, desk.database.write(on_disk) as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == setting


@pytest.mark.parametrize(
    "text, expected",
    [("a\x00b", "ab"), ("half \ud83d", "half ?"), ("two\nlines\t!", "two\nlines\t!"), ("x" * 30, "x" * 20)],
)
def test_text_is_made_storable(text: str, expected: str) -> None:
    assert plain_text(text, 20) == expected


@pytest.mark.timeout(60)
def test_a_locked_database_is_reported_after_the_patience_of_its_reader(tmp_path: Path) -> None:
    file = tmp_path / "desk.sqlite"
    Desk.open(f"sqlite:///{file}", KEY).close()
    with closing(Database(f"sqlite:///{file}", patience_s=0.3)) as database:
        database.check_writing()
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(SQLAlchemyError, match="locked"):
                database.check_writing()
            # reading is possible all the time
            with database.read() as connection:
                assert connection.execute(META.select()).all()
        # a thread of the same process that writes for long
        with database.write(), ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(database.check_writing)
            with pytest.raises(SQLAlchemyError, match=r"kept the database for more than 0\.3 s"):
                waiting.result()
        database.check_writing()


@pytest.mark.timeout(60)
def test_threads_wait_for_their_turn_as_long_as_others_writes_end(tmp_path: Path) -> None:
    """Many workers who come at once are slow, and not refused: the last waits longer than for one writer."""
    patience_s, write_s = 3.0, 0.4
    url = f"sqlite:///{tmp_path / 'desk.sqlite'}"
    Desk.open(url, KEY).close()
    with closing(Database(url, patience_s=patience_s)) as database:

        def write(_: int) -> None:
            with database.write():
                time.sleep(write_s)

        with ThreadPoolExecutor(10) as pool:
            list(pool.map(write, range(10)))


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o755, 0o600), (0o770, 0o660)])
def test_database_files_have_the_rights_of_their_folder(tmp_path: Path, folder: int, file: int) -> None:
    store = tmp_path / "annotation"
    store.mkdir()
    store.chmod(folder)
    with Desk.open(f"sqlite:///{store / 'desk.sqlite'}", KEY) as desk:
        desk.organiser.publish(example_campaign(), [example_task()])
        modes = {path.name: path.stat().st_mode & 0o777 for path in store.iterdir()}
    assert set(modes) == {"desk.sqlite", "desk.sqlite-wal", "desk.sqlite-shm"}
    assert set(modes.values()) == {file}
