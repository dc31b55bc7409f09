"""Votes and decisions of the desk in the store: once each, even after a crash or with another database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from storage_schemas.votes import Standing, VotesStore
from tasks.annotation import sync as module
from tasks.annotation.desk.desk import Desk
from tasks.annotation.sync import Collected, collect, erase_worker
from tests.tasks.annotation.example_desk import (
    HandClock,
    example_campaign,
    example_tasks,
    file_vote,
    open_desk,
)

TASKS = example_tasks(3)
CAMPAIGN = example_campaign(workers_per_pair=2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path, HandClock()) as desk:
        desk.organiser.publish(CAMPAIGN, TASKS)
        yield desk


def give(desk: Desk, worker: str, *pairs: int) -> None:
    desk.votes.add("autumn", [file_vote(TASKS[pair], worker, CAMPAIGN) for pair in pairs])


def test_only_what_is_new_is_read_and_kept(lite: Desk, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    give(lite, "a" * 32, 0, 1, 2)
    assert collect(store, lite, "autumn") == Collected("autumn", 3, 0, 3, 0)
    requests: list[int] = []
    votes = lite.votes.read

    def noted(campaign: str, after: int = 0) -> object:
        requests.append(after)
        return votes(campaign, after)

    monkeypatch.setattr(lite.votes, "read", noted)
    give(lite, "b" * 32, 0)
    lite.organiser.decide("autumn", "a" * 32, Standing.EXCLUDED, "too quick", "me")
    collected = collect(store, lite, "autumn")
    assert collected == Collected("autumn", 1, 1, 3, 1)
    assert not collected.complete
    # the last vote is read again, to check that the database is the same
    assert requests == [2]
    files = VotesStore(store)
    assert files.votes(["autumn"]) == sorted((vote for _, vote in votes("autumn")), key=lambda v: v.vote_id)
    assert files.decisions(["autumn"]) == lite.decisions.read("autumn")
    give(lite, "b" * 32, 1, 2)
    last = collect(store, lite, "autumn")
    assert last.complete
    assert (last.votes, last.decisions) == (2, 0)
    assert "2 votes and 0 decisions" in last.in_words()
    assert "3 of 3 pairs" in last.in_words()


def test_collect_adds_no_vote_twice_after_a_crash(
    lite: Desk, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(lite, "a" * 32, 0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_atomic", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            collect(store, lite, "autumn")
    assert collect(store, lite, "autumn").votes == 0
    assert len(VotesStore(store).votes(["autumn"])) == 2


def test_another_database_is_read_from_its_beginning(lite: Desk, store: Store, tmp_path: Path) -> None:
    give(lite, "a" * 32, 0, 1)
    collect(store, lite, "autumn")
    with open_desk(tmp_path, HandClock(), f"sqlite:///{tmp_path / 'other.sqlite'}") as other:
        other.organiser.publish(CAMPAIGN, TASKS)
        give(other, "c" * 32, 0)
        assert collect(store, other, "autumn").votes == 1
    assert len(VotesStore(store).votes(["autumn"])) == 3


def test_a_database_that_was_made_again_or_brought_back_loses_no_vote(store: Store, tmp_path: Path) -> None:
    with open_desk(tmp_path, HandClock()) as desk:
        desk.organiser.publish(CAMPAIGN, TASKS)
        give(desk, "a" * 32, 0)
        copy = tmp_path / "copy.sqlite"
        there, remaining = (sqlite3.connect(path) for path in (tmp_path / "desk.sqlite", copy))
        with closing(there), closing(remaining):
            there.backup(remaining)
        give(desk, "a" * 32, 1, 2)
        assert collect(store, desk, "autumn").votes == 3
    for name in ("desk.sqlite", "desk.sqlite-wal", "desk.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    copy.rename(tmp_path / "desk.sqlite")
    with open_desk(tmp_path, HandClock()) as desk:
        give(desk, "b" * 32, 0, 1)
        assert collect(store, desk, "autumn").votes == 2
    (tmp_path / "desk.sqlite").unlink()
    with open_desk(tmp_path, HandClock()) as desk:
        desk.organiser.publish(CAMPAIGN, TASKS)
        give(desk, "c" * 32, 0, 1)
        assert collect(store, desk, "autumn").votes == 2
    workers = [vote.worker[0] for vote in VotesStore(store).votes(["autumn"])]
    assert sorted(workers) == ["a", "a", "a", "b", "b", "c", "c"]


def test_a_damaged_mark_and_lost_files_cost_time_only(lite: Desk, store: Store) -> None:
    give(lite, "a" * 32, 0)
    collect(store, lite, "autumn")
    (store.root / "annotation" / "collected" / "autumn.json").write_text("{")
    assert collect(store, lite, "autumn").votes == 0
    for path in (store.root / "annotation" / "votes" / "autumn").glob("*.parquet"):
        path.unlink()
    assert collect(store, lite, "autumn").votes == 1


def test_erased_worker_does_not_come_back(lite: Desk, store: Store) -> None:
    give(lite, "a" * 32, 0, 1)
    give(lite, "b" * 32, 0)
    collect(store, lite, "autumn")
    erase_worker(lite, VotesStore(store), "autumn", "a" * 32, "me")
    assert collect(store, lite, "autumn").votes == 0
    assert {vote.worker for vote in VotesStore(store).votes(["autumn"])} == {"b" * 32}


def test_gold_pairs_are_waited_for_by_nobody(lite: Desk, store: Store) -> None:
    lite.organiser.publish(CAMPAIGN.model_copy(update={"gold_pairs": ("color-000",)}), TASKS)
    assert collect(store, lite, "autumn").tasks == 2
    assert VotesStore(store).gold("autumn") == {"color-000"}
    with pytest.raises(UserInputError, match="no campaign 'spring'"):
        collect(store, lite, "spring")
