"""The paper's operation for color, with planted editors: what it asks for, measures, records and refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slvmeval.testing import check_aspect, synthetic_clip
from storage_schemas.analysis import CaptionAnalysis, ColoredObject
from storage_schemas.errors import PrerequisiteError, Reason, UserInputError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.store import DEGRADED_CLIP
from tasks.aspects.base import ClipContext, ClipNotDegradable
from tasks.aspects.color import ASPECT
from tasks.aspects.color_edit import QwenImageEdit, mixed
from tasks.media.planes import planes_to_rgb, split_planes
from tasks.models.hub import ModelHub
from tasks.pairs.degrade import degrade_source, read_pair
from tasks.pairs.draw import source_jobs
from tasks.recipe import AspectRecipe, Recipe
from tests.once import Once
from tests.tasks.aspects.planted import PlantedModels
from tests.tasks.aspects.planted_editors import PAINT, Blank, Brighter, Full, Idle, Inverted, Patch
from tests.tasks.pairs.synthetic import HEIGHT, WIDTH, Made, make_source
from tests.tiny_models.image_editor import see_small_references
from tests.tiny_models.paper_site import tiny_models

EDIT = QwenImageEdit()
TOLD = {"object": "ball", "color": "red", "new_color": "blue", "instruction": "Make the ball blue."}
RED_BALL = CaptionAnalysis(color=(ColoredObject(color="red", object="ball"),))


def models_with(editor: Idle) -> PlantedModels:
    return PlantedModels(qwen_image_edit_2509=editor)


@pytest.fixture
def edited(clip_of: Callable[..., ClipContext]) -> Callable[..., tuple[Planes, ClipContext]]:
    """Edits RGB frames, and gives them back with the clip that knows what was measured."""

    def run(
        editor: Idle, frames: Planes, strength: str | None = None, **overrides: Any
    ) -> tuple[Planes, ClipContext]:
        clip = clip_of(len(frames), models=models_with(editor))
        return EDIT.apply(frames, 0, clip, EDIT.parameters(strength, overrides), TOLD), clip

    return run


@pytest.fixture(scope="module")
def frames() -> Planes:
    """Three RGB frames of 72×128 px in the middle of the range."""
    return (planes_to_rgb(synthetic_clip(3, 72, 128), ColorSpec()) // 2 + 60).astype(np.uint8)


def test_paper_is_the_papers(frames: Planes, edited: Callable[..., tuple[Planes, ClipContext]]) -> None:
    defaults = {"steps": 40, "guidance": 4.0, "dtype": "bfloat16", "step_cache": 0}
    defaults |= {"editor": "qwen-image-edit-2509", "most_rest_shift": 255}
    assert EDIT.parameters().model_dump().items() >= defaults.items()
    assert (EDIT.hardware, EDIT.works_on, next(iter(ASPECT.operations))) == ("gpu", "rgb", EDIT.name)
    editor = Patch()
    edited(editor, frames)
    assert len(editor.calls) == 3
    assert {(c["steps"], c["guidance"], c["negative"], c["instruction"]) for c in editor.calls} == {
        (40, 4.0, "", "Make the ball blue.")
    }


def test_seeds_depend_on_a_frames_place_alone(frames: Planes, clip_of: Callable[..., ClipContext]) -> None:
    def seeds(index: int, source: str, *starts: int) -> list[int]:
        editor = Idle()
        clip = clip_of(3, index=index, source=source, models=models_with(editor))
        for start, stop in zip(starts, (*starts[1:], 3), strict=True):
            EDIT.apply(frames[start:stop], start, clip, EDIT.parameters(), TOLD)
        return [call["seed"] for call in editor.calls]

    whole = seeds(0, "s", 0)
    assert len(set(whole)) == 3
    assert all(0 <= seed < 2**63 for seed in whole)
    assert seeds(0, "s", 0, 1, 2) == whole
    assert not set(whole) & {*seeds(1, "s", 0), *seeds(0, "t", 0)}


def test_the_editor_is_loaded_as_the_recipe_says(clip_of: Callable[..., ClipContext]) -> None:
    models = PlantedModels(mine=Patch())
    clip = clip_of(1, models=models)
    overrides = {"editor": "mine", "dtype": "float32"}
    parameters = EDIT.parameters("lightning", overrides)
    EDIT.apply(np.full((1, 32, 32, 3), 90, np.uint8), 0, clip, parameters, TOLD)
    assert models.options == {"mine": {"dtype": "float32", "step_cache": 0.1}}
    assert EDIT.consumed_models(parameters, models) == {"mine": "planted editor"}
    assert clip.log.facts == {"image_editor": {"device": "cpu", "dtype": "float32", "step_cache": 0.1}}


def test_the_instruction_names_thing_and_colour(clip_of: Callable[..., ClipContext]) -> None:
    odd = CaptionAnalysis(color=(ColoredObject(color="red", object="big\n  {ball} " + "x" * 500),))
    choice = EDIT.choose(clip_of(1, odd), EDIT.parameters())
    told = choice["instruction"]
    assert "big {ball} xxx" in told
    assert choice["new_color"] in told
    assert len(told) < 500
    assert "\n" not in told
    own = EDIT.parameters(overrides={"instruction": '{color} for {object}, {"please"}'})
    choice = EDIT.choose(clip_of(1, RED_BALL), own)
    assert choice["instruction"] == f'{choice["new_color"]} for ball, {{"please"}}'


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("instruction", "Make it {color}.", "{object} is missing"),
        ("instruction", "Paint the {object}.", "{color} is missing"),
        ("instruction", "{object} {color} {size}", "{size} is unknown"),
        ("instruction", "{object.__class__} {color}", "{object} is missing"),
        ("instruction", "{object!r} {color}", "{object} is missing"),
        ("instruction", "{object} {color", "{color} is missing"),
        ("instruction", "", "is missing"),
        ("steps", 1, ""),
        ("guidance", 0.5, ""),
        ("dtype", "float16", ""),
        ("step_cache", 1.0, ""),
        ("step_cache", float("nan"), ""),
        ("palette", ["red"], ""),
        ("least_changed", 1.1, ""),
        ("most_rest_shift", 255.5, ""),
        ("amount", 0, ""),
        ("editor", "", ""),
    ],
)
def test_values_that_cannot_be_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(UserInputError, match=name) as problem:
        EDIT.parameters(overrides={name: value})
    assert message in str(problem.value)


def test_patch_is_measured_exactly(frames: Planes, edited: Callable[..., tuple[Planes, ClipContext]]) -> None:
    before = np.full_like(frames, 200)
    after, clip = edited(Patch(), before)
    assert (after[:, 36, 64] == PAINT["blue"]).all()
    assert (after[:, 0] == 200).all()
    assert clip.log.measured["changed_share"] == [0.25] * 3
    assert clip.log.measured["rest_shift"] == [0.0] * 3
    assert EDIT.settle(3, 3, EDIT.parameters(), clip) == {"changed_frames": 3, "frames": 3}


def test_half_an_edit_is_halfway(frames: Planes, edited: Callable[..., tuple[Planes, ClipContext]]) -> None:
    whole, _ = edited(Inverted(), frames)
    half, _ = edited(Inverted(), frames, amount=0.5)
    assert (np.abs(half.astype(int) * 2 - frames - whole.astype(int)) <= 1).all()
    assert (mixed(frames, whole, 1.0) == whole).all()


@pytest.mark.parametrize(
    ("editor", "bounds", "message"),
    [
        (Idle, {"least_changed": 0.1}, "changed a colour in 0 of 3 frames"),
        (Brighter, {"least_changed": 0.1}, "changed a colour in 0 of 3 frames"),
        (Brighter, {"most_rest_shift": 11}, "rest of a frame moved by 12.00 steps"),
        (Inverted, {"most_changed_share": 0.9}, "changed .* of a frame; the maximum is 90%"),
        (Blank, {"least_edges_kept": 0.5}, "outlines correlate by 0.00"),
    ],
)
def test_what_is_out_of_bounds_is_refused_where_bounds_are_set_and_kept_in_paper(
    editor: type[Idle], bounds: dict[str, float], message: str, clip_of: Callable[..., ClipContext]
) -> None:
    # each pixel far from grey, so that its opposite is another colour
    before = np.random.default_rng(0).integers(0, 40, (3, 64, 64, 3), dtype=np.uint8)
    clip = clip_of(3, models=models_with(editor()))
    EDIT.apply(before, 0, clip, EDIT.parameters(), TOLD)
    assert EDIT.settle(3, 3, EDIT.parameters(), clip)["frames"] == 3
    with pytest.raises(ClipNotDegradable, match=message):
        EDIT.settle(3, 3, EDIT.parameters(overrides=bounds), clip)


def test_a_good_edit_passes_strict_bounds(clip_of: Callable[..., ClipContext]) -> None:
    strict = {"least_changed": 1, "most_changed_share": 0.3, "most_rest_shift": 1, "least_edges_kept": 0.3}
    before = np.random.default_rng(0).integers(90, 250, (2, 64, 64, 3), dtype=np.uint8)
    clip = clip_of(2, models=models_with(Patch()))
    parameters = EDIT.parameters(overrides=strict)
    EDIT.apply(before, 0, clip, parameters, TOLD)
    assert EDIT.settle(2, 2, parameters, clip) == {"changed_frames": 2, "frames": 2}


def test_an_editor_without_room_says_what_to_do(edited: Callable[..., Any], frames: Planes) -> None:
    with pytest.raises(PrerequisiteError, match="a single picture does not fit"):
        edited(Full(), frames)


def test_the_aspect_conforms_with_an_editor_that_changes_all() -> None:
    check_aspect(ASPECT, models=models_with(Inverted()), clip=synthetic_clip(3, 64, 96))


def test_only_the_papers_parameters_are_called_paper() -> None:
    def label(strength: str | None, **values: Any) -> str:
        entry = AspectRecipe(operation=EDIT.name, strength=strength, parameters=values)
        return Recipe(name="r", aspects={"color": entry}).strength_label("color")

    assert label(None) == label("paper") == "paper"
    assert label("lightning") == label("paper", step_cache=0.1) == "lightning"
    assert label("paper", step_cache=0.2) == label("lightning", steps=20) == "custom"
    assert label("lightning", step_cache=0.0) == "paper"


@pytest.fixture
def coloured_source(tmp_path: Path) -> Callable[..., Made]:
    """Makes a source of small frames whose captions all name a red ball."""

    def make(**parameters: Any) -> Made:
        entry = AspectRecipe(operation=EDIT.name, parameters=parameters)
        recipe = Recipe(name="t", seed=3, clips_per_pair=3, long_side=WIDTH, aspects={"color": entry})
        folder = tmp_path / f"store-{len(parameters)}"
        return make_source(folder, show=shades, analyses=(RED_BALL,) * 12, recipe=recipe)

    return make


def shades(number: int) -> Planes:
    """A frame of greys, which RGB and back leaves as it is."""
    planes = np.full((HEIGHT * 3 // 2, WIDTH), 128, np.uint8)
    planes[:HEIGHT] = np.random.default_rng(number).integers(50, 200, (HEIGHT, WIDTH), dtype=np.uint8)
    return planes


def degraded(made: Made, editor: Idle) -> Any:
    models = models_with(editor)
    jobs, reasons = source_jobs(made.facts, made.recipe, models, ("color",))
    assert not reasons
    return degrade_source(made.store, made.facts, jobs, models)


def test_a_build_keeps_the_edits_with_what_was_measured(coloured_source: Callable[..., Made]) -> None:
    made, editor = coloured_source(), Patch()
    (pair_id,) = degraded(made, editor).built
    record = read_pair(made.store, pair_id)
    clips = list(made.store.manifests(DEGRADED_CLIP))
    assert record.clips_degraded == len(clips) == 3
    for clip in clips:
        count = clip.content["frames"]
        assert clip.content["choice"].items() >= {"object": "ball", "color": "red", "frames": count}.items()
        assert clip.content["choice"]["new_color"] in clip.content["choice"]["instruction"]
        assert set(clip.content["measured"]) == {"changed_share", "rest_shift", "edges_kept"}
        assert clip.content["measured"]["changed_share"]["frames"] == count
        assert clip.provenance["image_editor"]["device"] == "cpu"
        assert clip.consumes["parameters"]["step_cache"] == 0.0
        assert clip.consumes["models"] == {"qwen-image-edit-2509": "planted editor"}
    assert len(editor.calls) == sum(clip.content["frames"] for clip in clips)


def test_edits_of_nothing_or_of_too_much_make_no_pair(coloured_source: Callable[..., Made]) -> None:
    made = coloured_source()
    (problem,) = degraded(made, Idle()).set_aside.values()
    assert problem.reason == Reason.NOT_DIFFERENT_ENOUGH
    assert degraded(made, Brighter()).set_aside == {}
    (problem,) = degraded(coloured_source(most_rest_shift=5.0), Brighter()).set_aside.values()
    assert problem.reason == Reason.NOTHING_FOUND
    assert "rest of a frame" in str(problem)


@pytest.mark.models
@pytest.mark.parametrize("strength", ["paper", "lightning"])
def test_a_tiny_checkpoint_goes_all_the_way(
    strength: str, once: Once, clip_of: Callable[..., ClipContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    see_small_references(monkeypatch)
    models = ModelHub([once("paper-models", tiny_models)])
    parameters = EDIT.parameters(strength, {"editor": "tiny-editor", "steps": 3, "dtype": "float32"})
    (identity,) = EDIT.consumed_models(parameters, models).values()
    assert identity["digest"]
    frames = np.random.default_rng(0).integers(0, 256, (2, 36, 64, 3), dtype=np.uint8)
    clip = clip_of(2, models=models)
    after = EDIT.apply(frames, 0, clip, parameters, EDIT.choose(clip, parameters))
    assert after.shape == frames.shape
    assert (after != frames).any()
    ran = {"device": "cpu", "dtype": "float32", "step_cache": parameters.step_cache}
    assert clip.log.facts == {"image_editor": ran}
    assert len(clip.log.measured["changed_share"]) == 2
    again = EDIT.apply(frames[1:], 1, clip, parameters, EDIT.choose(clip, parameters))
    assert (again == after[1:]).all()


def test_planes_outside_of_a_patch_hardly_change(degrade: Callable[..., Planes]) -> None:
    clip = synthetic_clip(1, 72, 128)
    moved = np.abs(split_planes(degrade(EDIT, clip, None, TOLD)).y.astype(int) - split_planes(clip).y)
    assert moved[0, :17].max() <= 1
    assert moved[0, 38:52, 38:90].mean() > 20
