"""Transitions of made videos: a hard cut, a dissolve, none; SSIM against scikit-image."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.metrics import structural_similarity as reference

from tasks.scoring.suites.locot2v.flow import dis_flow
from tasks.scoring.suites.locot2v.transitions import (
    TransitionSettings,
    motion_similarity,
    pixel_similarity,
    smoothness,
    structural_similarity,
    transition_smoothness,
    transitions,
    window_of,
)
from tests.tasks.scoring.suites.locot2v.test_pixel_metrics import H, W, grey_of, side, window

OTHER = cv2.GaussianBlur(np.random.default_rng(9).integers(0, 256, (H, W, 3), dtype=np.uint8), (0, 0), 4)


def mixed(share: float) -> np.ndarray:
    return cv2.addWeighted(window(0), 1 - share, OTHER, share, 0).astype(np.uint8)


def of(frames: list[np.ndarray]) -> float:
    """Smoothness at frame 8, with features that follow the pixels."""
    video = side(frames)

    def features(places: object) -> np.ndarray:
        pixels = [frames[place].astype(np.float64).ravel() for place in places]  # type: ignore[attr-defined]
        return np.stack(pixels) - 128

    (result,) = transitions(video, [8], features, dis_flow, TransitionSettings(window_s=1.5))
    return result.smoothness


def test_a_hard_cut_is_rough_and_a_dissolve_smooth() -> None:
    hard = of([mixed(0)] * 8 + [mixed(1)] * 8)
    short = of([mixed(0)] * 7 + [mixed(0.5)] + [mixed(1)] * 8)
    slow = of([mixed(n / 15) for n in range(16)])
    none = of([mixed(0)] * 16)
    assert hard < short < slow <= none
    assert none == pytest.approx(1, abs=1e-6)
    assert slow > 0.95
    # every similarity would have to fall to 0 for 0
    assert hard < 0.8


def test_a_whole_hard_cut_is_zero() -> None:
    assert smoothness([1, 1, 1, 0, 1, 1]) == pytest.approx(0)
    assert smoothness([1, 0]) == pytest.approx(0)
    assert smoothness([0.4]) == 1.0


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_smoothness_is_a_share(values: list[float]) -> None:
    assert 0 <= smoothness(values) <= 1


def test_a_video_without_cuts_has_no_value_rather_than_one() -> None:
    result = transition_smoothness([])
    assert result.value is None
    assert "no cut" in result.why


def test_the_window_stays_in_the_video() -> None:
    assert window_of(50, 100, 8.0, 1.0) == range(46, 54)
    assert window_of(1, 100, 8.0, 1.0) == range(0, 5)
    assert window_of(99, 100, 8.0, 1.0) == range(95, 100)
    # at one frame a second there are two on each side
    assert window_of(10, 100, 1.0, 1.0) == range(8, 12)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 1.0])
def test_structure_is_that_of_scikit_image(share: float) -> None:
    first, second = grey_of(mixed(0)), grey_of(mixed(share))
    expected = reference(
        first, second, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    # the two differ in how they treat the border
    assert structural_similarity(first, second) == pytest.approx(expected, abs=0.02)


def test_pixels_and_motion() -> None:
    assert pixel_similarity(mixed(0), mixed(0)) == 1
    assert pixel_similarity(np.zeros((4, 4), np.uint8), np.full((4, 4), 51, np.uint8)) == pytest.approx(0.8)
    still, right = np.zeros((8, 8, 2), np.float32), np.full((8, 8, 2), 2.0, np.float32)
    assert motion_similarity(still, still) == 1
    assert motion_similarity(right, right) == 1
    assert motion_similarity(right, -right) == pytest.approx(0, abs=0.01)
    assert motion_similarity(still, right) == pytest.approx(0, abs=0.02)


def test_a_cut_at_the_very_end_is_still_one() -> None:
    frames = [mixed(0)] * 9 + [mixed(1)]
    (result,) = transitions(side(frames), [9], lambda places: np.ones((len(places), 3)), dis_flow)
    assert len(result.similarities) == 4
    assert result.smoothness < 1
