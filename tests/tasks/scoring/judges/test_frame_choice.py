"""Scenes as FFmpeg finds them, and the frames that are chosen of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.judgements import Failure
from tasks.llm.usage import NotJudged
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.frame_choice import (
    VIDEOSCORE_LIMIT,
    FrameChoice,
    FrameLimit,
    FramePolicy,
    choose_frames,
)
from tasks.scoring.judges.scenes import find_scenes, luma_changes, scene_scores
from tests.tasks.scoring.sides import FrameList, cut_video, filter_values, flat, noise

CACHE = FeatureCache()
CLIPS, ALL = FramePolicy(policy="clips"), FramePolicy(policy="all")


def choose(videos: list[FrameList], policy: FramePolicy, **limit: int) -> list[FrameChoice]:
    sides: list[Side] = list(videos)
    return choose_frames(sides, policy, FrameLimit(**limit), CACHE)


def test_the_centre_frame_of_each_scene_and_a_subset_where_the_limit_is_passed() -> None:
    (choice,) = choose([cut_video([4, 2, 5])], CLIPS)
    assert choice.indices == (2, 5, 8)
    assert (choice.available, choice.candidates, choice.used, choice.fell_back) == (11, 3, "clips", False)
    video = cut_video([3] * 60)
    (whole,) = choose([video], CLIPS)
    (choice,) = choose_frames([video], CLIPS, VIDEOSCORE_LIMIT, CACHE)
    assert whole.indices == tuple(range(1, 180, 3))
    assert len(choice.indices) == 48
    assert set(choice.indices) < set(whole.indices)
    assert list(choice.indices) == sorted(choice.indices)
    (again,) = choose_frames([cut_video([3] * 60)], CLIPS, VIDEOSCORE_LIMIT, FeatureCache())
    assert again.indices == choice.indices


def test_the_draw_belongs_to_the_content_and_the_settings() -> None:
    video = cut_video([2] * 40)
    (choice,) = choose([video], CLIPS, frames=20)
    (other_seed,) = choose([video], FramePolicy(seed=1), frames=20)
    (other_video,) = choose([cut_video([2] * 40, seed=5)], CLIPS, frames=20)
    assert other_video.candidates == other_seed.candidates == 40
    assert len({choice.indices, other_seed.indices, other_video.indices}) == 3
    (fewer,) = choose([video], CLIPS, frames=5)
    assert set(fewer.indices) < set(choice.indices)


def test_all_frames_where_they_fit_else_those_of_the_scenes() -> None:
    high, low = cut_video([10] * 4), cut_video([10] * 3)
    fits = choose([high, low], ALL, frames=70)
    assert [choice.indices for choice in fits] == [tuple(range(40)), tuple(range(30))]
    assert not any(choice.fell_back or choice.scenes for choice in fits)
    short = choose([high, low], ALL, frames=69)
    assert [choice.indices for choice in short] == [(5, 15, 25, 35), (5, 15, 25)]
    assert all(choice.fell_back and choice.details()["used"] == "clips" for choice in short)


def test_tokens_limit_as_frames_do() -> None:
    video = cut_video([2] * 30)
    (choice,) = choose([video], ALL, tokens=1000, tokens_per_frame=64)
    assert (choice.most, len(choice.indices), choice.fell_back) == (15, 15, True)
    assert FrameLimit(frames=3, tokens=1000, tokens_per_frame=64).most == 3
    limits = [FrameLimit(tokens=tokens, tokens_per_frame=64).most for tokens in (0, 64, -5)]
    assert limits == [0, 1, 0]
    assert FrameLimit().most is None


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(2, 70))
def test_two_videos_share_a_limit_in_either_order(one: int, other: int, most: int) -> None:
    a, b = cut_video([2] * one), cut_video([2] * other, seed=9)
    first, second = choose([a, b], CLIPS, frames=most)
    swapped = choose([b, a], CLIPS, frames=most)
    assert [first.indices, second.indices] == [swapped[1].indices, swapped[0].indices]
    assert first.indices
    assert second.indices
    assert len(first.indices) + len(second.indices) <= most
    # no frame is given away but by rounding
    assert len(first.indices) + len(second.indices) >= min(most - 1, one + other)


@pytest.mark.parametrize("policy", [CLIPS, ALL])
def test_choice_without_a_frame_has_its_outcome(policy: FramePolicy) -> None:
    with pytest.raises(NotJudged) as empty:
        choose([cut_video([3]), FrameList([])], policy)
    assert empty.value.failure is Failure.VIDEO_UNREADABLE
    with pytest.raises(NotJudged) as narrow:
        choose([cut_video([3]), cut_video([4])], policy, tokens=99, tokens_per_frame=50)
    assert narrow.value.failure is Failure.CONTEXT_TOO_LONG


def test_settings_and_counts_are_recorded_as_json() -> None:
    (choice,) = choose([cut_video([4, 2, 5])], ALL, frames=2)
    details = json.loads(json.dumps(choice.details(), allow_nan=False))
    assert details == {
        "policy": "all",
        "threshold": 0.3,
        "seed": 0,
        "used": "clips",
        "fell_back": True,
        "most": 2,
        "available": 11,
        "candidates": 3,
        "chosen": 2,
        "places": list(choice.indices),
        "scenes": {
            "filter": "select=gt(scene,0.3)",
            "score": "as in FFmpeg 5.1.9 and 9.0.2",
            "on": "the video's own frames",
            "fps": 1.0,
            "frames": 11,
            "clips": 3,
        },
    }
    (everything,) = choose([cut_video([4])], ALL)
    assert everything.details()["places"] == "all"


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


@pytest.mark.parametrize(
    ("frames", "starts"),
    [
        ([flat(90)] * 7, (0,)),
        ([flat(90)], (0,)),
        ([], ()),
        # both changes are equal, so the second one is not a jump of the change: none for FFmpeg
        ([flat(16), flat(216), flat(16), flat(16)], (0, 1)),
    ],
    ids=["still", "one", "none", "second cut"],
)
def test_videos_of_few_scenes(frames: list[np.ndarray], starts: tuple[int, ...]) -> None:
    scenes = find_scenes(FrameList(frames), FeatureCache())
    assert scenes.starts == starts
    assert len(scenes) == len(starts)
    assert sum(map(len, scenes.clips)) == len(frames)
