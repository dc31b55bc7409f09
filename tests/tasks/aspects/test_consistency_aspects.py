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
from storage_schemas.analysis import AgentAction, CaptionAnalysis, ColoredObject, LocatedObject
from storage_schemas.errors import UserInputError
from storage_schemas.frames import ColorSpec, Planes
from tasks.aspects.base import ClipContext, ClipNotDegradable, ClipSpan, FindingOperation, FoundParameters
from tasks.aspects.color import NamedColourHueShift, names_coloured_thing
from tasks.aspects.color_edit import colour_choices
from tasks.aspects.dynamics_degree import MiddleFrame, moves
from tasks.aspects.object_integrity import SaliencyTeleaInpainting, paint_over, subject_mask
from tasks.aspects.spatial_relationship import HorizontalFlip, names_a_side
from tasks.media.color_names import PALETTE, named_colours, pixels_named, recolour, rgb_to_lab
from tasks.media.planes import planes_to_rgb, split_planes

SPAN = ClipSpan(0, 0, 8)
MOTION = CaptionAnalysis(dynamic_degree=(AgentAction(agent="ball", action="rolls"),))
HUMAN = CaptionAnalysis(human_action=(AgentAction(agent="man", action="walks"),))


@pytest.mark.parametrize(("count", "middle"), [(2, 1), (3, 1), (8, 4), (9, 4)])
def test_the_whole_clip_shows_its_middle_frame(count: int, middle: int) -> None:
    operation = MiddleFrame()
    assert operation.frame_map(count, operation.parameters()) == [middle] * count


def test_runs_show_their_own_middle_frames() -> None:
    operation = MiddleFrame()
    assert operation.frame_map(5, operation.parameters("weak")) == [1, 1, 3, 3, 4]
    assert operation.frame_map(6, operation.parameters("medium")) == [2, 2, 2, 2, 5, 5]


def test_a_clip_of_one_frame_or_without_motion_is_not_eligible() -> None:
    assert moves(MOTION, ClipSpan(0, 0, 2))
    assert not moves(MOTION, ClipSpan(0, 0, 1))
    assert not moves(CaptionAnalysis(), SPAN)


def test_human_actions_count_only_where_they_are_asked_for() -> None:
    operation = MiddleFrame()
    paper, wider = operation.parameters(), operation.parameters(overrides={"human_actions": True})
    assert moves(HUMAN, SPAN)
    assert not operation.takes(HUMAN, SPAN, paper)
    assert operation.takes(HUMAN, SPAN, wider)
    assert operation.takes(MOTION, SPAN, paper)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        *(
            (words, True)
            for words in ("left", "upper left", "left-hand side", "to the Right of", "far right")
        ),
        *((words, True) for words in ("leftmost", "rightwards", "bottom-left corner")),
        *((words, False) for words in ("front", "bright corner", "upright", "leftover", "top", "")),
    ],
)
def test_locations_that_say_left_or_right(location: str, expected: bool) -> None:
    where = (LocatedObject(location="top", object="sky"), LocatedObject(location=location, object="tree"))
    assert names_a_side(CaptionAnalysis(spatial_relationship=where), SPAN) is expected


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
    """A salient disc that covers about a share of a 200×200 picture."""
    y, x = np.mgrid[0:200, 0:200]
    return np.where(np.hypot(x - 100, y - 100) < 200 * np.sqrt(share / np.pi), 255, 0).astype(np.uint8)


def test_the_mask_grows_by_a_twentieth_and_at_least_four_pixels() -> None:
    parameters = SaliencyTeleaInpainting().parameters()
    small, large = np.zeros((2, 200, 200), np.uint8)
    small[90:110, 90:110] = 255
    large[20:160, 50:90] = 255
    rows, columns = np.nonzero(subject_mask(small, parameters))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (86, 113, 86, 113)
    rows, columns = np.nonzero(subject_mask(large, parameters))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (13, 166, 43, 96)


def test_masks_out_of_bounds_are_empty_and_small_parts_left_out() -> None:
    parameters = SaliencyTeleaInpainting().parameters()
    assert not subject_mask(disc(0.7), parameters).any()
    assert not subject_mask(np.zeros((200, 200), np.uint8), parameters).any()
    assert not subject_mask(disc(0.0001), parameters).any()
    two = disc(0.1)
    two[5:9, 5:9] = 255
    mask = subject_mask(two, parameters)
    assert mask[100, 100]
    assert not mask[7, 7]


@pytest.mark.parametrize(
    "operation", [SaliencyTeleaInpainting(), NamedColourHueShift()], ids=lambda o: o.name
)
def test_too_few_changed_frames_make_the_clip_not_degradable(
    operation: Any, clip_of: Callable[..., ClipContext]
) -> None:
    parameters = operation.parameters()
    assert operation.settle(5, 10, parameters, clip_of(10)) == {"changed_frames": 5, "frames": 10}
    with pytest.raises(ClipNotDegradable, match="4 of 10"):
        operation.settle(4, 10, parameters, clip_of(10))


def test_what_finds_something_settles_in_one_place() -> None:
    for operation in (SaliencyTeleaInpainting, NamedColourHueShift):
        assert issubclass(operation.parameters_type, FoundParameters)
        assert operation.settle is FindingOperation.settle


def test_at_full_size_the_filling_is_opencvs_telea(photographs: Planes) -> None:
    frame = planes_to_rgb(photographs[:1], ColorSpec())[0]
    mask = np.zeros(frame.shape[:2], np.bool_)
    mask[100:160, 200:280] = True
    parameters = SaliencyTeleaInpainting().parameters(overrides={"reduce": 1})
    expected = cv2.inpaint(frame, mask.astype(np.uint8), 5, cv2.INPAINT_TELEA)
    assert (paint_over(frame, mask, parameters) == expected).all()


def test_nothing_of_the_subject_is_left_in_the_filling() -> None:
    frame = np.full((96, 96, 3), 100, np.uint8)
    frame[31:62, 33:64] = 250
    mask = (frame == 250).all(axis=-1)
    filled = paint_over(frame, mask, SaliencyTeleaInpainting().parameters())
    assert np.abs(filled.astype(int) - 100).max() <= 3  # what Telea itself makes of a flat picture


# color


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("red", {"red"}),
        ("Grey", {"gray"}),
        ("light pinkish", {"pink"}),
        ("reddish-brown", {"red", "brown"}),
        ("bluish", {"blue"}),
        ("purplish", {"purple"}),
        ("dark golden", {"yellow"}),
        ("transparent", set()),
        ("bored greenery", set()),
        ("", set()),
    ],
)
def test_words_name_colours_of_the_palette(words: str, expected: set[str]) -> None:
    assert named_colours(words) == expected


def colors(*pairs: tuple[str, str]) -> CaptionAnalysis:
    return CaptionAnalysis(color=tuple(ColoredObject(color=color, object=thing) for color, thing in pairs))


def test_things_of_two_colours_or_of_none_are_skipped() -> None:
    analysis = colors(
        ("red and white", "flag"), ("blue", "coat"), ("green", "coat"), ("clear", "sky"), ("grey", "cat")
    )
    assert colour_choices(analysis) == [("gray", "cat")]
    hue_shift = NamedColourHueShift()
    assert hue_shift.takes(analysis, SPAN, hue_shift.parameters())
    clear = colors(("clear", "sky"))
    assert not hue_shift.takes(clear, SPAN, hue_shift.parameters())
    assert names_coloured_thing(clear, SPAN)


def test_the_new_colour_is_never_the_old_one(clip_of: Callable[..., ClipContext]) -> None:
    operation = NamedColourHueShift()
    drawn = {
        operation.choose(clip_of(3, colors(("grey", "cat")), index), operation.parameters())["new_color"]
        for index in range(200)
    }
    assert drawn == set(PALETTE) - {"gray"}


def test_the_palette_has_known_colours_and_more_than_one() -> None:
    operation = NamedColourHueShift()
    assert operation.parameters().palette == PALETTE
    assert operation.parameters(overrides={"palette": ["red", "blue"]}).palette == ("red", "blue")
    for palette in ([], ["red"], ["red", "red"], ["red", "teal"]):
        with pytest.raises(UserInputError, match="palette"):
            operation.parameters(overrides={"palette": palette})


def test_a_caption_without_a_colour_is_not_degradable(clip_of: Callable[..., ClipContext]) -> None:
    operation = NamedColourHueShift()
    with pytest.raises(ClipNotDegradable):
        operation.choose(clip_of(3, CaptionAnalysis()), operation.parameters())


@pytest.mark.parametrize("new", [name for name in PALETTE if name != "red"])
def test_the_red_ball_becomes_another_colour_and_the_meadow_stays(
    new: str, degrade: Callable[..., Planes]
) -> None:
    clip = synthetic_clip(1)
    choice = {"object": "ball", "color": "red", "new_color": new}
    after = degrade(NamedColourHueShift(), clip, None, choice)
    lab_before = rgb_to_lab(planes_to_rgb(clip, ColorSpec())[0])
    lab_after = rgb_to_lab(planes_to_rgb(after, ColorSpec())[0])
    ball = pixels_named(lab_before, "red")
    assert pixels_named(lab_after, new)[ball].mean() > 0.8
    assert (split_planes(after).y[0][~ball] == split_planes(clip).y[0][~ball]).mean() > 0.999


def test_recolouring_keeps_the_shading() -> None:
    lab = rgb_to_lab(planes_to_rgb(synthetic_clip(1), ColorSpec())[0])
    ball = pixels_named(lab, "red")
    moved = recolour(lab, ball, "blue")
    assert np.corrcoef(lab[..., 0][ball], moved[..., 0][ball])[0, 1] > 0.95
    assert (moved[~ball] == lab[~ball]).all()


def test_a_frame_without_the_colour_stays_as_it_is(degrade: Callable[..., Planes]) -> None:
    clip = synthetic_clip(1)
    choice = {"object": "hat", "color": "purple", "new_color": "white"}
    assert (degrade(NamedColourHueShift(), clip, None, choice) == clip).all()
