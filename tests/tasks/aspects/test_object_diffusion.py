"""A thing found by its name and painted over: what is tried, changed, recorded and dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slvmeval.testing import FULL_ANALYSIS, check_aspect, synthetic_clip
from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import ColorSpec, Planes
from tasks.aspects.base import ClipContext, ClipNotDegradable
from tasks.aspects.object_diffusion import ErasingParameters, GroundedInpainting, boxes_mask, things
from tasks.aspects.object_integrity import ASPECT
from tasks.media.planes import planes_to_rgb, rgb_to_planes, split_planes
from tests.tasks.aspects.planted import (
    ColourDetector,
    FixedDetector,
    GreyNoise,
    PlantedModels,
    Unable,
    planted,
)

OPERATION = GroundedInpainting()
BALL = CaptionAnalysis(subject=("ball",), background=("sky",), scene=("meadow", "a ball game"))


@pytest.fixture
def clip(clip_of: Callable[..., ClipContext]) -> Callable[..., ClipContext]:
    """Makes the context of the clip with the red ball, or of other planes."""

    def make(
        models: PlantedModels, analysis: CaptionAnalysis = BALL, planes: Planes | None = None
    ) -> ClipContext:
        shown = synthetic_clip() if planes is None else planes
        return clip_of(len(shown), analysis, models=models, planes=shown)

    return make


def run(clip: ClipContext, **overrides: Any) -> tuple[Planes, dict[str, Any], dict[str, Any]]:
    """Return the degraded planes, the choice, and what was settled, as the build makes them."""
    parameters = OPERATION.parameters(overrides=overrides)
    before = clip.read(0, clip.span.frame_count)
    choice = OPERATION.choose(clip, parameters)
    after = OPERATION.apply(before, 0, clip, parameters, choice)
    changed = sum(bool((one != other).any()) for one, other in zip(before, after, strict=True))
    return after, choice, OPERATION.settle(changed, len(before), parameters, clip)


def grey(height: int, width: int, frames: int = 2) -> Planes:
    """Planes of a picture in which there is nothing."""
    return np.full((frames, height * 3 // 2, width), 128, np.uint8)


def test_the_aspect_conforms_with_planted_models() -> None:
    models = planted(ColourDetector(), GreyNoise())
    only = {OPERATION.name: OPERATION}
    check_aspect(type(ASPECT)(**{**vars(ASPECT), "operations": only}), models=models, analysis=FULL_ANALYSIS)


def test_the_thing_is_gone_and_outside_of_its_boxes_nothing_changes(clip: Callable[..., ClipContext]) -> None:
    context = clip(planted(ColourDetector(), GreyNoise()))
    after, choice, settled = run(context)
    before = synthetic_clip()
    assert choice["object"] == "ball"
    assert choice["not_found"] == []
    for place in range(3):
        (box,) = choice["boxes"][place]
        mask = boxes_mask([box], 288, 512)
        old, new = split_planes(before[place]), split_planes(after[place])
        assert (old.y[~mask] == new.y[~mask]).all()
        assert np.abs(old.y[mask].astype(int) - new.y[mask]).mean() > 5
        was, now = planes_to_rgb(np.stack([before[place], after[place]]), ColorSpec())
        assert (was[~mask] == now[~mask]).all()
    assert not any(ColourDetector().find(planes_to_rgb(after, ColorSpec()), "ball", 0.4, 0.3))
    assert settled == {"changed_frames": 3, "frames": 3, "gone": 1.0}
    assert context.log.measured == {"gone": [1, 1, 1], "found_again_score": [0, 0, 0]}


def test_a_detector_that_still_sees_the_thing_is_recorded_and_decides_only_where_asked(
    clip: Callable[..., ClipContext],
) -> None:
    context = clip(planted(ColourDetector(), Unable()))
    _, _, settled = run(context)
    assert settled["gone"] == 0.0
    assert settled["changed_frames"] == 3
    assert context.log.measured["found_again_score"] == [0.8] * 3
    with pytest.raises(ClipNotDegradable, match="still finds the thing in 3 of 3 frames"):
        run(clip(planted(ColourDetector(), Unable())), least_gone=0.5)
    assert run(clip(planted(ColourDetector(), GreyNoise())), least_gone=1)[2]["gone"] == 1.0


def test_a_second_thing_elsewhere_does_not_count_as_still_there(clip: Callable[..., ClipContext]) -> None:
    class Elsewhere(FixedDetector):
        """Finds the thing on the left first, then something on the right."""

        def find(self, rgb: Planes, *args: Any, **kwargs: Any) -> Any:
            result = super().find(rgb, *args, **kwargs)
            self.boxes = [self.boxes[0].model_copy(update={"left": 300.0, "right": 380.0})]
            return result

    _, _, settled = run(clip(planted(Elsewhere((20, 20, 90, 90)), GreyNoise())))
    assert settled["gone"] == 1.0


def test_what_is_not_found_is_passed_over_and_recorded(clip_of: Callable[..., ClipContext]) -> None:
    analysis = CaptionAnalysis(subject=("unicorn", "ball", "dragon"))
    orders = set()
    for index in range(12):
        context = clip_of(
            3, analysis, index=index, models=planted(ColourDetector(), GreyNoise()), planes=synthetic_clip()
        )
        choice = OPERATION.choose(context, OPERATION.parameters())
        assert choice["object"] == "ball"
        assert set(choice["not_found"]) <= {"unicorn", "dragon"}
        assert OPERATION.choose(context, OPERATION.parameters()) == choice
        orders.add(tuple(choice["not_found"]))
    assert len(orders) > 2  # the order is drawn for each clip


def test_a_clip_in_which_nothing_is_found_is_not_degradable(clip: Callable[..., ClipContext]) -> None:
    models = planted(ColourDetector(), GreyNoise())
    with pytest.raises(ClipNotDegradable, match=r"nothing of the caption.*'unicorn'"):
        run(clip(models, CaptionAnalysis(subject=("unicorn", "dragon"))))
    with pytest.raises(ClipNotDegradable, match="names no thing"):
        run(clip(models, CaptionAnalysis(subject=(" ",))))
    assert models.get("stable-diffusion-inpainting").calls == []


def test_frames_without_the_thing_stay_as_they_are_and_are_not_painted(
    clip: Callable[..., ClipContext],
) -> None:
    inpainter = GreyNoise()
    planes = np.concatenate([grey(288, 512), synthetic_clip(2), grey(288, 512, 1)])
    after, choice, settled = run(clip(planted(ColourDetector(), inpainter), planes=planes))
    assert [bool(boxes) for boxes in choice["boxes"]] == [False, False, True, True, False]
    assert (after[[0, 1, 4]] == planes[[0, 1, 4]]).all()
    assert (after[2:4] != planes[2:4]).any()
    assert settled == {"changed_frames": 2, "frames": 5, "gone": 1.0}
    assert [call["count"] for call in inpainter.calls] == [2]


def test_one_frame_is_enough_in_the_paper_and_a_share_may_be_asked_for(
    clip: Callable[..., ClipContext],
) -> None:
    planes = np.concatenate([grey(288, 512, 3), synthetic_clip(2)[:1]])
    models = planted(ColourDetector(), GreyNoise())
    assert run(clip(models, planes=planes))[2]["changed_frames"] == 1
    with pytest.raises(ClipNotDegradable, match="in enough frames"):
        run(clip(models, planes=planes), least_frames=0.5)


def test_what_is_found_in_too_few_frames_gives_way_to_another_thing(
    clip_of: Callable[..., ClipContext],
) -> None:
    pictures = np.full((4, 64, 96, 3), 120, np.uint8)
    pictures[:, :20, :, 2] = 255
    pictures[0, 30:50, 30:50, 0] = 255
    planes, models = rgb_to_planes(pictures, ColorSpec()), planted(ColourDetector(), GreyNoise())
    result: dict[float, set[str]] = {0: set(), 0.5: set()}
    for index in range(8):
        context = clip_of(4, CaptionAnalysis(subject=("ball", "sea")), index, models=models, planes=planes)
        for share, names in result.items():
            names.add(run(context, least_frames=share)[1]["object"])
    assert result == {0: {"ball", "sea"}, 0.5: {"sea"}}


@pytest.mark.parametrize("size", [(288, 512), (12, 20), (284, 508), (4, 512)])
def test_boxes_at_the_border_of_the_whole_picture_and_of_odd_sizes(
    size: tuple[int, int], clip: Callable[..., ClipContext]
) -> None:
    height, width = size
    boxes = [
        (0.0, 0.0, 3.0, 3.0),
        (width - 2.5, height - 2.5, width + 9.0, height + 9.0),
        (-5.0, -5.0, width + 5.0, height + 5.0),
    ]
    for box in boxes:
        planes = grey(*size)
        after, choice, _ = run(clip(planted(FixedDetector(box), GreyNoise()), planes=planes))
        left, top, right, bottom = choice["boxes"][0][0]
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        assert all(isinstance(edge, int) for edge in (left, top, right, bottom))
        mask = boxes_mask([choice["boxes"][0][0]], height, width)
        assert (split_planes(after).y[:, ~mask] == 128).all()
        assert (split_planes(after).y[:, mask] != 128).mean() > 0.5


def test_boxes_that_lie_outside_or_have_no_area_are_none(clip: Callable[..., ClipContext]) -> None:
    detector = FixedDetector((600, 0, 700, 50), (10, 10, 10, 40), (0, -40, 50, -2))
    with pytest.raises(ClipNotDegradable):
        run(clip(planted(detector, GreyNoise())))


def test_a_frame_that_would_be_painted_over_entirely_may_be_left_as_it_is(
    clip: Callable[..., ClipContext],
) -> None:
    whole = FixedDetector((0, 0, 512, 288))
    assert run(clip(planted(whole, GreyNoise())))[2]["changed_frames"] == 3
    with pytest.raises(ClipNotDegradable):
        run(clip(planted(whole, GreyNoise())), most_share=0.9)


def test_the_prompt_tells_of_the_place_without_the_thing(clip: Callable[..., ClipContext]) -> None:
    inpainter = GreyNoise()
    _, choice, _ = run(
        clip(planted(ColourDetector(), inpainter)), prompt="view of {scene}", no_scene="nowhere"
    )
    assert choice["prompt"] == "view of sky, meadow"
    assert choice["negative"] == "ball"
    assert inpainter.calls[0]["prompt"] == choice["prompt"]
    assert inpainter.calls[0]["negative"] == "ball"
    only_balls = CaptionAnalysis(subject=("ball",), scene=("a ball game",))
    _, choice, _ = run(
        clip(planted(ColourDetector(), inpainter), only_balls), prompt="view of {scene}", no_scene="nowhere"
    )
    assert choice["prompt"] == "view of nowhere"


def test_words_of_a_caption_are_no_placeholders(clip: Callable[..., ClipContext]) -> None:
    analysis = CaptionAnalysis(subject=("ball",), scene=("a {object} {0} place",))
    _, choice, _ = run(clip(planted(ColourDetector(), GreyNoise()), analysis))
    assert "a {object} {0} place" in choice["prompt"]


def test_what_a_model_does_not_read_of_a_prompt_is_noted(clip: Callable[..., ClipContext]) -> None:
    context = clip(planted(ColourDetector(), GreyNoise(words=3)))
    _, choice, _ = run(context, prompt="one two three four {scene}")
    assert choice["prompt"] == "one two three four sky, meadow"
    assert context.log.facts["prompts_read"] == ["one two three", "ball"]
    context = clip(planted(ColourDetector(), GreyNoise()))
    run(context)
    assert "prompts_read" not in context.log.facts


def test_each_frame_has_a_seed_of_its_own_whatever_the_batches(clip: Callable[..., ClipContext]) -> None:
    one, two = GreyNoise(), GreyNoise()
    after, _, _ = run(clip(planted(ColourDetector(), one)), batch=16)
    again, _, _ = run(clip(planted(ColourDetector(), two)), batch=2)
    assert (after == again).all()
    assert [call["count"] for call in one.calls] == [3]
    assert [call["count"] for call in two.calls] == [2, 1]
    seeds = one.calls[0]["seeds"]
    assert seeds == two.calls[0]["seeds"] + two.calls[1]["seeds"]
    assert len(set(seeds)) == 3


def test_out_of_memory_halves_the_batch_for_good_and_the_provenance_says_so(
    clip: Callable[..., ClipContext],
) -> None:
    detector, inpainter = ColourDetector(most=3), GreyNoise(most=2)
    models = planted(detector, inpainter)
    planes = np.concatenate([synthetic_clip(5), synthetic_clip(3)])
    context = clip(models, planes=planes)
    after, _, settled = run(context, batch=8, detector_batch=8)
    assert settled["changed_frames"] == 8
    plain, _, _ = run(clip(planted(ColourDetector(), GreyNoise()), planes=planes))
    assert (after == plain).all()
    assert context.log.facts["inpainter"] == {"device": "cpu", "dtype": "float32", "batch_sizes": [2]}
    assert context.log.facts["detector"] == {"batch_sizes": [2]}
    inpainter.calls.clear()
    run(clip(models, planes=planes), batch=8, detector_batch=8)
    assert [call["count"] for call in inpainter.calls] == [2, 2, 2, 2]
    with pytest.raises(PrerequisiteError, match="a single picture"):
        run(clip(planted(ColourDetector(), GreyNoise(most=0))))


def test_models_are_asked_for_by_their_names_with_the_recipes_options(
    clip: Callable[..., ClipContext],
) -> None:
    models = PlantedModels(mine=ColourDetector(), yours=GreyNoise())
    overrides = {"detector": "mine", "inpainter": "yours", "dtype": "float32", "compile": True}
    run(clip(models), **overrides)
    assert models.options == {"mine": {}, "yours": {"dtype": "float32", "compile": True}}
    consumed = OPERATION.consumed_models(OPERATION.parameters(overrides=overrides), models)
    assert consumed == {"mine": "planted detector", "yours": "planted inpainter"}


def test_the_papers_values_are_the_defaults() -> None:
    values = OPERATION.parameters("paper")
    assert values == ErasingParameters()
    assert (values.box_threshold, values.text_threshold) == (0.4, 0.3)
    assert (values.steps, values.guidance) == (50, 7.5)
    assert (values.grow, values.grow_px, values.least_gone, values.least_frames) == (0.05, 4, 0, 0)
    assert OPERATION.pool == "h100"


def test_things_come_once_and_without_blanks() -> None:
    analysis = CaptionAnalysis(subject=("a  dog", "", "  ", "a dog", "Boot", "犬"))
    assert things(analysis) == ("a dog", "Boot", "犬")
    assert OPERATION.consumed_analysis(BALL) == {
        "subject": ["ball"],
        "background": ["sky"],
        "scene": ["meadow", "a ball game"],
    }
