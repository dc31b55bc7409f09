"""Scores are kept append-only: what a killed process left counts, the latest score of several does."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.json_checksum import with_checksum
from storage_schemas.store import Store
from storage_schemas.suite_score import SUITE_SCORES, SuiteScore
from tasks.scoring.suites.score_store import ScoresStore


@pytest.fixture
def scores(tmp_path: Path) -> ScoresStore:
    return ScoresStore(Store.create(tmp_path / "store"))


def row(key: str = "k", score: float | None = 1.0, at: str = "2026-01-01", **more: object) -> SuiteScore:
    failure = {} if score is not None else {"failure": "refused", "message": "=no"}
    given = {"suite": "x", "settings": "s", "dimension": "d", "model": "m", "prompt_id": "p", "video": "v"}
    return SuiteScore.model_validate({"key": key, "score": score, "at": at, **given, **failure, **more})


def test_a_score_counts_more_than_a_failure_and_a_later_row_more_than_an_earlier(scores: ScoresStore) -> None:
    scores.add([row(score=2.0, at="2026-01-02"), row(score=1.0), row(score=None, at="2026-01-03")])
    scores.add([row("other", None), row(model="n", score=5.0)])
    assert [(one.key, one.model, one.score) for one in scores.rows()] == [
        ("k", "m", 2.0),
        ("other", "m", None),
        ("k", "n", 5.0),
    ]
    assert scores.known() == {
        ("k", "m", "p", 0): "",
        ("other", "m", "p", 0): "refused",
        ("k", "n", "p", 0): "",
    }
    assert scores.rows("y") == []
    assert scores.suites() == ["x"]
    before = scores.rows()
    scores.pack()
    assert scores.rows() == before
    assert len(list(scores.parts.iterdir())) == 1


def test_what_a_killed_process_left_is_read_and_packed(scores: ScoresStore) -> None:
    scores.running.mkdir(parents=True)
    host = socket.gethostname().replace(".", "_")
    # no process has this number
    path = scores.running / f"{host}.4194305.task.1.jsonl"
    whole, begun = with_checksum(row().model_dump_json()), [f'{{"begun": "{key}"}}' for key in ("k", "k2")]
    path.write_bytes(b"\n".join([with_checksum(begun[0]), whole, with_checksum(begun[1]), whole[:40]]))
    assert [one.key for one in scores.rows()] == ["k"]
    assert scores.begun("task") == {"k2": 1}
    scores.pack()
    assert not path.exists()
    assert [one.key for one in scores.rows()] == ["k"]


def test_a_writer_packs_its_rows_also_where_it_fails(scores: ScoresStore) -> None:
    with pytest.raises(ZeroDivisionError), scores.writer("t") as lines:
        lines.add(row())
        raise ZeroDivisionError
    assert not list(scores.running.iterdir())
    assert [one.key for one in scores.rows()] == ["k"]


def test_scores_go_out_in_three_forms(scores: ScoresStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no scores"):
        scores.export(tmp_path / "x.csv")
    scores.add([row(), row("k2", None)])
    assert scores.export(tmp_path / "x.parquet") == 2
    assert pq.read_table(tmp_path / "x.parquet").schema.equals(SUITE_SCORES)
    scores.export(tmp_path / "x.csv")
    # no spreadsheet takes a server's words for a formula
    assert ",'=no," in (tmp_path / "x.csv").read_text()
    scores.export(tmp_path / "x.jsonl")
    assert json.loads((tmp_path / "x.jsonl").read_text().splitlines()[1])["failure"] == "refused"
    with pytest.raises(UserInputError, match="ends in"):
        scores.export(tmp_path / "x.txt")


def test_a_damaged_part_is_said(scores: ScoresStore) -> None:
    scores.add([row()])
    next(scores.parts.iterdir()).write_bytes(b"damaged")
    with pytest.raises(IntegrityError, match="is damaged"):
        scores.rows()
