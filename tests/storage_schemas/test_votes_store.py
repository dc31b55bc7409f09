"""Votes and decisions: nothing counts twice, nothing is lost, and a worker can be taken out."""

from __future__ import annotations

import multiprocessing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from storage_schemas.errors import IntegrityError, UserInputError
from storage_schemas.store import Store
from storage_schemas.votes import Added, Decision, Standing, Vote, VotesStore


def vote(number: int, worker: str = "ann", campaign: str = "one", **more: Any) -> Vote:
    values: dict[str, Any] = {
        "vote_id": f"{worker}-{number}",
        "campaign": campaign,
        "release": "main",
        "version": 1,
        "pair_id": f"pair-{number}",
        "source_id": "film",
        "aspect": "color",
        "worker": worker,
        "first": "low",
        "preferred": "high",
        "rating": "A",
        "total_s": 12.5,
        "pair_duration_s": 100.0,
        "at": "2026-03-01T10:00:00+00:00",
        **more,
    }
    return Vote(**values)


def on_disk(store: Store) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(store.root.rglob("*")) if path.is_file())


def test_what_is_added_twice_is_there_once(store: Store) -> None:
    votes = VotesStore(store)
    some = [vote(2), vote(1, comment="日本語", watched_s=None), vote(1, "bob")]
    assert votes.add(some) == Added(3, 0)
    assert votes.add([*some, vote(3), vote(3)]) == Added(1, 4)
    assert votes.votes() == [vote(1, comment="日本語"), vote(2), vote(3), vote(1, "bob")]


def test_a_new_store_has_none_and_reading_writes_nothing(store: Store) -> None:
    votes = VotesStore(store)
    assert (votes.votes(), votes.decisions(), votes.campaigns(), votes.erased("one")) == ([], [], [], [])
    assert not votes.path.exists()


def test_campaigns_are_kept_apart(store: Store) -> None:
    votes = VotesStore(store)
    votes.add([vote(1), vote(1, campaign="two")])
    assert votes.campaigns() == ["one", "two"]
    assert [row.campaign for row in votes.votes(["two"])] == ["two"]
    assert [row.campaign for row in votes.votes(["two", "one", "two"])] == ["two", "one"]
    assert votes.votes(["three"]) == []


def test_an_answer_is_never_changed(store: Store) -> None:
    votes = VotesStore(store)
    votes.add([vote(1)])
    before = on_disk(store)
    with pytest.raises(IntegrityError, match="ann-1 is stored with other values"):
        votes.add([vote(2), vote(1, rating="C")])
    with pytest.raises(IntegrityError, match="ann-3"):
        votes.add([vote(3), vote(3, preferred="low")])
    assert on_disk(store) == before


@pytest.mark.parametrize("name", ["../../evil", "", "a/b", ".hidden", "a" * 65, "a b"])
def test_a_campaign_cannot_leave_its_folder(store: Store, name: str) -> None:
    with pytest.raises(UserInputError, match="not a valid campaign name"):
        VotesStore(store).add([vote(1, campaign=name)])
    with pytest.raises(UserInputError, match="not a valid campaign name"):
        VotesStore(store).votes([name])
    assert not VotesStore(store).path.exists()


def test_decisions_come_back_in_their_order(store: Store) -> None:
    votes = VotesStore(store)
    first = votes.decide("one", "ann", Standing.EXCLUDED, "always C", "Dr. Kim")
    second = votes.decide("one", "ann", Standing.CLEARED, "a bad morning", "Dr. Kim")
    assert votes.decisions() == [first, second]
    assert votes.add_decisions([second]) == Added(0, 1)
    older = Decision(
        decision_id="z",
        campaign="one",
        worker="bob",
        decision=Standing.EXCLUDED,
        note="",
        by="x",
        at="2020-01-01T00:00:00",
    )
    votes.add_decisions([older])
    assert votes.decisions() == [older, first, second]


def test_a_worker_is_taken_out_whole(store: Store) -> None:
    votes = VotesStore(store)
    votes.add([vote(1), vote(1, "worker-to-forget", comment="my name is Sue")])
    votes.add([vote(2, "worker-to-forget")])
    votes.decide("one", "worker-to-forget", Standing.EXCLUDED, "too fast", "me")
    votes.add([vote(9, "worker-to-forget", campaign="two")])
    erased = votes.erase("one", "worker-to-forget")
    assert (erased.votes, erased.decisions) == (2, 1)
    assert votes.votes(["one"]) == [vote(1)]
    assert votes.decisions(["one"]) == []
    assert len(votes.votes(["two"])) == 1, "another campaign is another consent"
    kept = [pq.read_table(path) for path in (votes.path / "votes" / "one").glob("*.parquet")]
    assert sum(table.num_rows for table in kept) == 1
    assert not list((votes.path / "decisions" / "one").glob("*.parquet"))
    assert b"worker-to-forget" not in b"".join(
        path.read_bytes() for path in votes.path.rglob("*") if path.is_file() and "two" not in path.parts
    )
    assert votes.erased("one") == [erased]


def test_rows_that_are_dated_ahead_of_the_clock_are_taken_out_too(store: Store) -> None:
    ahead = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    votes = VotesStore(store)
    votes.add([vote(1, at=ahead), vote(2), vote(1, "bob", at=ahead)])
    assert votes.erase("one", "ann").votes == 2
    assert votes.votes() == [vote(1, "bob", at=ahead)]
    assert b"ann" not in on_disk(store)
    assert votes.add([vote(1, at=ahead)]) == Added(0, 1)


def test_copies_do_not_bring_a_worker_back(store: Store) -> None:
    votes = VotesStore(store)
    votes.add([vote(1), vote(2, at="")])
    votes.erase("one", "ann")
    assert votes.add([vote(1), vote(2, at="")]) == Added(0, 2)
    assert votes.votes() == []
    later = vote(3, at=(datetime.now(UTC) + timedelta(seconds=1)).isoformat())
    assert votes.add([later]) == Added(1, 0), "whoever comes back and consents anew votes again"
    assert votes.votes() == [later]


def test_what_a_crash_left_is_unread_and_goes_next_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = VotesStore(store)
    votes.add([vote(1), vote(1, "bob")])

    def killed(self: VotesStore, kind: str, campaign: str) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(VotesStore, "_sweep", killed)
        votes.erase("one", "ann")
    assert [row.worker for row in votes.votes()] == ["bob"]
    votes.erase("one", "ann")
    (part,) = (votes.path / "votes" / "one").glob("*.parquet")
    assert pq.read_table(part)["worker"].to_pylist() == ["bob"]
    assert len(votes.erased("one")) == 2


def test_a_damaged_file_is_named(store: Store) -> None:
    votes = VotesStore(store)
    votes.add([vote(1)])
    (part,) = (votes.path / "votes" / "one").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(IntegrityError, match=part.name):
        votes.votes()


def test_a_damaged_note_of_an_erasure_does_not_bring_the_worker_back(store: Store) -> None:
    votes = VotesStore(store)
    votes.add([vote(1)])
    votes.erase("one", "ann")
    (note,) = (votes.path / "erased" / "one").iterdir()
    note.write_bytes(note.read_bytes()[:-5])
    with pytest.raises(IntegrityError, match=note.name):
        votes.add([vote(1)])


def _add_all(root: str) -> None:
    VotesStore(Store.open(Path(root))).add([vote(number) for number in range(50)])


def _erase(root: str, worker: str) -> None:
    VotesStore(Store.open(Path(root))).erase("one", worker)


def _together(*work: tuple[Any, ...]) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=target, args=args) for target, *args in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def test_two_that_add_and_two_that_erase_at_once(store: Store) -> None:
    root = str(store.root)
    _together((_add_all, root), (_add_all, root))
    votes = VotesStore(store)
    assert len(votes.votes()) == 50
    votes.add([vote(1, "bob"), vote(1, "cyd"), vote(1, "dan")])
    _together((_erase, root, "bob"), (_erase, root, "cyd"), (_add_all, root))
    assert {row.worker for row in votes.votes()} == {"ann", "dan"}
    assert len(votes.votes()) == 51
    parts = [pq.read_table(path) for path in (votes.path / "votes" / "one").glob("*.parquet")]
    assert {worker for part in parts for worker in part["worker"].to_pylist()} == {"ann", "dan"}
