"""One unit and what its rows say where files cannot be used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import IntegrityError, Reason, SetAside
from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from tasks.llm.prompt_files import prompts_digest
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import ScoredVideo, Scorer, SuitePrompt, SuiteVideo
from tasks.scoring.suites.file_video import FrameRate
from tasks.scoring.suites.locot2v.dimensions import BY_NAME
from tasks.scoring.suites.manifest import VideoEntry
from tasks.scoring.suites.plan import ScoringUnit
from tasks.scoring.suites.scoring import SuiteChoice, SuiteWork, VideoScoring


class Failing(Scorer):
    """Raises what it is told to."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(BY_NAME["dynamic_degree"])
        self._problem = problem

    def settings(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        """Nothing is needed."""

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[ScoredVideo | NotJudged]:
        raise self._problem


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
def test_a_full_store_is_no_fault_of_the_video(tmp_path: Path, problem: Exception, failure: Failure) -> None:
    entry = VideoEntry(model="m", prompt_id="p", sample=0, path="m.mp4", digest="d")
    prompt = SuitePrompt(prompt_id="p", text="-")
    unit = ScoringUnit(
        dimension="dynamic_degree", settings="s", prompt=prompt, videos=(entry,), keys=("key",)
    )
    choice = SuiteChoice(store_path=str(tmp_path), suite="locot2v-bench")
    work = SuiteWork("run", str(tmp_path), choice=choice, sampling=FrameRate())
    (row,) = VideoScoring(Failing(problem), work).answer(unit)
    assert row.failure is failure
    assert str(problem) in row.message
    assert row.score is None
    # the next run scores it, while a damaged video stays damaged
    assert (row.failure in TRANSIENT_FAILURES) is (failure is Failure.INTERNAL_ERROR)


class Telling(Failing):
    """Sends prompts of one area, and has a score."""

    prompt_areas = ("video-bench",)

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[ScoredVideo | NotJudged]:
        return [ScoredVideo(1.0)]


def test_a_row_says_whose_prompts_were_sent(tmp_path: Path) -> None:
    own = tmp_path / "mine" / "video-bench"
    own.mkdir(parents=True)
    (own / "describe.txt").write_text("Say what you see.")
    other = tmp_path / "mine" / "locot2v-bench"
    other.mkdir()
    (other / "describe.txt").write_text("Say it.")
    entry = VideoEntry(model="m", prompt_id="p", sample=0, path="m.mp4", digest="d")
    prompt = SuitePrompt(prompt_id="p", text="-")
    unit = ScoringUnit(
        dimension="dynamic_degree", settings="s", prompt=prompt, videos=(entry,), keys=("key",)
    )

    def told(scorer: Scorer, **choice: Any) -> str:
        made = SuiteChoice(store_path=str(tmp_path), suite="video-bench", **choice)
        work = SuiteWork("run", str(tmp_path), choice=made, sampling=FrameRate())
        (row,) = VideoScoring(scorer, work).answer(unit)
        return row.prompts

    telling = Telling(ValueError())
    assert told(telling) == "built-in"
    label = told(telling, prompts=str(tmp_path / "mine"))
    assert label == f"mine, {prompts_digest(tmp_path / 'mine', ['video-bench'])}"
    # a folder in the suite's own settings counts more
    assert told(telling, settings_json=json.dumps({"prompts": str(tmp_path / "mine")})) == label
    telling.prompt_areas = ()  # type: ignore[misc]
    assert told(telling) == ""
