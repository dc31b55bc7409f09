"""Videos of a folder or a list: names, themes, and what cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from tasks.prompt_suite.videos import load_videos
from tests.tasks.scoring.judges.short_films import short_film, write_lines


def test_an_unreadable_video_stops_no_other(tmp_path: Path, ffmpeg: str) -> None:
    broken = tmp_path / "videos" / "b.mp4"
    short_film(ffmpeg, tmp_path / "videos" / "a.mp4", 1.0)
    broken.write_bytes(b"no video")
    (tmp_path / "videos" / "c.mp4").symlink_to(tmp_path / "gone.mp4")
    result = load_videos(tmp_path / "videos")
    assert [one.prompt_id for one in result.videos] == ["a"]
    assert [(one.where, one.reason) for one in result.left_out] == [
        ("b.mp4", "not_a_video"),
        ("c.mp4", "video_missing"),
    ]


def test_a_list_names_prompts_and_themes(tmp_path: Path, ffmpeg: str) -> None:
    short_film(ffmpeg, tmp_path / "a.mp4", 1.0)
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
