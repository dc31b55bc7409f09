"""The layout of Vript, made from a film and captions of our own."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import UserInputError
from tests.vript_layout import write_vript_layout

CLIPS = [
    {"start_s": 0.5, "end_s": 4.0, "caption": "A close-up shows a fox. The camera pans left. It runs."},
    {"start_s": 4.0, "end_s": 9.25, "caption": "A red ball rolls over a table."},
    {"start_s": 3700.0, "end_s": 3712.125, "caption": "A wide shot of a field."},
]


@pytest.fixture
def film(tmp_path: Path) -> tuple[Path, Path]:
    video, captions = tmp_path / "film.mp4", tmp_path / "film.jsonl"
    video.write_bytes(b"film")
    captions.write_text("".join(json.dumps(clip) + "\n" for clip in CLIPS), encoding="utf-8")
    return video, captions


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_unpacked_layout(film: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "vript"
    write_vript_layout(*film, target, video_id="abc-1", title="A film")

    assert (target / "vript_long_videos/abc-1.mp4").read_bytes() == b"film"
    assert load(target / "vript_meta/vript_long_videos_meta.json")["abc-1"]["video_title"] == "A film"
    captions = load(target / "vript_captions/vript_long_videos_captions/abc-1_caption.json")
    assert captions["meta"] == {
        "video_id": "abc-1",
        "video_title": "A film",
        "num_clips": 3,
        "integrity": True,
    }
    assert list(captions["data"]) == ["abc-1-Scene-001", "abc-1-Scene-002", "abc-1-Scene-003"]
    first = captions["data"]["abc-1-Scene-001"]
    assert set(first) == {"video_id", "clip_id", "video_title", "caption", "voiceover"}
    assert set(first["caption"]) == {"shot_type", "camera_movement", "content", "scene_title"}
    assert first["caption"]["content"] == CLIPS[0]["caption"]
    assert first["caption"]["shot_type"] == "Close-up shot."
    assert first["caption"]["camera_movement"] == "The camera pans left."
    cuts = load(target / "vript_long_videos_clips/abc-1/abc-1_cut_meta.json")["clips"]
    assert cuts[1] == {"clip_id": "abc-1-Scene-002.mp4", "start": 4.0, "end": 9.25}


def test_times_as_time_codes_under_other_keys(film: tuple[Path, Path], tmp_path: Path) -> None:
    write_vript_layout(
        *film, tmp_path / "v", video_id="a", times="timecode", time_keys=("start_time", "end_time")
    )
    cuts = load(tmp_path / "v/vript_long_videos_clips/a/a_cut_meta.json")["clips"]
    assert (cuts[2]["start_time"], cuts[2]["end_time"]) == ("01:01:40.000", "01:01:52.125")


def test_the_transcript_lists_touching_scenes_last_first(film: tuple[Path, Path], tmp_path: Path) -> None:
    write_vript_layout(*film, tmp_path / "v", video_id="a", boundaries="transcript")
    folder = tmp_path / "v/vript_long_videos_clips/a"
    assert [path.name for path in folder.iterdir()] == ["a_asr.jsonl"]
    lines = [json.loads(line) for line in (folder / "a_asr.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["clip_id"] for line in lines] == ["a-Scene-003", "a-Scene-002", "a-Scene-001"]
    ends = [sum(line["duration"] for line in lines[-n:]) for n in (1, 2, 3)]
    assert ends == pytest.approx([4.0, 3700.0, 3712.125])


def test_scenes_without_a_caption_break_the_integrity(film: tuple[Path, Path], tmp_path: Path) -> None:
    write_vript_layout(*film, tmp_path / "v", video_id="a", uncaptioned={2})
    captions = load(tmp_path / "v/vript_captions/vript_long_videos_captions/a_caption.json")
    assert captions["meta"]["integrity"] is False
    assert captions["meta"]["num_clips"] == 3
    assert list(captions["data"]) == ["a-Scene-001", "a-Scene-003"]
    assert len(load(tmp_path / "v/vript_long_videos_clips/a/a_cut_meta.json")["clips"]) == 3


@pytest.mark.parametrize("boundaries", ["cut_meta", "transcript", "none"])
def test_zipped_as_it_is_downloaded(film: tuple[Path, Path], tmp_path: Path, boundaries: Any) -> None:
    target = tmp_path / "v"
    for video_id in ("a", "b"):
        write_vript_layout(*film, target, video_id=video_id, zipped=True, boundaries=boundaries)

    with zipfile.ZipFile(target / "vript_captions/vript_long_videos_captions.zip") as archive:
        assert sorted(archive.namelist()) == ["a_caption.json", "b_caption.json"]
        assert json.loads(archive.read("b_caption.json"))["meta"]["video_id"] == "b"
    for part, video_id in ((1, "a"), (2, "b")):
        with zipfile.ZipFile(target / f"vript_long_videos/video_{part}_of_1095.zip") as archive:
            assert archive.read(f"{video_id}.mp4") == b"film"
        with zipfile.ZipFile(target / f"vript_long_videos_clips/clips_{part}_of_1095.zip") as archive:
            name = {"cut_meta": "cut_meta.json", "transcript": "asr.jsonl"}.get(boundaries)
            expected = f"{video_id}/{video_id}_{name}" if name else f"{video_id}/"
            assert archive.namelist() == [expected]
    assert sorted(load(target / "vript_meta/vript_long_videos_meta.json")) == ["a", "b"]


def test_without_boundaries_the_folder_of_clips_is_empty(film: tuple[Path, Path], tmp_path: Path) -> None:
    write_vript_layout(*film, tmp_path / "v", video_id="a", boundaries="none")
    assert list((tmp_path / "v/vript_long_videos_clips/a").iterdir()) == []


def test_no_captioned_scene_is_an_error(film: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="no captioned scene"):
        write_vript_layout(*film, tmp_path / "v", video_id="a", uncaptioned={1, 2, 3})
