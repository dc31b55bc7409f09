"""Dynamics, spatial relationship, object integrity, color: what is eligible and what changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slvmeval.testing import synthetic_clip
from storage_schemas.analysis import AgentAction, CaptionAnalysis, LocatedObject
from storage_schemas.frames import ColorSpec, Planes
from tasks.aspects.base import ClipContext, ClipNotDegradable, ClipSpan, FindingOperation, FoundParameters
from tasks.aspects.color import NamedColourHueShift
from tasks.aspects.dynamics_degree import MiddleFrame, moves
from tasks.aspects.object_integrity import SaliencyTeleaInpainting, paint_over, subject_mask
from tasks.aspects.spatial_relationship import HorizontalFlip, names_a_side
from tasks.media.color_names import PALETTE, pixels_named, recolour, rgb_to_lab
from tasks.media.planes import planes_to_rgb, split_planes

SPAN = ClipSpan(0, 0, 8)
MOTION = CaptionAnalysis(dynamic_degree=(AgentAction(agent="ball", action="rolls"),))
HUMAN = CaptionAnalysis(human_action=(AgentAction(agent="man", action="walks"),))
BALL = synthetic_clip(1, 72, 128)


def test_the_whole_clip_or_each_run_shows_its_middle_frame() -> None:
    operation = MiddleFrame()
    for count, middle in ((2, 1), (3, 1), (8, 4), (9, 4)):
        assert operation.frame_map(count, operation.parameters()) == [middle] * count
    assert operation.frame_map(5, operation.parameters("weak")) == [1, 1, 3, 3, 4]
    assert operation.frame_map(6, operation.parameters("medium")) == [2, 2, 2, 2, 5, 5]


def test_clips_in_which_something_moves_are_eligible_and_people_where_asked_for() -> None:
    operation = MiddleFrame()
    paper, wider = operation.parameters(), operation.parameters(overrides={"human_actions": True})
    assert moves(MOTION, ClipSpan(0, 0, 2))
    assert not moves(MOTION, ClipSpan(0, 0, 1))
    assert not moves(CaptionAnalysis(), SPAN)
    assert moves(HUMAN, SPAN)
    assert not operation.takes(HUMAN, SPAN, paper)
    assert operation.takes(HUMAN, SPAN, wider)
    assert operation.takes(MOTION, SPAN, paper)


SIDES = ("left", "upper left", "left-hand side", "to the Right of", "far right", "leftmost", "rightwards")


@pytest.mark.parametrize("location", [*SIDES, "bottom-left corner"])
def test_locations_that_say_left_or_right(location: str) -> None:
    assert names_a_side(located(location), SPAN)


@pytest.mark.parametrize("location", ["front", "bright corner", "upright", "leftover", "top", ""])
def test_locations_that_do_not(location: str) -> None:
    assert not names_a_side(located(location), SPAN)


def located(location: str) -> CaptionAnalysis:
    where = (LocatedObject(location="top", object="sky"), LocatedObject(location=location, object="tree"))
    return CaptionAnalysis(spatial_relationship=where)


@settings(max_examples=30, deadline=None)
@given(planes=arrays(np.uint8, st.tuples(st.integers(1, 3), st.just(12), st.sampled_from([4, 6, 10]))))
def test_flipping_twice_is_the_identity_and_once_mirrors_rgb(planes: Planes) -> None:
    operation = HorizontalFlip()
    clip: Any = None  # the flip looks at nothing but the frames
    once = operation.apply(planes, 0, clip, operation.parameters(), {})
    assert (operation.apply(once, 0, clip, operation.parameters(), {}) == planes).all()
    before, after = planes_to_rgb(planes, ColorSpec()), planes_to_rgb(once, ColorSpec())
    assert (after == before[:, :, ::-1]).all()


# object integrity


def test_the_subject_is_painted_over_and_the_rest_stays_to_the_bit(
    photographs: Planes, degrade: Callable[..., Planes], clip_of: Callable[..., ClipContext]
) -> None:
    operation = SaliencyTeleaInpainting()
    after = degrade(operation, photographs)
    result = clip_of(3).models.get("u2netp").mask(planes_to_rgb(photographs[:1], ColorSpec())[0])
    mask = subject_mask(result, operation.parameters())
    before_y, after_y = split_planes(photographs).y, split_planes(after).y
    assert (before_y[:, ~mask] == after_y[:, ~mask]).all()
    assert np.abs(before_y[:, mask].astype(int) - after_y[:, mask]).mean() > 5


def disc(share: float) -> np.ndarray:
    """Return a salient disc that covers about a share of a 200×200 picture."""
    y, x = np.mgrid[0:200, 0:200]
    return np.where(np.hypot(x - 100, y - 100) < 200 * np.sqrt(share / np.pi), 255, 0).astype(np.uint8)


def test_the_mask_grows_by_a_twentieth_and_at_least_four_pixels() -> None:
    parameters = SaliencyTeleaInpainting().parameters()
    for subject, grown in (((90, 110, 90, 110), (86, 113, 86, 113)), ((20, 160, 50, 90), (13, 166, 43, 96))):
        result = np.zeros((200, 200), np.uint8)
        result[subject[0] : subject[1], subject[2] : subject[3]] = 255
        rows, columns = np.nonzero(subject_mask(result, parameters))
        assert (rows.min(), rows.max(), columns.min(), columns.max()) == grown


def test_masks_out_of_bounds_are_empty_and_small_parts_left_out() -> None:
    parameters = SaliencyTeleaInpainting().parameters()
    for share in (0.7, 0.0001, 0):
        assert not subject_mask(disc(share), parameters).any()
    two = disc(0.1)
    two[5:9, 5:9] = 255
    mask = subject_mask(two, parameters)
    assert mask[100, 100]
    assert not mask[7, 7]


@pytest.mark.parametrize(
    "operation", [SaliencyTeleaInpainting(), NamedColourHueShift()], ids=lambda o: o.name
)
def test_settle_refuses_too_few_changed_frames(operation: Any, clip_of: Callable[..., ClipContext]) -> None:
    parameters = operation.parameters()
    assert operation.settle(5, 10, parameters, clip_of(10)) == {"changed_frames": 5, "frames": 10}
    with pytest.raises(ClipNotDegradable, match="4 of 10"):
        operation.settle(4, 10, parameters, clip_of(10))
    assert isinstance(parameters, FoundParameters)
    assert type(operation).settle is FindingOperation.settle, "it settles in one place"


def test_paint_over_is_opencvs_telea_and_leaves_nothing_of_the_subject(photographs: Planes) -> None:
    frame = planes_to_rgb(photographs[:1], ColorSpec())[0]
    mask = np.zeros(frame.shape[:2], np.bool_)
    mask[30:60, 200:280] = True
    parameters = SaliencyTeleaInpainting().parameters(overrides={"reduce": 1})
    expected = cv2.inpaint(frame, mask.astype(np.uint8), 5, cv2.INPAINT_TELEA)
    assert (paint_over(frame, mask, parameters) == expected).all()
    frame = np.full((96, 96, 3), 100, np.uint8)
    frame[31:62, 33:64] = 250
    mask = (frame == 250).all(axis=-1)
    filled = paint_over(frame, mask, SaliencyTeleaInpainting().parameters())
    assert np.abs(filled.astype(int) - 100).max() <= 3  # what Telea itself makes of a flat picture


# color


@pytest.mark.parametrize("new", [name for name in PALETTE if name != "red"])
def test_hue_shift_recolours_the_ball_and_not_the_meadow(new: str, degrade: Callable[..., Planes]) -> None:
    choice = {"object": "ball", "color": "red", "new_color": new}
    after = degrade(NamedColourHueShift(), BALL, None, choice)
    before_lab, after_lab = (rgb_to_lab(planes_to_rgb(planes, ColorSpec())[0]) for planes in (BALL, after))
    ball = pixels_named(before_lab, "red")
    assert pixels_named(after_lab, new)[ball].mean() > 0.8
    assert (split_planes(after).y[0][~ball] == split_planes(BALL).y[0][~ball]).mean() > 0.999
    moved = recolour(before_lab, ball, new)
    assert (moved[~ball] == before_lab[~ball]).all()
    assert new != "blue" or np.corrcoef(before_lab[..., 0][ball], moved[..., 0][ball])[0, 1] > 0.95


def test_a_frame_without_the_colour_stays_as_it_is(degrade: Callable[..., Planes]) -> None:
    choice = {"object": "hat", "color": "purple", "new_color": "white"}
    assert (degrade(NamedColourHueShift(), BALL, None, choice) == BALL).all()
