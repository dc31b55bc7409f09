"""A thing found by its name and painted over: what is tried, changed, recorded and dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slvmeval.testing import check_aspect, synthetic_clip
from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.frames import ColorSpec, Planes
from tasks.aspects.base import ClipContext, ClipNotDegradable
from tasks.aspects.object_diffusion import (
    ErasingParameters,
    GroundedInpainting,
    boxes_mask,
    scene_without,
    share_a_word,
    things,
)
from tasks.aspects.object_integrity import ASPECT
from tasks.llm.prompt_files import checked_template, filled
from tasks.media.planes import planes_to_rgb, rgb_to_planes, split_planes
from tests.once import Once
from tests.tasks.aspects.planted import (
    ColourDetector,
    FixedDetector,
    GreyNoise,
    PlantedModels,
    Unable,
    planted,
)

OPERATION = GroundedInpainting()
ONLY = replace(ASPECT, control=None, operations={OPERATION.name: OPERATION})
CLIP = synthetic_clip(3, 72, 128)
BALL = CaptionAnalysis(subject=("ball",), background=("sky",), scene=("meadow", "a ball game"))


@pytest.fixture
def clip(clip_of: Callable[..., ClipContext]) -> Callable[..., ClipContext]:
    """Makes the context of the clip with the red ball, or of other planes."""

    def make(models: PlantedModels, analysis: CaptionAnalysis = BALL, planes: Planes = CLIP) -> ClipContext:
        return clip_of(len(planes), analysis, models=models, planes=planes)

    return make


def run(clip: ClipContext, **overrides: Any) -> tuple[Planes, dict[str, Any], dict[str, Any]]:
    """Return the degraded planes, the choice, and what was settled, as the build makes them."""
    parameters = OPERATION.parameters(overrides=overrides)
    before = clip.read(0, clip.span.frame_count)
    choice = OPERATION.choose(clip, parameters)
    after = OPERATION.apply(before, 0, clip, parameters, choice)
    changed = sum(bool((one != other).any()) for one, other in zip(before, after, strict=True))
    return after, choice, OPERATION.settle(changed, len(before), parameters, clip)


def grey(height: int = 72, width: int = 128, frames: int = 2) -> Planes:
    """Planes of a picture in which there is nothing."""
    return np.full((frames, height * 3 // 2, width), 128, np.uint8)


def test_the_aspect_conforms_with_planted_models() -> None:
    models = planted(ColourDetector(), GreyNoise())
    check_aspect(ONLY, models=models, clip=synthetic_clip(3, 64, 96))


def test_the_thing_is_gone_and_outside_of_its_boxes_nothing_changes(clip: Callable[..., ClipContext]) -> None:
    context = clip(planted(ColourDetector(), GreyNoise()))
    after, choice, settled = run(context)
    assert choice["object"] == "ball"
    assert choice["not_found"] == []
    for place in range(3):
        (box,) = choice["boxes"][place]
        mask = boxes_mask([box], 72, 128)
        old, new = split_planes(CLIP[place]), split_planes(after[place])
        assert (old.y[~mask] == new.y[~mask]).all()
        assert np.abs(old.y[mask].astype(int) - new.y[mask]).mean() > 5
        was, now = planes_to_rgb(np.stack([CLIP[place], after[place]]), ColorSpec())
        assert (was[~mask] == now[~mask]).all()
    assert not any(ColourDetector().find(planes_to_rgb(after, ColorSpec()), "ball", 0.4, 0.3))
    assert settled == {"changed_frames": 3, "frames": 3, "gone": 1.0}
    assert context.log.measured == {"gone": [1, 1, 1], "found_again_score": [0, 0, 0]}


def test_settle_records_what_is_still_seen_and_refuses_where_asked(clip: Callable[..., ClipContext]) -> None:
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
            self.boxes = [self.boxes[0].model_copy(update={"left": 75.0, "right": 95.0})]
            return result

    _, _, settled = run(clip(planted(Elsewhere((5, 5, 22, 22)), GreyNoise())))
    assert settled["gone"] == 1.0


def test_what_is_not_found_is_passed_over_and_recorded(clip_of: Callable[..., ClipContext]) -> None:
    analysis = CaptionAnalysis(subject=("unicorn", "ball", "dragon"))
    orders, models = set(), planted(ColourDetector(), GreyNoise())
    for index in range(12):
        context = clip_of(3, analysis, index=index, models=models, planes=CLIP)
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


def test_apply_leaves_frames_without_the_thing_as_they_are(clip: Callable[..., ClipContext]) -> None:
    inpainter = GreyNoise()
    planes = np.concatenate([grey(), CLIP[:2], grey(frames=1)])
    after, choice, settled = run(clip(planted(ColourDetector(), inpainter), planes=planes))
    assert [bool(boxes) for boxes in choice["boxes"]] == [False, False, True, True, False]
    assert (after[[0, 1, 4]] == planes[[0, 1, 4]]).all()
    assert (after[2:4] != planes[2:4]).any()
    assert settled == {"changed_frames": 2, "frames": 5, "gone": 1.0}
    assert [call["count"] for call in inpainter.calls] == [2]


def test_settle_needs_one_frame_or_the_share_that_is_asked_for(clip: Callable[..., ClipContext]) -> None:
    planes = np.concatenate([grey(frames=3), CLIP[:1]])
    models = planted(ColourDetector(), GreyNoise())
    assert run(clip(models, planes=planes))[2]["changed_frames"] == 1
    with pytest.raises(ClipNotDegradable, match="in enough frames"):
        run(clip(models, planes=planes), least_frames=0.5)


def test_choose_passes_over_what_is_in_too_few_frames(clip_of: Callable[..., ClipContext]) -> None:
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


@pytest.mark.parametrize("size", [(72, 128), (12, 20), (68, 124), (4, 512)])
def test_boxes_at_borders_and_of_odd_sizes(size: tuple[int, int], clip: Callable[..., ClipContext]) -> None:
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


def test_apply_may_leave_a_frame_that_would_be_painted_over(clip: Callable[..., ClipContext]) -> None:
    whole = FixedDetector((0, 0, 128, 72))
    assert run(clip(planted(whole, GreyNoise())))[2]["changed_frames"] == 3
    with pytest.raises(ClipNotDegradable):
        run(clip(planted(whole, GreyNoise())), most_share=0.9)


def test_the_prompt_tells_of_the_place_without_the_thing(clip: Callable[..., ClipContext]) -> None:
    inpainter = GreyNoise()
    told = {"prompt": "view of {scene}", "no_scene": "nowhere"}
    _, choice, _ = run(clip(planted(ColourDetector(), inpainter)), **told)
    assert (choice["prompt"], choice["negative"]) == ("view of sky, meadow", "ball")
    assert inpainter.calls[0].items() >= {"prompt": "view of sky, meadow", "negative": "ball"}.items()
    # words of a caption are not placeholders
    for scene, place in (("a ball game", "nowhere"), ("a {object} {0} place",) * 2):
        analysis = CaptionAnalysis(subject=("ball",), scene=(scene,))
        _, choice, _ = run(clip(planted(ColourDetector(), inpainter), analysis), **told)
        assert choice["prompt"] == f"view of {place}"


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


def test_batch_is_halved_for_good_where_memory_runs_out(clip: Callable[..., ClipContext]) -> None:
    detector, inpainter = ColourDetector(most=3), GreyNoise(most=2)
    models = planted(detector, inpainter)
    planes = np.concatenate([CLIP, CLIP, CLIP[:2]])
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


def test_models_are_asked_for_with_the_recipes_options(clip: Callable[..., ClipContext]) -> None:
    models = PlantedModels(mine=ColourDetector(), yours=GreyNoise())
    overrides = {"detector": "mine", "inpainter": "yours", "dtype": "float32", "compile": True}
    run(clip(models), **overrides)
    assert models.options == {"mine": {}, "yours": {"dtype": "float32", "compile": True}}
    consumed = OPERATION.consumed_models(OPERATION.parameters(overrides=overrides), models)
    assert consumed == {"mine": "planted detector", "yours": "planted inpainter"}


def test_the_papers_values_are_the_defaults() -> None:
    values = OPERATION.parameters("paper")
    assert values == ErasingParameters()
    papers = {"box_threshold": 0.4, "text_threshold": 0.3, "steps": 50, "guidance": 7.5}
    papers |= {"grow": 0.05, "grow_px": 4, "least_gone": 0, "least_frames": 0}
    assert values.model_dump().items() >= papers.items()
    assert OPERATION.hardware == "gpu"


def test_things_come_once_and_without_blanks() -> None:
    analysis = CaptionAnalysis(subject=("a  dog", "", "  ", "a dog", "Boot", "犬"))
    assert things(analysis) == ("a dog", "Boot", "犬")
    assert OPERATION.consumed_analysis(BALL) == {
        "subject": ["ball"],
        "background": ["sky"],
        "scene": ["meadow", "a ball game"],
    }


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("prompt", "an empty place", r"the placeholder \{scene\} is missing"),
        ("prompt", "{scene} and {colour}", r"the placeholder \{colour\} is unknown"),
        ("prompt", "{scene.__class__}", r"the placeholder \{scene\} is missing"),
        ("prompt", "{scene!r}", r"the placeholder \{scene\} is missing"),
        ("prompt", "{{x}} {scene}", r"the placeholder \{x\} is unknown"),
        ("negative", "ugly", r"the placeholder \{object\} is missing"),
    ],
)
def test_a_wrong_template_is_refused_with_what_is_wrong(field: str, text: str, message: str) -> None:
    with pytest.raises(UserInputError, match=message) as raised:
        OPERATION.parameters(overrides={field: text})
    assert field in str(raised.value)


def test_other_braces_are_text() -> None:
    for text in ('{"x": 1} {scene}', "{scene} {", "{scene} {}"):
        assert OPERATION.parameters(overrides={"prompt": text}).prompt == text


def test_what_is_filled_in_is_not_a_template_itself() -> None:
    template = checked_template("{object} in {scene}", ["scene"], ["object"])
    assert filled(template, object="{scene}", scene="{0} %s") == "{scene} in {0} %s"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a red car", "The cars", True),
        ("houses by the sea", "a house", True),
        ("rows of churches", "church", True),
        ("two men", "the man's hat", True),
        ("berries", "a berry bush", True),
        ("a buS stop", "buses", True),
        ("the lake of glass", "a horse in the field", False),
        ("on the left", "the dog on a rug", False),
        ("a man's coat", "a dog's tail", False),
        ("the", "the", False),
        ("", "dog", False),
        ("carpet", "car", False),
        ("犬の公園", "犬", True),
        ("公園", "犬", False),
        ("собака в парке", "Собака", True),
    ],
)
def test_phrases_that_speak_of_the_same_thing(one: str, other: str, expected: bool) -> None:
    assert share_a_word(one, other) is expected
    assert share_a_word(other, one) is expected


def test_the_scene_has_each_phrase_once_and_none_of_the_thing_or_of_other_things() -> None:
    analysis = CaptionAnalysis(
        subject=("dog", "cat"),
        background=("a  park", "trees", "dogs playing"),
        scene=("A park", "", "city at night"),
    )
    assert scene_without(analysis, "the dog") == ("a park", "trees", "city at night")
    assert scene_without(analysis, "park trees") == ("dogs playing", "city at night")
    assert scene_without(CaptionAnalysis(), "dog") == ()


@pytest.fixture(scope="module")
def tiny(once: Once) -> PlantedModels:
    """Checkpoints of the real classes with random weights, which erase nothing."""
    from tasks.models import grounding_dino, stable_diffusion
    from tests.tiny_models.detector import tiny_detector
    from tests.tiny_models.inpainter import tiny_inpainter

    detector: Any = grounding_dino.load(once("tiny-detector", tiny_detector), "cpu")
    inpainter: Any = stable_diffusion.load(once("tiny-inpainter", tiny_inpainter), "cpu", dtype="float32")
    detector.checksum, inpainter.checksum = "tiny detector", "tiny inpainter"
    return planted(detector, inpainter)


@pytest.mark.models
def test_the_operation_conforms_on_checkpoints_of_the_real_classes(tiny: PlantedModels) -> None:
    # one picture at a time: larger batches differ in the last digit
    few = {OPERATION.name: {"steps": 2, "batch": 1, "detector_batch": 1}}
    check_aspect(ONLY, models=tiny, overrides=few, clip=synthetic_clip(3, 36, 64))


@pytest.mark.models
def test_batches_give_what_single_frames_do(tiny: PlantedModels, clip_of: Callable[..., ClipContext]) -> None:
    planes = synthetic_clip(5, 64, 96)
    after = []
    for batch in (4, 1):
        context = clip_of(5, CaptionAnalysis(subject=("ball",)), models=tiny, planes=planes)
        parameters = OPERATION.parameters(overrides={"steps": 2, "batch": batch})
        choice = OPERATION.choose(context, parameters)
        after.append(OPERATION.apply(planes, 0, context, parameters, choice).astype(int))
        assert context.log.facts["inpainter"]["batch_sizes"] == ([4, 1] if batch == 4 else [1])
        assert context.log.facts["detector"] == {"device": "cpu", "dtype": "float32", "batch_sizes": [5]}
        assert len(context.log.measured["gone"]) == 5
    assert np.abs(after[0] - after[1]).max() <= 2 < np.abs(after[0] - planes).max()
