"""Arithmetic on features, events and their consistency, and what DOVER sees, without any model."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tasks.extras.locot2v import picture_models
from tasks.extras.locot2v.aesthetic_quality import indices_at, share_of_bound, upper_bound
from tasks.extras.locot2v.event_consistency import (
    between_events,
    event_places,
    inter_event,
    intra_event,
    phrase_of,
    within_event,
)
from tasks.extras.locot2v.events import EventClip, PromptEvent
from tasks.extras.locot2v.picture_models import feature_rows
from tasks.extras.locot2v.region_features import (
    MAX_BOXES,
    box_row,
    corners_of,
    cut_out,
    masks_of,
    present,
    without,
)
from tasks.extras.locot2v.settings import MatchSettings
from tasks.extras.locot2v.technical_quality import (
    Windows,
    logistic,
    pieces,
    spread_indices,
    technical_score,
    views,
)
from tasks.extras.locot2v.text_alignment import inversions, match_events
from tasks.extras.locot2v.visual_scorers import neighbour_cosines
from tasks.extras.locot2v.visual_settings import TechnicalSettings
from tasks.models.base import Box, Segmenter
from tasks.scoring.features import FeatureCache, FrameFeature
from tests.tasks.extras.locot2v.videos import Endless, scene, scenes, side


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
    # frames without a thing are left out
    seen = np.array([[1, 0.5, 0.5], [0, 0, 0], [1, 1, 0]], np.float32)
    assert present(seen).tolist() == [[0.5, 0.5], [1, 0]]


def test_features_of_a_long_video_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_models, "MAX_KEPT", 40)
    cache, feature = FeatureCache(), Means()
    for count, kept in ((36, 36), (70, 0)):
        video = Endless(count)
        for _ in range(2):
            feature.asked.clear()
            rows = np.concatenate(list(feature_rows(cache, video, range(count), feature)))
            assert len(rows) == count
            assert video.most_at_once <= 32
        # the second time only what was not kept is computed
        assert len(feature.asked) == count - kept


@pytest.mark.parametrize(
    ("frames", "fps", "places"),
    [(50, 24.0, [0, 24, 48]), (3, 1.0, [0, 1, 2]), (2, 0.5, [0, 1]), (5, 2.5, [0, 2]), (1, 8.0, [0])],
)
def test_a_frame_a_second_from_the_first_on(frames: int, fps: float, places: list[int]) -> None:
    assert indices_at(scenes([frames], fps=fps), 1.0) == places


def test_the_bound_is_the_mean_of_the_best_tenth() -> None:
    assert upper_bound(range(100)) == pytest.approx(94.5)
    assert upper_bound([4.0, 6.0]) == 6.0
    assert [share_of_bound(score, 6.25) for score in (5, 7, -1)] == [0.8, 1, 0]


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
    assert len(corners_of(box_row([box(0, 0, 9, 9)] * 20), 48, 64)) == MAX_BOXES
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


def test_an_events_frames_are_spread_over_it_and_its_subject_has_no_article() -> None:
    def places(first: int, end: int, fps: float = 1.0) -> list[int]:
        clip = EventClip(0, PromptEvent(event="e"), 0.0, 1.0, first, end)
        return list(event_places(clip, 24.0, fps, 64))

    assert places(24, 72, 2.0) == [30, 42, 54, 66]
    assert places(10, 11) == [10]
    assert (len(places(0, 6)), len(places(0, 24_000))) == (2, 64)
    assert phrase_of("The  brown Dog.") == phrase_of("a brown dog") == "brown dog"
    assert phrase_of("unspecified") == "" == phrase_of(" . ")


EAST, NORTH = np.array([1.0, 0.0]), np.array([0.0, 1.0])
BETWEEN = np.array([1.0, 1.0])


def test_each_frame_is_held_against_the_first_and_the_one_before() -> None:
    half = np.sqrt(0.5)
    # frame 1: first and before are the same; frame 2: cosine 0 with the first, half with the one before
    assert within_event(np.stack([EAST, BETWEEN, NORTH])) == pytest.approx((half + half / 2) / 2)
    # a thing that stays is consistent; opposite features count as nothing, not below
    assert within_event(np.stack([EAST, 2 * EAST, 7 * EAST])) == pytest.approx(1)
    assert within_event(np.stack([EAST])) is None
    assert within_event(np.stack([EAST, -EAST])) == 0


def test_between_events_the_means_are_compared() -> None:
    thing = {0: np.stack([EAST, NORTH]), 2: np.stack([BETWEEN]), 5: np.stack([EAST])}
    half = np.sqrt(0.5)
    assert between_events(thing) == pytest.approx((1 + half + half) / 3)
    assert between_events({0: np.stack([EAST])}) is None


def test_means_over_things_and_events() -> None:
    steady = {0: np.stack([EAST, EAST]), 1: np.stack([EAST, EAST])}
    broken = {0: np.stack([EAST, NORTH])}
    result = intra_event([steady, broken])
    assert result.value == pytest.approx(2 / 3)
    assert result.steps == 3
    assert inter_event([steady, broken]).value == pytest.approx(1)
    # what was found nowhere has no value
    assert intra_event([]).value is None
    nowhere = inter_event([{0: np.stack([EAST])}, {1: np.stack([NORTH, NORTH])}])
    assert nowhere.value is None
    assert "two events" in nowhere.why


ONES = np.ones((4, 3, 3))


@pytest.mark.parametrize(
    ("order", "turned"), [((0, 1, 2), 0), ((1, 0, 2), 1), ((1, 2, 0), 2), ((2, 1, 0), 3)]
)
def test_a_wrong_order_costs_its_share(order: tuple[int, ...], turned: int) -> None:
    result = match_events(np.eye(3)[:, list(np.argsort(order))], ONES, MatchSettings(order_penalty=0.6))
    assert result.inversions == turned == inversions([m.video_event for m in result.matches])
    assert result.value == pytest.approx(1 - 0.6 * turned / 3)
    assert [(m.prompt_event, m.video_event) for m in result.matches] == list(enumerate(order))
    assert match_events(np.ones((0, 2)), np.ones((4, 0, 2))).value is None
    with pytest.raises(ValueError, match="do not fit"):
        match_events(np.eye(3), np.ones((4, 2, 3)))


@given(arrays(np.float64, (4, 4), elements=st.floats(0, 1)))
def test_it_is_the_best_of_all_matchings(weights: np.ndarray) -> None:
    result = match_events(weights, np.ones((1, 4, 4)), MatchSettings(order_penalty=0))
    best = max(sum(weights[row, column] for row, column in enumerate(p)) for p in permutations(range(4)))
    assert result.value == pytest.approx(best / 4)


@pytest.mark.parametrize("count", [1, 23, 239, 240, 241, 479, 480, 719, 7000])
@pytest.mark.parametrize("fps", [24.0, 24_000 / 1001, 1.0])
def test_pieces_are_shorter_than_ten_seconds_and_hold_every_frame(count: int, fps: float) -> None:
    result = pieces(count, fps, 10.0)
    assert [place for piece in result for place in piece] == list(range(count))
    assert all(0 < len(piece) < 10 * fps for piece in result)
    assert max(map(len, result)) - min(map(len, result)) <= 1
    # slow videos have pieces of a frame at least
    assert pieces(3, 0.01, 10.0) == [range(0, 1), range(1, 2), range(2, 3)]


def test_frames_are_every_second_one_of_each_part() -> None:
    places = spread_indices(600, 3, 32, np.random.default_rng(0)).reshape(3, 32)
    assert (np.diff(places) == 2).all()
    assert ((places // 200) == np.arange(3)[:, None]).all()
    # a short piece is gone through again
    short = spread_indices(10, 2, 32, np.random.default_rng(0))
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
    video = side([np.full((240, 320, 3), 128, np.uint8)] * 12)
    beauty, technique = views(video, range(2, 12), 2, seed=5)
    assert beauty.shape == (1, 3, 32, 224, 224)
    assert technique.shape == (2, 3, 32, 224, 224)
    wanted = (128 - np.array([123.675, 116.28, 103.53])) / np.array([58.395, 57.12, 57.375])
    for view in (beauty, technique):
        assert view.dtype == np.float32
        assert np.abs(view.mean(axis=(0, 2, 3, 4)) - wanted).max() < 0.05


def test_a_score_can_be_had_again_and_each_frame_is_read_once_and_alone() -> None:
    # small frames are enlarged
    video = side([scene(number % 5) for number in range(40)])
    first, second, other = (views(video, range(5, 40), 1, seed) for seed in (1, 1, 2))
    assert (first[1] == second[1]).all()
    assert (first[0] == second[0]).all()
    assert (first[1] != other[1]).any()
    listed = side([scene(number % 3) for number in range(200)])
    views(listed, range(50, 150), 2, seed=0)
    read = [place for (place,) in listed.reads]
    assert len(set(read)) == len(read)
    assert 50 <= min(read) <= max(read) < 150
