"""Arithmetic on features, without any model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.models.base import Box, Segmenter
from tasks.scoring.features import FeatureCache, FrameFeature
from tasks.scoring.suites.locot2v import picture_models
from tasks.scoring.suites.locot2v.aesthetic_quality import places_at, share_of_bound, upper_bound
from tasks.scoring.suites.locot2v.event_consistency import event_places, phrase_of
from tasks.scoring.suites.locot2v.events import EventClip, PromptEvent
from tasks.scoring.suites.locot2v.picture_models import feature_rows
from tasks.scoring.suites.locot2v.region_features import (
    MOST_BOXES,
    box_row,
    corners_of,
    cut_out,
    masks_of,
    present,
    without,
)
from tasks.scoring.suites.locot2v.technical_quality import logistic, technical_score
from tasks.scoring.suites.locot2v.visual_scorers import neighbour_cosines
from tasks.scoring.suites.locot2v.visual_settings import TechnicalSettings
from tests.tasks.scoring.suites.locot2v.videos import Endless, scenes


class Means(FrameFeature):
    """The mean colour of a frame."""

    name, width = "means", 3  # type: ignore[assignment]

    def __init__(self) -> None:
        self.asked: list[int] = []

    def settings(self) -> dict[str, int]:
        return {}

    def compute(self, side: object, places: object) -> np.ndarray:
        self.asked += places  # type: ignore[operator]
        return np.stack([side.rgb(place).mean((0, 1)) for place in places])  # type: ignore[attr-defined]


def box(left: float, top: float, right: float, bottom: float, score: float = 0.5) -> Box:
    return Box(left=left, top=top, right=right, bottom=bottom, score=score, label="dog")


def test_neighbours_are_compared_across_parts() -> None:
    rows = np.array([[1.0, 0], [1, 0], [0, 2], [3, 3], [-1, -1]])
    whole = neighbour_cosines([rows])
    half = math.sqrt(0.5)
    assert whole.value == pytest.approx((1 + 0 + half - 1) / 4)
    assert whole.steps == 4
    assert neighbour_cosines([rows[:1], rows[1:2], rows[2:]]) == whole
    assert neighbour_cosines([rows[:1]]).value is None
    assert neighbour_cosines([np.array([[1.0, 0], [-1, 0]])]).value == 0


def test_features_of_a_long_video_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_models, "MOST_KEPT", 50)
    cache, feature = FeatureCache(), Means()
    for count, kept in ((40, 40), (120, 0)):
        video = Endless(count)
        for _ in range(2):
            feature.asked.clear()
            rows = np.concatenate(list(feature_rows(cache, video, range(count), feature)))
            assert len(rows) == count
            assert video.most_at_once <= 32
        # the second time only what was not kept is computed
        assert len(feature.asked) == count - kept


def test_a_frame_a_second_from_the_first_on() -> None:
    assert places_at(scenes([50], fps=24.0), 1.0) == [0, 24, 48]
    assert places_at(scenes([3], fps=1.0), 1.0) == [0, 1, 2]
    assert places_at(scenes([2], fps=0.5), 1.0) == [0, 1]
    assert places_at(scenes([5], fps=2.5), 1.0) == [0, 2]
    assert places_at(scenes([1]), 1.0) == [0]


def test_the_bound_is_the_mean_of_the_best_tenth() -> None:
    assert upper_bound(range(100)) == pytest.approx(94.5)
    assert upper_bound([4.0, 6.0]) == 6.0
    assert share_of_bound(5, 6.25) == 0.8
    assert share_of_bound(7, 6.25) == 1
    assert share_of_bound(-1, 6.25) == 0


def test_technical_quality_is_the_logistic_of_normalised_numbers() -> None:
    settings = TechnicalSettings()
    assert technical_score(9, 0.1107, settings) == 0.5
    assert technical_score(9, 0.1107 + 0.07355, settings) == pytest.approx(1 / (1 + math.exp(-1)))
    fused = TechnicalSettings(score="fused")
    wanted = 0.6104 * 1 + 0.3896 * 2
    result = technical_score(-0.08285 + 2 * 0.03774, 0.1107 + 0.07355, fused)
    assert result == pytest.approx(1 / (1 + math.exp(-wanted)))
    assert logistic(1000) == 1
    assert logistic(-1000) == 0


def test_the_best_boxes_are_kept_in_whole_pixels() -> None:
    row = box_row([box(1.2, 2.7, 10.1, 12), box(60, 40, 80, 80, 0.3), box(5, 5, 5.1, 5.1, 0.2)])
    assert corners_of(row, 48, 64) == [(1, 2, 11, 12), (60, 40, 64, 48), (5, 5, 6, 6)]
    assert len(corners_of(box_row([box(0, 0, 9, 9)] * 20), 48, 64)) == MOST_BOXES
    assert corners_of(box_row([]), 48, 64) == []


def test_a_subject_is_what_its_best_box_holds() -> None:
    frame = np.arange(48 * 64 * 3, dtype=np.uint32).reshape(48, 64, 3).astype(np.uint8)
    result = cut_out(frame, masks_of(box_row([box(4, 6, 14, 26), box(0, 0, 64, 48, 0.1)]), frame, most=1))
    assert result is not None
    assert (result == frame[6:26, 4:14]).all()
    assert cut_out(frame, masks_of(box_row([]), frame)) is None


def test_a_background_has_every_box_filled_with_the_mean_of_the_rest() -> None:
    frame = np.full((48, 64, 3), 10, np.uint8)
    frame[:, 32:] = 30
    frame[0:10, 0:10] = 200
    result = without(frame, masks_of(box_row([box(0, 0, 10, 10)]), frame))
    assert result is not None
    rest = np.r_[np.full(48 * 32 - 100, 10), np.full(48 * 32, 30)].mean()
    assert (result[:10, :10] == round(rest)).all()
    assert (result[10:] == frame[10:]).all()
    assert (frame[:10, :10] == 200).all()
    assert without(frame, masks_of(box_row([]), frame)) is frame
    assert without(frame, masks_of(box_row([box(0, 0, 64, 48)]), frame)) is None


class Discs(Segmenter):
    """Finds the disc in each box; nothing in boxes of less than 6 pixels."""

    def masks(self, rgb: np.ndarray, corners: np.ndarray) -> np.ndarray:
        y, x = np.mgrid[: rgb.shape[0], : rgb.shape[1]]
        found = np.zeros((len(corners), *rgb.shape[:2]), np.bool_)
        for mask, (left, top, right, bottom) in zip(found, corners, strict=True):
            radius = min(right - left, bottom - top) / 2
            if radius >= 3:
                mask[:] = np.hypot(x - (left + right - 1) / 2, y - (top + bottom - 1) / 2) < radius
        return found


def test_masks_within_boxes_leave_out_what_is_beside_the_thing() -> None:
    frame = np.full((48, 64, 3), 10, np.uint8)
    row = box_row([box(10, 10, 30, 30), box(40, 20, 44, 24, 0.2)])
    (disc, nothing) = masks_of(row, frame, Discs())
    assert not nothing.any()
    frame[disc] = 200
    subject = cut_out(frame, masks_of(row, frame, Discs(), most=1))
    assert subject is not None
    # its corners are not the background's 10
    assert (subject == 200).all()
    assert subject.shape == (20, 20, 3)
    background = without(frame, masks_of(row, frame, Discs()))
    assert background is not None
    assert (background == 10).all()
    # with boxes as masks the subject has what is behind it
    boxed = cut_out(frame, masks_of(row, frame))
    assert boxed is not None
    assert (boxed[0, 0] == 10).all()
    # a mask may be empty
    small = box_row([box(40, 20, 44, 24)])
    assert cut_out(frame, masks_of(small, frame, Discs())) is None


def test_frames_without_a_thing_are_left_out() -> None:
    rows = np.array([[1, 0.5, 0.5], [0, 0, 0], [1, 1, 0]], np.float32)
    assert present(rows).tolist() == [[0.5, 0.5], [1, 0]]


def clip(first: int, end: int) -> EventClip:
    return EventClip(0, PromptEvent(event="e"), 0.0, 1.0, first, end)


def test_an_events_frames_are_spread_over_it() -> None:
    assert event_places(clip(24, 72), 24.0, 2.0, 64) == [30, 42, 54, 66]
    assert event_places(clip(10, 11), 24.0, 1.0, 64) == [10]
    assert len(event_places(clip(0, 6), 24.0, 1.0, 64)) == 2
    assert len(event_places(clip(0, 24_000), 24.0, 1.0, 64)) == 64


def test_a_subjects_name_is_compared_without_its_article() -> None:
    assert phrase_of("The  brown Dog.") == phrase_of("a brown dog") == "brown dog"
    assert phrase_of("unspecified") == "" == phrase_of(" . ")
