"""Votes and decisions: nothing counts twice, nothing is lost, and a worker can be taken out."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow.parquet as pq
import pytest

from storage_schemas.errors import IntegrityError, UserInputError
from storage_schemas.store import Store
from storage_schemas.votes import Added, Decision, Standing, Vote, VotesStore
from tests.storage_schemas.together import together


def vote(number: int, worker: str = "ann", campaign: str = "one", **more: Any) -> Vote:
    values = {"vote_id": f"{worker}-{number}", "campaign": campaign, "release": "main", "version": 1}
    values |= {"pair_id": f"pair-{number}", "source_id": "film", "aspect": "color", "worker": worker}
    values |= {"first": "low", "preferred": "high", "rating": "A", "total_s": 12.5, "pair_duration_s": 100.0}
    return Vote.model_validate({**values, "at": "2026-03-01T10:00:00+00:00", **more})


@pytest.fixture
def votes(store: Store) -> VotesStore:
    return VotesStore(store)


def parts(votes: VotesStore, kind: str = "votes") -> list[Path]:
    return list((votes.path / kind / "one").glob("*.parquet"))


def workers_on_disk(votes: VotesStore) -> list[str]:
    return [worker for part in parts(votes) for worker in pq.read_table(part)["worker"].to_pylist()]


def on_disk(votes: VotesStore) -> bytes:
    files = (
        path for path in sorted(votes.path.parent.rglob("*")) if path.is_file() and "two" not in path.parts
    )
    return b"".join(path.read_bytes() for path in files)


def test_a_new_store_has_none_and_what_is_added_twice_is_there_once(votes: VotesStore) -> None:
    assert (votes.votes(), votes.decisions(), votes.campaigns(), votes.erased("one")) == ([], [], [], [])
    assert not votes.path.exists()
    some = [vote(2), vote(1, comment="日本語", watched_s=None), vote(1, "bob")]
    assert votes.add(some) == Added(3, 0)
    assert votes.add([*some, vote(3), vote(3)]) == Added(1, 4)
    assert votes.votes() == [vote(1, comment="日本語"), vote(2), vote(3), vote(1, "bob")]


@pytest.mark.parametrize(
    ("store_mode", "folder_mode", "file_mode"), [(0o755, 0o700, 0o600), (0o2775, 0o2770, 0o640)]
)
def test_answers_are_read_by_this_user_or_the_stores_group(
    votes: VotesStore, store_mode: int, folder_mode: int, file_mode: int
) -> None:
    votes.path.parent.chmod(store_mode)
    votes.add([vote(1), vote(1, "bob")])
    votes.erase("one", "bob")
    votes.decide("one", "ann", Standing.CLEARED, "ok", "me")
    for kind in ("votes", "decisions"):
        folder = votes.path / kind / "one"
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *folder.iterdir())]
        assert modes == [folder_mode, folder_mode, file_mode]


def test_campaigns_are_kept_apart(votes: VotesStore) -> None:
    votes.add([vote(1), vote(1, campaign="two")])
    assert votes.campaigns() == ["one", "two"]
    assert [row.campaign for row in votes.votes(["two"])] == ["two"]
    assert [row.campaign for row in votes.votes(["two", "one", "two"])] == ["two", "one"]
    assert votes.votes(["three"]) == []


def test_an_answer_is_never_changed(votes: VotesStore) -> None:
    votes.add([vote(1)])
    before = on_disk(votes)
    with pytest.raises(IntegrityError, match="ann-1 is stored with other values"):
        votes.add([vote(2), vote(1, rating="C")])
    with pytest.raises(IntegrityError, match="ann-3"):
        votes.add([vote(3), vote(3, preferred="low")])
    assert on_disk(votes) == before


def test_a_campaign_cannot_leave_its_folder(votes: VotesStore) -> None:
    for name in ("../../evil", "", "a/b", ".hidden", "a" * 65, "a b"):
        with pytest.raises(UserInputError, match="not a valid campaign name"):
            votes.add([vote(1, campaign=name)])
        with pytest.raises(UserInputError, match="not a valid campaign name"):
            votes.votes([name])
    assert not votes.path.exists()


def test_decisions_come_back_in_their_order(votes: VotesStore) -> None:
    first = votes.decide("one", "ann", Standing.EXCLUDED, "always C", "Dr. Kim")
    second = votes.decide("one", "ann", Standing.CLEARED, "a bad morning", "Dr. Kim")
    assert votes.decisions() == [first, second]
    assert votes.add_decisions([second]) == Added(0, 1)
    changes = {"decision_id": "z", "worker": "bob", "at": "2020-01-01T00:00:00"}
    older = Decision.model_validate({**first.model_dump(), **changes})
    votes.add_decisions([older])
    assert votes.decisions() == [older, first, second]


def test_a_worker_is_taken_out_whole(votes: VotesStore) -> None:
    ahead = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    dated_ahead = vote(3, "worker-to-forget", at=ahead)
    votes.add([vote(1), vote(1, "worker-to-forget", comment="my name is Sue"), dated_ahead])
    votes.add([vote(2, "worker-to-forget"), vote(2, at=ahead)])
    votes.decide("one", "worker-to-forget", Standing.EXCLUDED, "too fast", "me")
    votes.add([vote(9, "worker-to-forget", campaign="two")])
    erased = votes.erase("one", "worker-to-forget")
    assert (erased.votes, erased.decisions) == (3, 1)
    assert votes.votes(["one"]) == [vote(1), vote(2, at=ahead)]
    assert votes.decisions(["one"]) == []
    assert len(votes.votes(["two"])) == 1, "another campaign is another consent"
    assert workers_on_disk(votes) == ["ann", "ann"]
    assert parts(votes, "decisions") == []
    assert b"worker-to-forget" not in on_disk(votes)
    assert votes.erased("one") == [erased]
    assert votes.add([dated_ahead]) == Added(0, 1)


def test_copies_do_not_bring_a_worker_back(votes: VotesStore) -> None:
    votes.add([vote(1), vote(2, at="")])
    votes.erase("one", "ann")
    assert votes.add([vote(1), vote(2, at="")]) == Added(0, 2)
    assert votes.votes() == []
    later = vote(3, at=(datetime.now(UTC) + timedelta(seconds=1)).isoformat())
    assert votes.add([later]) == Added(1, 0), "a worker who comes back and consents again votes again"
    assert votes.votes() == [later]
    (note,) = (votes.path / "erased" / "one").iterdir()
    note.write_bytes(note.read_bytes()[:-5])
    with pytest.raises(IntegrityError, match=note.name):
        votes.add([vote(1)])


def test_erase_sweeps_what_a_crash_left(votes: VotesStore, monkeypatch: pytest.MonkeyPatch) -> None:
    votes.add([vote(1), vote(1, "bob")])

    def killed(self: VotesStore, kind: str, campaign: str) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(VotesStore, "_sweep", killed)
        votes.erase("one", "ann")
    assert [row.worker for row in votes.votes()] == ["bob"]
    votes.erase("one", "ann")
    assert workers_on_disk(votes) == ["bob"]
    assert len(votes.erased("one")) == 2
    (part,) = parts(votes)
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(IntegrityError, match=part.name):
        votes.votes()


def _add_all(barrier: Barrier, root: str) -> None:
    barrier.wait()
    VotesStore(Store.open(Path(root))).add([vote(number) for number in range(50)])


def _erase(barrier: Barrier, given: tuple[str, str]) -> None:
    barrier.wait()
    VotesStore(Store.open(Path(given[0]))).erase("one", given[1])


def test_two_that_add_and_two_that_erase_at_once(votes: VotesStore) -> None:
    root = str(votes.path.parent)
    votes.add([vote(1, "bob"), vote(1, "cyd"), vote(1, "dan")])
    together((_add_all, root), (_add_all, root), (_erase, (root, "bob")), (_erase, (root, "cyd")))
    assert len(votes.votes()) == 51
    assert set(workers_on_disk(votes)) == {row.worker for row in votes.votes()} == {"ann", "dan"}


def test_a_collected_campaign_without_votes_is_known_by_its_rules(votes: VotesStore) -> None:
    votes.keep_rules("controls", None, "strict", ["pair-1"])
    assert (votes.campaigns(), votes.with_rules()) == ([], ["controls"])
    assert votes.unanswered("controls") == {"pair-1"}
