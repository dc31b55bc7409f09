"""Judgements outlive whatever ends the process that asks; identical requests are found again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from storage_schemas import row_store
from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.judgements import Failure, Judgement, JudgementsStore, is_settled
from storage_schemas.store import Store
from tests.storage_schemas.together import kill_this_process, killed_in


def row(
    key: str, pair: str = "p", failure: Failure | None = None, at: str = "1", **more: object
) -> Judgement:
    answer = {} if failure else {"choice": "first", "preferred": "high"}
    base = {"evaluator": "coin", "settings": "s", "source_id": "v", "aspect": "a", "order": "high_first"}
    fields = {**base, "key": key, "pair_id": pair, "failure": failure, "at": at, **answer, **more}
    return Judgement.model_validate(fields)


@pytest.fixture
def kept(store: Store) -> JudgementsStore:
    return JudgementsStore(store)


@pytest.fixture
def theirs(tmp_path: Path) -> JudgementsStore:
    return JudgementsStore(Store.create(tmp_path / "theirs"))


def reopened(kept: JudgementsStore) -> JudgementsStore:
    return JudgementsStore(Store.open(kept.path.parent))


def keys(kept: JudgementsStore) -> list[str]:
    return [judged.key for judged in kept.rows()]


def test_what_was_added_is_read_while_it_runs_and_afterwards(kept: JudgementsStore) -> None:
    assert kept.rows() == []
    answered = row("k1", raw="ü \n {", tokens_in=3, cost_usd=0.25)
    refused = row("k2", failure=Failure.REFUSED, message="no")
    with kept.writer("t") as writer:
        writer.begin("k1")
        writer.add(answered)
        writer.add(refused)
        assert keys(reopened(kept)) == ["k1", "k2"]
    rows = reopened(kept).rows()
    assert rows == [answered, refused]
    assert [judged.answered for judged in rows] == [True, False]
    assert not list(kept.running.iterdir())


def test_transient_failures_are_asked_again_and_an_answer_counts_more(kept: JudgementsStore) -> None:
    kept.add([row("k", failure=Failure.SERVER_DOWN, at="9"), row("cut", failure=Failure.CUT_OFF)])
    assert kept.failures() == {("k", "p"): "server_down", ("cut", "p"): "cut_off"}
    assert [is_settled(found) for found in ("server_down", None, "", "cut_off")] == [False, False, True, True]
    assert not is_settled("cut_off", retry={"cut_off"})
    assert is_settled("cut_off", retry={"refused"})
    kept.add([row("k", at="2")])
    assert kept.failures()[("k", "p")] == ""
    cut, answered = sorted(kept.rows(), key=lambda judged: judged.key)
    assert (answered.answered, answered.at, cut.failure) == (True, "2", Failure.CUT_OFF)


def test_one_request_may_stand_for_several_pairs(kept: JudgementsStore) -> None:
    kept.add([row("k", "p1"), row("k", "p2"), row("k", "p2", at="2")])
    assert [(judged.pair_id, judged.at) for judged in kept.rows()] == [("p1", "1"), ("p2", "2")]
    assert [judged.pair_id for judged in kept.rows(pair_ids=["p2"], evaluators=["coin"])] == ["p2"]
    assert kept.rows(evaluators=["other"]) == []


def _die_in_a_line(root: Path) -> None:
    with JudgementsStore(Store.open(root)).writer("task") as writer:
        for n in range(5):
            writer.begin(f"k{n}")
            writer.add(row(f"k{n}"))
        writer.begin("k5")
        os.write(writer._handle, b'{"key": "k5", "torn')
        kill_this_process()


def test_a_kill_loses_nothing_and_its_torn_line_is_not_an_answer(kept: JudgementsStore) -> None:
    killed_in(_die_in_a_line, kept.path.parent)
    assert keys(kept) == [f"k{n}" for n in range(5)]
    assert kept.begun("task") == {"k5": 1}
    assert not kept.begun("other")
    kept.pack()
    assert not list(kept.running.iterdir())
    assert len(kept.rows()) == 5
    assert len(list(kept.parts.iterdir())) == 1


def test_lines_of_a_living_process_are_left_alone(kept: JudgementsStore) -> None:
    with kept.writer("mine") as writer:
        writer.add(row("k"))
        kept.pack()
        assert writer.path.exists()
        # another machine's process: of the task it is known that it is over
        other = writer.path.with_name("elsewhere.1.over.abc.jsonl")
        other.write_bytes(writer.path.read_bytes())
        kept.pack()
        assert other.exists()
        kept.pack(lambda task: task == "over")
        assert not other.exists()
    assert len(kept.rows()) == 1


def test_small_parts_are_joined(kept: JudgementsStore) -> None:
    for n in range(4):
        kept.add([row(f"k{n}"), row("same", at=str(n))])
    reader = reopened(kept)
    assert len(reader.failures()) == 5
    kept.pack()
    assert len(list(kept.parts.iterdir())) == 1
    assert len(reader.failures()) == len(reader.rows()) == 5


def test_pack_at_the_same_moment(kept: JudgementsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept.writer("left") as writer:
        writer.add(row("k"))
        left = writer.path.read_bytes()
    for n in range(3):
        kept.add([row(f"k{n}")])
    writer.path.write_bytes(left)
    other, done = reopened(kept), []

    def first(step: str) -> None:
        if step not in done:
            done.append(step)
            other.pack(lambda task: task == "left")

    alive, metadata = row_store.owner_alive, row_store.pq.read_metadata

    def gone(path: Path) -> bool:
        first("lines")
        return alive(path) and False

    def read(path: Path) -> object:
        first("parts")
        return metadata(path)

    monkeypatch.setattr(row_store, "owner_alive", gone)
    monkeypatch.setattr(row_store.pq, "read_metadata", read)
    kept.pack()
    assert done == ["lines", "parts"]
    assert keys(reopened(kept)) == ["k", "k0", "k1", "k2"]


def test_threads_write_whole_lines(kept: JudgementsStore) -> None:
    with kept.writer("t") as writer:

        def work(name: str) -> None:
            for n in range(25):
                writer.begin(f"{name}{n}")
                writer.add(row(f"{name}{n}", raw="x" * 5000))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcdefgh"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(kept.rows()) == 200


def test_export_is_taken_elsewhere(kept: JudgementsStore, theirs: JudgementsStore, tmp_path: Path) -> None:
    file = tmp_path / "out" / "mine.parquet"
    with pytest.raises(StoreError, match="no judgements"):
        kept.export(file)
    kept.add([row("k1"), row("k2", failure=Failure.SERVER_DOWN)])
    assert kept.export(file) == 2
    theirs.add([row("k2")])
    assert theirs.take(file) == 1, "what is answered there stays"
    assert theirs.take(file) == 0
    assert all(judged.answered for judged in theirs.rows())


def test_damaged_files_are_named(kept: JudgementsStore, tmp_path: Path) -> None:
    kept.add([row("k")])
    (part,) = kept.parts.iterdir()
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(IntegrityError, match=part.name):
        kept.rows()
    with pytest.raises(UserInputError, match="not a file of judgements"):
        kept.take(part)
    with pytest.raises(UserInputError, match="does not exist"):
        kept.take(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("k").model_copy(update={"failure": Failure.REFUSED})], "either an answer or a failure"),
        (
            [row("good", order="low_first", preferred="low"), row("turned", order="low_first")],
            "turned says first in the order low_first, which is not high",
        ),
    ],
)
def test_imported_rows_that_contradict_themselves_are_refused(
    rows: list[Judgement], said: str, kept: JudgementsStore, theirs: JudgementsStore, tmp_path: Path
) -> None:
    theirs.add(rows)
    theirs.export(tmp_path / "theirs.parquet")
    with pytest.raises(UserInputError, match=said):
        kept.take(tmp_path / "theirs.parquet")
    assert kept.rows() == []
