"""A backup of the database, restored into another one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from storage_schemas.errors import StoreError, UserInputError
from storage_schemas.store import Store
from storage_schemas.votes import Standing, VotesStore
from tasks.annotation.desk.backup import BackedUp, back_up, restore
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.tables import METADATA
from tests.tasks.annotation.example_desk import (
    KEY,
    HandClock,
    come_in,
    do_task,
    example_campaign,
    example_tasks,
    file_vote,
    open_desk,
)


def rows(desk: Desk) -> dict[str, list[tuple[object, ...]]]:
    """Return all that a database holds, by table."""
    with desk.database.read() as connection:
        return {
            table.name: sorted(tuple(row) for row in connection.execute(table.select()))
            for table in METADATA.sorted_tables
        }


@pytest.fixture
def files(tmp_path: Path) -> VotesStore:
    return VotesStore(Store.create(tmp_path / "store"))


@pytest.fixture
def busy(desk: Desk, clock: HandClock) -> list[str]:
    """The names of two workers who voted in a campaign in which much has happened."""
    desk.organiser.publish(example_campaign(until_certain=True), example_tasks(6))
    workers = [come_in(desk, name) for name in ("ann", "bob")]
    for worker in workers:
        do_task(desk, clock, worker)
        desk.queue.next("autumn", worker)
    desk.organiser.invite("autumn", 2)
    desk.organiser.decide("autumn", workers[1], Standing.CLEARED, "it was the network", "me")
    desk.votes.weigh("autumn")
    return workers


def test_restore_gives_back_what_was(
    desk: Desk, clock: HandClock, busy: list[str], files: VotesStore, tmp_path: Path
) -> None:
    file = tmp_path / "backup.sqlite"
    assert back_up(desk, file) == BackedUp(("autumn",), 2)
    assert file.stat().st_mode & 0o077 == 0, "it has what people said, for the organiser only"
    with open_desk(tmp_path / "other", clock) as other:
        assert restore(other, file, files) == BackedUp(("autumn",), 2)
        assert rows(other) == rows(desk)
        # work resumes where it was
        assert other.queue.next("autumn", busy[0]).id == desk.queue.next("autumn", busy[0]).id
        do_task(other, clock, busy[0])
        with pytest.raises(UserInputError, match="restore into an empty one"):
            restore(other, file, files)
    with pytest.raises(UserInputError, match="already exists"):
        back_up(desk, file)
    assert sorted(path.name for path in tmp_path.glob("*backup*")) == ["backup.sqlite"]
    # who was erased since is erased again
    files.add([vote for _, vote in desk.votes.read("autumn")])
    files.erase("autumn", busy[0])
    with open_desk(tmp_path / "third", clock) as other:
        assert restore(other, file, files).erased_again == 1
        assert [vote.worker for _, vote in other.votes.read("autumn")] == busy[1:]
        assert [one.worker for one in other.organiser.workers("autumn")] == busy[1:]


def test_restore_refuses_other_files(desk: Desk, clock: HandClock, files: VotesStore, tmp_path: Path) -> None:
    good = tmp_path / "good.sqlite"
    with open_desk(tmp_path / "first", clock) as first:
        first.organiser.publish(example_campaign(), example_tasks(3))
        do_task(first, clock, come_in(first, "ann"))
        back_up(first, good)
        held = rows(first)
    damaged, text = tmp_path / "damaged.sqlite", tmp_path / "notes.txt"
    damaged.write_bytes(good.read_bytes()[:6000])
    text.write_text("no database at all, but long enough to be read as one " * 100)
    for file in (damaged, text):
        with pytest.raises(StoreError, match="is not a backup, or it is damaged"):
            restore(desk, file, files)
    with pytest.raises(UserInputError, match="there is no file"):
        restore(desk, tmp_path / "missing.sqlite", files)
    with pytest.raises(UserInputError, match="cannot be restored: it is a folder, not a file"):
        restore(desk, tmp_path, files)
    assert desk.campaigns.all() == []
    with (
        Desk.open(f"sqlite:///{tmp_path / 'third.sqlite'}", b"the key of somebody else", clock) as third,
        pytest.raises(UserInputError, match="another installation key"),
    ):
        restore(third, good, files)
    restore(desk, good, files)
    assert rows(desk) == held


def test_votes_that_come_meanwhile_are_in_it_whole_or_not_at_all(desk: Desk, tmp_path: Path) -> None:
    tasks = example_tasks(40)
    desk.organiser.publish(example_campaign(), tasks)
    over = threading.Event()

    def vote_on() -> None:
        for number, task in enumerate(tasks):
            desk.votes.add("autumn", [file_vote(task, f"{number:032x}")])
        over.set()

    others = threading.Thread(target=vote_on)
    others.start()
    number = 0
    while not over.is_set() or not number:
        file = tmp_path / f"backup-{number}.sqlite"
        held = back_up(desk, file)
        with Desk.open(f"sqlite:///{file}", KEY) as copy:
            votes = [vote.pair_id for _, vote in copy.votes.read("autumn")]
            assert len(votes) == held.votes
            assert {row.pair_id for row in copy.organiser.progress("autumn") if row.votes} == set(votes)
        number += 1
    others.join()
