"""Pixel metrics on made videos whose answers are known."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from storage_schemas.frames import ColorSpec, Planes
from tasks.media.planes import rgb_to_planes
from tasks.scoring.suites.locot2v.flow import dis_flow, reduced, visible, warp
from tasks.scoring.suites.locot2v.pixel_metrics import (
    interpolated,
    motion_smoothness,
    moving_share,
    sampled,
    strongest_flow,
    temporal_flicker,
    warping_error,
    warping_score,
)
from tasks.scoring.suites.locot2v.visual_scorers import neighbour_cosines
from tests.tasks.scoring.sides import FrameList

W, H = 128, 96
RNG = np.random.default_rng(3)
#: A smooth picture, larger than a frame, to look at through a moving window.
SCENE = cv2.GaussianBlur(RNG.integers(0, 256, (H + 80, W + 80, 3), dtype=np.uint8), (0, 0), 3)
SCENE = cv2.normalize(SCENE, None, 16, 235, cv2.NORM_MINMAX)  # type: ignore[call-overload]


def window(x: int, y: int = 0) -> Planes:
    return SCENE[y : y + H, x : x + W]


def side(frames: list[Planes], fps: float = 8.0) -> FrameList:
    made = FrameList(list(rgb_to_planes(np.stack(frames), ColorSpec())), W, H)
    made.fps = fps
    return made


def panned(step: int, count: int) -> FrameList:
    return side([window(step * n) for n in range(count)])


def grey_of(rgb: Planes) -> Planes:
    return cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.uint8)


def test_flow_finds_a_known_shift() -> None:
    # the window moves right, so what it shows moves left
    flow = dis_flow(window(10), window(13))
    inner = flow[20:-20, 20:-20]
    assert np.median(inner[..., 0]) == pytest.approx(-3, abs=0.1)
    assert np.median(inner[..., 1]) == pytest.approx(0, abs=0.1)
    assert strongest_flow(np.full((10, 10, 2), 3.0, np.float32), 0.05) == pytest.approx(3 * np.sqrt(2))


def test_warping_brings_a_shifted_frame_back() -> None:
    flow = np.zeros((H, W, 2), np.float32)
    flow[..., 0] = -3
    back = warp(window(13), flow)
    assert (back[:, 3:] == window(10)[:, 3:]).all()
    # what comes in from outside is hidden
    seen = visible(flow, -flow)
    assert seen[:, 4:].all()
    assert not seen[:, :3].any()


def test_a_still_video_does_not_flicker_and_does_not_move() -> None:
    still = side([window(5)] * 5)
    flicker = temporal_flicker(still, dis_flow)
    assert flicker.value == 1.0
    assert flicker.steps == 4
    assert moving_share(still, dis_flow).value == 0.0
    assert warping_error(still, dis_flow).value == pytest.approx(0, abs=1e-6)
    assert motion_smoothness(still, dis_flow).value == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("amount", [4, 10])
def test_flicker_is_the_mean_difference_over_255(amount: int) -> None:
    frames = [np.clip(window(5).astype(int) + amount * (n % 2), 0, 255).astype(np.uint8) for n in range(6)]
    result = temporal_flicker(side(frames), dis_flow)
    assert result.value == pytest.approx(1 - amount / 255, abs=0.004)


def test_moving_frames_take_no_part_in_flicker() -> None:
    result = temporal_flicker(panned(6, 5), dis_flow)
    assert result.value is None
    assert "static" in result.why


def test_a_panning_video_moves() -> None:
    # 6 pixels at 256 of the shorter side are 2.25 at 96
    assert moving_share(panned(4, 8), dis_flow).value == 1.0
    assert moving_share(panned(1, 8), dis_flow).value == 0.0
    assert moving_share(side([window(0)] * 4 + [window(6), window(12)]), dis_flow).value == pytest.approx(
        2 / 5
    )


def test_steps_are_apart_in_time() -> None:
    fast = side([window(0)] * 24, fps=24.0)
    assert sampled(fast, 0.125) == list(range(0, 24, 3))
    assert sampled(side([window(0)] * 3, fps=1.0), 0.125) == [0, 1, 2]


def test_even_motion_is_smoother_than_a_jump() -> None:
    even = motion_smoothness(panned(2, 7), dis_flow).value
    jumping = motion_smoothness(side([window(x) for x in (0, 12, 4, 20, 8, 30, 12)]), dis_flow).value
    assert even is not None
    assert jumping is not None
    assert even > 0.98 > jumping


def test_the_middle_of_two_frames_is_where_it_should_be() -> None:
    middle = interpolated(window(10), window(14), dis_flow)
    error = np.abs(middle - window(12))[16:-16, 16:-16].mean()
    assert error < 2 < np.abs(window(10).astype(float) - window(12))[16:-16, 16:-16].mean()


def test_motion_costs_no_warping_error_but_a_cut_does() -> None:
    pan = warping_error(panned(3, 6), dis_flow).value
    other = RNG.integers(0, 256, (H, W, 3), dtype=np.uint8)
    changed = [window(0), cv2.addWeighted(window(0), 0.6, other, 0.4, 0), window(0)]
    odd = warping_error(side(changed), dis_flow).value
    assert pan is not None
    assert odd is not None
    assert pan < 0.002 < odd
    assert warping_score(0.0) == 1
    assert warping_score(0.025) == 0.5
    assert warping_score(1.0) == 0


def test_semantic_consistency_is_the_mean_cosine() -> None:
    rows = np.array([[1.0, 0], [1, 0], [0, 2], [3, 3]])
    assert neighbour_cosines([rows]).value == pytest.approx((1 + 0 + np.sqrt(0.5)) / 3)
    assert neighbour_cosines([rows[:1]]).value is None


def test_one_frame_has_no_value_anywhere() -> None:
    one = side([window(0)])
    for metric in (temporal_flicker, moving_share, motion_smoothness, warping_error):
        result = metric(one, dis_flow)
        assert result.value is None
        assert result.why


def test_frames_are_read_a_few_at_a_time() -> None:
    video = panned(2, 9)
    warping_error(video, dis_flow)
    assert max(len(read) for read in video.reads) <= 2


def test_large_frames_are_reduced() -> None:
    assert reduced(np.zeros((480, 640, 3), np.uint8), 320).shape == (240, 320, 3)
    assert reduced(np.zeros((48, 64, 3), np.uint8), 320).shape == (48, 64, 3)
