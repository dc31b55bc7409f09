"""Videos of a folder or a list, and settings: names, themes, and what cannot be used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from tasks.extras.locot2v.settings import READY
from tasks.extras.prompt_suite.settings import prompt_suite_settings
from tasks.extras.prompt_suite.videos import load_videos
from tests.tasks.scoring.judges.short_films import write_lines


def test_an_unreadable_video_stops_no_other(tmp_path: Path, film_folder: Path) -> None:
    shutil.copy(film_folder / "sea.mp4", tmp_path / "a.mp4")
    (tmp_path / "b.mp4").write_bytes(b"no video")
    (tmp_path / "c.mp4").symlink_to(tmp_path / "gone.mp4")
    result = load_videos(tmp_path)
    assert [one.prompt_id for one in result.videos] == ["a"]
    assert [(one.where, one.reason) for one in result.left_out] == [
        ("b.mp4", "not_a_video"), ("c.mp4", "video_missing")
    ]  # fmt: skip


def test_a_list_names_prompts_and_themes(tmp_path: Path, film_folder: Path) -> None:
    shutil.copy(film_folder / "sea.mp4", tmp_path / "a.mp4")
    rows = [
        {"file": "a.mp4", "prompt_id": "cake_1", "theme": "food"},
        {"file": "a.mp4", "prompt_id": "cake_1"},
        {"file": "../a.mp4", "prompt_id": "out"},
        {"file": "a.mp4", "prompt_id": "../up"},
        {"file": "gone.mp4"},
        {"theme": "food"},
    ]
    result = load_videos(write_lines(tmp_path / "list.jsonl", rows))
    assert [(one.prompt_id, one.theme) for one in result.videos] == [("cake_1", "food")]
    reasons = [one.reason for one in result.left_out]
    assert reasons == ["duplicate_id", "unsafe_path", "malformed_row", "video_missing", "malformed_row"]
    with pytest.raises(UserInputError, match="no usable video"):
        load_videos(write_lines(tmp_path / "empty.jsonl", []))


def test_the_papers_models_are_the_defaults() -> None:
    settings = prompt_suite_settings({})
    names = {name: READY[getattr(settings, name)].model for name in ("multimodal", "language")}
    assert names == {"multimodal": "Qwen/Qwen2.5-VL-72B-Instruct", "language": "deepseek-ai/DeepSeek-V3.1"}


def test_settings_that_do_not_fit_are_reported() -> None:
    with pytest.raises(UserInputError, match="did you mean rounds"):
        prompt_suite_settings({"round": 2})
    with pytest.raises(UserInputError, match="least_words 9 is above most_words 8"):
        prompt_suite_settings({"least_words": 9, "most_words": 8})
    with pytest.raises(UserInputError, match=r"^tries"):
        prompt_suite_settings({"tries": 0})
