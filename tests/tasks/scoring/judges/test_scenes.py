from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.scenes import find_scenes, luma_changes, scene_scores
from tests.tasks.scoring.sides import FrameList, cut_video, filter_values, flat, noise


def scores(side: Side) -> np.ndarray:
    return scene_scores(luma_changes(side, FeatureCache()).rows[:, 0], side.width * side.height)


def test_scores_and_cuts_are_those_of_ffmpeg(each_ffmpeg: str, seen: Side) -> None:
    random = FrameList([noise(n) // (1 + n % 5) for n in range(40)])
    for side in (seen, random):
        expected = filter_values(each_ffmpeg, side, "select='gte(scene,0)'", "lavfi.scene_score")
        assert len(expected) == len(side)
        assert max(expected) > 0.3
        assert np.round(scores(side), 6).tolist() == expected
    for threshold in (0.05, 0.1, 0.3):
        expected = filter_values(each_ffmpeg, seen, f"select='gt(scene,{threshold})'", "frame")
        assert expected
        assert find_scenes(seen, FeatureCache(), threshold).starts == (0, *expected)


def test_scenes_cover_the_video_and_give_their_centres() -> None:
    scenes = find_scenes(cut_video([4, 2, 5, 3]), FeatureCache())
    assert scenes.clips == (range(4), range(4, 6), range(6, 11), range(11, 14))
    assert scenes.centres == (2, 5, 8, 12)
    settings = {
        "filter": "select=gt(scene,0.3)",
        "score": "as in FFmpeg 5.1.9 and 9.0.2",
        "on": "the video's own frames",
    }
    assert scenes.details() == {**settings, "fps": 1.0, "frames": 14, "clips": 4}
    json.dumps(scenes.details(), allow_nan=False)


@pytest.mark.parametrize(
    ("frames", "starts"),
    [
        ([flat(90)] * 7, (0,)),
        ([flat(90)], (0,)),
        ([], ()),
        # both changes are equal, so the second one is no jump of the change: none for FFmpeg
        ([flat(16), flat(216), flat(16), flat(16)], (0, 1)),
    ],
    ids=["still", "one", "none", "second cut"],
)
def test_videos_of_few_scenes(frames: list[np.ndarray], starts: tuple[int, ...]) -> None:
    scenes = find_scenes(FrameList(frames), FeatureCache())
    assert scenes.starts == starts
    assert len(scenes) == len(starts)
    assert sum(map(len, scenes.clips)) == len(frames)


def test_few_frames_are_held_and_a_second_look_computes_none(tmp_path: Path) -> None:
    # the second half shows the first one again
    side = FrameList([noise(n) for n in range(100)] * 2)
    first = find_scenes(side, FeatureCache(tmp_path))
    assert max(map(len, side.reads)) <= 32
    assert first.changes == {"needed": 199, "computed": 100}
    again = find_scenes(side, FeatureCache(tmp_path))
    assert again.starts == first.starts
    assert again.changes == {"needed": 199, "computed": 0}
