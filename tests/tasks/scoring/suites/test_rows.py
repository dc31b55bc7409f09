"""Rows of scores: what a unit's say where files cannot be used, and that the store keeps them."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from storage_schemas.errors import IntegrityError, Reason, SetAside, StoreError, UserInputError
from storage_schemas.json_checksum import with_checksum
from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from storage_schemas.store import Store
from storage_schemas.suite_score import SUITE_SCORES, SuiteScore
from tasks.extras.locot2v.dimensions import BY_NAME
from tasks.llm.prompt_files import prompts_digest
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import ScoredVideo, Scorer, SuitePrompt, SuiteVideo
from tasks.scoring.suites.file_video import FrameRate
from tasks.scoring.suites.manifest import VideoEntry
from tasks.scoring.suites.plan import ScoringUnit
from tasks.scoring.suites.score_store import ScoresStore
from tasks.scoring.suites.scoring import SuiteChoice, SuiteWork, VideoScoring
from tests.tasks.scoring.kinds import Scripted

Scored = Sequence[ScoredVideo | NotJudged]


class Failing(Scripted, Scorer):
    """Raises what it is told to."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(BY_NAME["dynamic_degree"])
        self._problem = problem

    def score(self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0) -> Scored:
        raise self._problem


def answered(scorer: Scorer, folder: Path, suite: str, **choice: Any) -> SuiteScore:
    entry = VideoEntry(model="m", prompt_id="p", sample=0, path="m.mp4", digest="d")
    prompt = SuitePrompt(prompt_id="p", text="-")
    unit = ScoringUnit(
        dimension="dynamic_degree", settings="s", prompt=prompt, videos=(entry,), keys=("key",)
    )
    made = SuiteChoice(store_path=str(folder), suite=suite, **choice)
    work = SuiteWork("run", str(folder), choice=made, sampling=FrameRate())
    (row,) = VideoScoring(scorer, work).answer(unit)
    return row


@pytest.mark.parametrize(
    ("problem", "failure"),
    [
        (SetAside(Reason.UNDECODABLE_VIDEO, "ends early"), Failure.VIDEO_UNREADABLE),
        (IntegrityError("a frame is damaged"), Failure.VIDEO_UNREADABLE),
        (FileNotFoundError("gone"), Failure.VIDEO_UNREADABLE),
        (SetAside(Reason.OUT_OF_SPACE, "no space left"), Failure.INTERNAL_ERROR),
        (SetAside(Reason.READ_ONLY_STORE, "cannot be written"), Failure.INTERNAL_ERROR),
    ],
)
def test_full_store_is_not_the_videos_fault(tmp_path: Path, problem: Exception, failure: Failure) -> None:
    row = answered(Failing(problem), tmp_path, "locot2v-bench")
    assert row.failure is failure
    assert str(problem) in row.message
    assert row.score is None
    # the next run scores it, while a damaged video stays damaged
    assert (row.failure in TRANSIENT_FAILURES) is (failure is Failure.INTERNAL_ERROR)


class Telling(Failing):
    """Sends prompts of one area, and has a score."""

    prompt_areas = ("video-bench",)

    def score(self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0) -> Scored:
        return [ScoredVideo(1.0)]


def test_a_row_says_whose_prompts_were_sent(tmp_path: Path) -> None:
    own = tmp_path / "mine"
    for area in ("video-bench", "locot2v-bench"):
        (own / area).mkdir(parents=True)
        (own / area / "describe.txt").write_text(f"Say what you see of {area}.")
    telling = Telling(ValueError())

    def told(**choice: Any) -> str:
        return answered(telling, tmp_path, "video-bench", **choice).prompts

    assert told() == "built-in"
    label = f"mine, {prompts_digest(own, ['video-bench'])}"
    assert told(prompts=str(own)) == label
    # a folder in the suite's own settings counts more
    assert told(settings_json=json.dumps({"prompts": str(own)})) == label
    telling.prompt_areas = ()  # type: ignore[misc]
    assert told() == ""


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
    assert scores.failures() == {
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


def test_rows_of_a_killed_process_are_read_and_packed(scores: ScoresStore) -> None:
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


def test_scores_go_out_in_three_forms(scores: ScoresStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no scores"):
        scores.export(tmp_path / "x.csv", "x")
    # a variant belongs to its suite
    scores.add([row(), row("k2", None, suite="x+blur1"), row("k3", suite="xy")])
    assert scores.export(tmp_path / "x.parquet", "x") == 2
    assert pq.read_table(tmp_path / "x.parquet").schema.equals(SUITE_SCORES)
    scores.export(tmp_path / "x.csv", "x")
    # no spreadsheet takes a server's words for a formula
    assert ",'=no," in (tmp_path / "x.csv").read_text()
    scores.export(tmp_path / "x.jsonl", "x")
    assert json.loads((tmp_path / "x.jsonl").read_text().splitlines()[1])["failure"] == "refused"
    with pytest.raises(UserInputError, match="ends in"):
        scores.export(tmp_path / "x.txt", "x")


def test_a_damaged_part_is_reported(scores: ScoresStore) -> None:
    # a writer packs its rows also where it fails
    with pytest.raises(ZeroDivisionError), scores.writer("t") as lines:
        lines.add(row())
        raise ZeroDivisionError
    assert not list(scores.running.iterdir())
    assert [one.key for one in scores.rows()] == ["k"]
    next(scores.parts.iterdir()).write_bytes(b"damaged")
    with pytest.raises(IntegrityError, match="is damaged"):
        scores.rows()
