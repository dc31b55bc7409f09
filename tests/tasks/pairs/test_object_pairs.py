"""Pairs for object integrity with a planted detector: clips without the thing give way to others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import Reason
from storage_schemas.frames import Planes
from storage_schemas.store import DEGRADED_CLIP
from tasks.media.planes import rgb_to_planes
from tasks.models.base import Models
from tasks.pairs.degrade import DegradeResult, degrade_source, read_pair
from tasks.pairs.draw import PairJob, source_jobs
from tasks.recipe import AspectRecipe
from tests.tasks.aspects.planted import ColourDetector, GreyNoise, Unable, planted
from tests.tasks.pairs.synthetic import CLIPS, COLOR, HEIGHT, RECIPE, WIDTH, Made

OBJECT = "object_integrity"
BALL = CaptionAnalysis(subject=("ball", "unicorn"), scene=("hall",))


def recipe(**parameters: Any) -> Any:
    entry = AspectRecipe(operation="grounding-dino-sd-inpainting", parameters=parameters)
    return RECIPE.model_copy(update={"aspects": {OBJECT: entry}})


def shows_a_ball(clips: set[int]) -> Callable[[int], Planes]:
    """Frames with a red square in these clips and in no other."""
    begins = [sum(gap for gap, _ in CLIPS[: n + 1]) + sum(length for _, length in CLIPS[:n]) for n in clips]
    with_ball = {begin + k for n, begin in zip(clips, begins, strict=True) for k in range(CLIPS[n][1])}

    def show(number: int) -> Planes:
        rgb = np.full((1, HEIGHT, WIDTH, 3), 90 + number, np.uint8)
        if number in with_ball:
            rgb[0, 4:10, 8:16] = (250, 20, 20)
        planes: Planes = rgb_to_planes(rgb, COLOR)[0]
        return planes

    return show


@pytest.fixture
def source(made: Callable[..., Made]) -> Callable[..., Made]:
    def make(clips: set[int], **parameters: Any) -> Made:
        return made(show=shows_a_ball(clips), analyses=(BALL,) * len(CLIPS), recipe=recipe(**parameters))

    return make


def degrade(source: Made, models: Models) -> tuple[PairJob, DegradeResult]:
    (job,), _ = source_jobs(source.facts, source.recipe, models, (OBJECT,))
    return job, degrade_source(source.store, source.facts, [job], models)


def test_clips_in_which_nothing_is_found_are_replaced(source: Callable[..., Made]) -> None:
    there = {1, 4, 7, 10}
    made = source(there)
    job, result = degrade(made, planted(ColourDetector(), GreyNoise()))
    assert not result.set_aside
    record = read_pair(made.store, job.pair_id)
    assert len(record.drawn_clips) == 3
    assert set(record.drawn_clips) <= there
    for manifest in made.store.manifests(DEGRADED_CLIP):
        choice = manifest.content["choice"]
        assert choice["object"] == "ball"
        assert choice["gone"] == 1.0
        assert choice["changed_frames"] == choice["frames"] == manifest.content["frames"]
        # the square, 4 px larger on each side
        assert choice["boxes"] == [[[4, 0, 20, 14]]] * choice["frames"]
        assert manifest.content["measured"]["gone"]["mean"] == 1.0
        assert manifest.provenance["inpainter"]["batch_sizes"] == [choice["frames"]]
        assert manifest.consumes["models"] == {
            "grounding-dino-base": "planted detector",
            "stable-diffusion-inpainting": "planted inpainter",
        }


def test_a_pair_needs_enough_clips_in_which_something_is_found(source: Callable[..., Made]) -> None:
    made = source({1, 4})
    job, result = degrade(made, planted(ColourDetector(), GreyNoise()))
    problem = result.set_aside[job.pair_id]
    assert problem.reason is Reason.NOTHING_FOUND
    assert "only 2 of the 12" in str(problem)


def test_pair_stays_where_the_thing_is_seen_unless_a_share_is_asked_for(source: Callable[..., Made]) -> None:
    made, models = source({1, 4, 7}), planted(ColourDetector(), Unable())
    assert not degrade(made, models)[1].set_aside
    made.recipe = recipe(least_gone=0.5)
    job, result = degrade(made, models)
    assert "only 0 of the 12" in str(result.set_aside[job.pair_id])


def test_another_batch_size_is_another_pair(source: Callable[..., Made]) -> None:
    models = planted(ColourDetector(), GreyNoise())
    made = source({1, 4, 7})
    ids = set()
    for parameters in ({}, {"batch": 4}, {"dtype": "float32"}, {"detector_batch": 2}, {"steps": 49}):
        (job,), _ = source_jobs(made.facts, recipe(**parameters), models, (OBJECT,))
        ids.add(job.pair_id)
    assert len(ids) == 5


@pytest.mark.models
def test_a_pair_made_by_checkpoints_of_ones_own_names(source: Callable[..., Made], tmp_path: Path) -> None:
    """Random weights find boxes everywhere and paint noise, through folders, checksums and loaders."""
    from tasks.models.add import add_model
    from tasks.models.hub import ModelHub
    from tests.tiny_models.detector import tiny_detector
    from tests.tiny_models.inpainter import tiny_inpainter

    folder = tmp_path / "models"
    for name, kind, make in (("eye", "detector", tiny_detector), ("brush", "inpainter", tiny_inpainter)):
        add_model(name, make(tmp_path / name), folder, kind=kind, licence="MIT", repository=f"us/{name}")
    made = source({1}, detector="eye", inpainter="brush", steps=2, dtype="float32", batch=3)
    job, result = degrade(made, ModelHub([folder]))
    assert not result.set_aside
    assert read_pair(made.store, job.pair_id).strength == "custom"
    (manifest, *_) = made.store.manifests(DEGRADED_CLIP)
    assert {name: known["repository"] for name, known in manifest.consumes["models"].items()} == {
        "eye": "us/eye",
        "brush": "us/brush",
    }
    assert manifest.provenance["inpainter"]["dtype"] == "float32"
    assert max(manifest.provenance["inpainter"]["batch_sizes"]) <= 3
    assert manifest.provenance["detector"]["device"] == "cpu"
    assert 0 <= manifest.content["choice"]["gone"] <= 1
