"""Cuts by PySceneDetect, from frames that are read lazily."""

from __future__ import annotations

from pathlib import Path

import cv2

from tasks.scoring.suites.file_video import FileVideo, FrameRate
from tasks.scoring.suites.locot2v.transitions import CutSettings, find_cuts
from tests.tasks.scoring.sides import film
from tests.tasks.scoring.suites.locot2v.videos import Endless, scenes


def test_hard_cuts_are_found_where_they_are() -> None:
    assert find_cuts(scenes([8, 12, 10])) == [8, 20]
    assert find_cuts(scenes([9])) == []
    assert find_cuts(scenes([1])) == []


def test_scenes_shorter_than_the_setting_are_none() -> None:
    video = scenes([8, 2, 10])
    assert find_cuts(video, CutSettings(shortest_s=0)) == [8, 10]
    assert len(find_cuts(video, CutSettings(shortest_s=1))) == 1


def test_a_threshold_above_all_changes_finds_nothing() -> None:
    assert find_cuts(scenes([8, 12]), CutSettings(threshold=255)) == []


def test_they_are_those_that_pyscenedetect_finds_in_the_file(ffmpeg: str, tmp_path: Path) -> None:
    from scenedetect import ContentDetector, detect

    film(ffmpeg, tmp_path / "film.mp4")
    shortest = round(0.6 * 8)
    output = detect(str(tmp_path / "film.mp4"), ContentDetector(min_scene_len=shortest))
    theirs = [start.get_frames() for start, _ in output[1:]]
    ours = find_cuts(FileVideo(tmp_path / "film.mp4", FrameRate(long_side=96)))
    assert theirs
    assert ours == theirs


def test_one_frame_is_read_at_a_time_and_opencv_is_the_one_we_want() -> None:
    video = Endless(400)
    find_cuts(video)
    assert video.most_at_once == 1
    assert hasattr(cv2, "xphoto")
