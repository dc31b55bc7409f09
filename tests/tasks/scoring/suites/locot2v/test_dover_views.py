"""What DOVER sees of a piece of video."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.scoring.suites.locot2v.technical_quality import Windows, pieces, spread_places, views
from tests.tasks.scoring.suites.locot2v.videos import Endless, scene, side


@pytest.mark.parametrize("count", [1, 23, 239, 240, 241, 479, 480, 719, 7000])
@pytest.mark.parametrize("fps", [24.0, 24_000 / 1001, 1.0])
def test_pieces_are_shorter_than_ten_seconds_and_hold_every_frame(count: int, fps: float) -> None:
    result = pieces(count, fps, 10.0)
    assert [place for piece in result for place in piece] == list(range(count))
    assert all(0 < len(piece) < 10 * fps for piece in result)
    assert max(map(len, result)) - min(map(len, result)) <= 1


def test_slow_videos_have_pieces_of_a_frame_at_least() -> None:
    assert pieces(3, 0.01, 10.0) == [range(0, 1), range(1, 2), range(2, 3)]


def test_frames_are_every_second_one_of_each_part() -> None:
    places = spread_places(600, 3, 32, np.random.default_rng(0)).reshape(3, 32)
    assert (np.diff(places) == 2).all()
    assert ((places // 200) == np.arange(3)[:, None]).all()
    # a short piece is gone through again
    short = spread_places(10, 2, 32, np.random.default_rng(0))
    assert short.max() < 10
    assert len(short) == 64


def test_windows_lie_in_their_cells_and_are_cut_in_full_resolution() -> None:
    frame = np.arange(288 * 512 * 3, dtype=np.uint32).reshape(288, 512, 3).astype(np.uint8)
    windows = Windows.drawn(288, 512, np.random.default_rng(1))
    tops, lefts = windows.corners[..., 0], windows.corners[..., 1]
    assert ((tops // 41 == np.arange(7)[:, None]) & (lefts // 73 == np.arange(7))).all()
    result = windows.cut(frame)
    top, left = windows.corners[2, 5]
    assert (result[64:96, 160:192] == frame[top : top + 32, left : left + 32]).all()


def test_views_have_the_networks_shape_and_scale() -> None:
    grey = np.full((240, 320, 3), 128, np.uint8)
    video = side([grey] * 12)
    beauty, technique = views(video, range(2, 12), 3, seed=5)
    assert beauty.shape == (1, 3, 32, 224, 224)
    assert technique.shape == (3, 3, 32, 224, 224)
    wanted = (128 - np.array([123.675, 116.28, 103.53])) / np.array([58.395, 57.12, 57.375])
    for view in (beauty, technique):
        assert view.dtype == np.float32
        assert np.abs(view.mean(axis=(0, 2, 3, 4)) - wanted).max() < 0.05


def test_a_score_can_be_had_again_and_small_frames_are_enlarged() -> None:
    video = side([scene(number % 5) for number in range(40)])
    first, second, other = (views(video, range(40), 1, seed) for seed in (1, 1, 2))
    assert (first[1] == second[1]).all()
    assert (first[0] == second[0]).all()
    assert (first[1] != other[1]).any()


def test_each_frame_is_read_once_and_alone() -> None:
    video = Endless(7000)
    views(video, range(100, 339), 2, seed=0)
    assert video.most_at_once == 1
    listed = side([scene(number % 3) for number in range(200)])
    views(listed, range(50, 150), 2, seed=0)
    read = [place for (place,) in listed.reads]
    assert len(set(read)) == len(read)
    assert min(read) >= 50
    assert max(read) < 150
