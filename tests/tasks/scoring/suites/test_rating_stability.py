"""Scores that are repeated, and scores of blurred videos."""

from __future__ import annotations

import cv2
import krippendorff
import numpy as np
import pytest

from tasks.scoring.suites.blurred_video import BlurredSide
from tasks.scoring.suites.human_agreement import robustness, stability
from tasks.scoring.suites.human_ratings import VideoKey
from tests.tasks.scoring.sides import FrameList, noise

SCALE = (1, 5)


def scores(*values: float) -> dict[VideoKey, float]:
    return {VideoKey(model="m", prompt_id=f"p{n}"): value for n, value in enumerate(values)}


def test_three_runs() -> None:
    runs = [scores(1, 2, 3, 4, 5, 5), scores(1, 2, 3, 4, 5, 4), scores(1, 2, 4, 4, 5, 5)]
    result = stability(SCALE, runs)
    assert (result.runs, result.videos) == (3, 6)
    assert result.total_agreement == pytest.approx(4 / 6)
    table = np.array([list(run.values()) for run in runs])
    reference = krippendorff.alpha(table, level_of_measurement="ordinal")
    assert result.alpha.alpha == pytest.approx(reference, abs=1e-12)


def test_videos_that_a_run_lacks_take_no_part() -> None:
    result = stability(SCALE, [scores(1, 2, 3), scores(1, 2)])
    assert result.videos == 2
    assert result.total_agreement == 1.0
    assert stability(SCALE, [scores(), scores(1)]).total_agreement is None
    with pytest.raises(ValueError, match="two runs"):
        stability(SCALE, [scores(1)])


def test_relative_errors() -> None:
    result = robustness(scores(4, 2, 5), scores(3, 2, 5))
    assert result.videos == 3
    assert result.mean_error == pytest.approx(0.25 / 3)
    assert result.error_of_means == pytest.approx(1 / 11)
    assert robustness(scores(), scores()).mean_error is None
    with pytest.raises(ValueError, match="above 0"):
        robustness(scores(0), scores(1))


def test_a_blurred_video_is_opencv_s_blur_of_each_plane() -> None:
    plain = FrameList([noise(n) for n in range(5)])
    blurred = BlurredSide(plain, 1.5)
    frames = blurred.planes([3, 1])
    assert frames.shape == (2, 24, 32)
    assert plain.reads == [[3, 1]]
    for frame, number in zip(frames, (3, 1), strict=True):
        whole = noise(number)
        luma = cv2.GaussianBlur(whole[:16], (0, 0), 1.5, borderType=cv2.BORDER_REPLICATE)
        assert (frame[:16] == luma).all()
        first = whole[16:20].reshape(8, 16)
        expected = cv2.GaussianBlur(first, (0, 0), 0.75, borderType=cv2.BORDER_REPLICATE)
        assert (frame[16:20].reshape(8, 16) == expected).all()
    assert len(blurred) == 5
    assert (plain.frames[3] == noise(3)).all()
    assert set(blurred.frame_ids(range(5))).isdisjoint(plain.frame_ids(range(5)))


def test_a_blur_needs_a_width() -> None:
    with pytest.raises(ValueError, match="sigma above 0"):
        BlurredSide(FrameList([noise(1)]), 0)
