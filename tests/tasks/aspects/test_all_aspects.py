"""What holds for all ten aspects: conformance, presets that grow stronger, the paper's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slvmeval.testing import check_aspect, synthetic_clip
from storage_schemas.frames import Planes
from tasks.aspects.base import Aspect, PixelOperation
from tasks.aspects.registry import BUILT_IN, aspect, aspects
from tasks.models.base import Models
from tests.tasks.aspects.conftest import SMALL_NETWORK

OVERRIDES: dict[str, dict[str, Any]] = {
    "rembg-u2net": SMALL_NETWORK,
    # a planted editor has no step cache: the presets `lightning` and `paper` are one for it
    "qwen-image-edit": {"step_cache": 0.1},
}
#: What an operation is told to do where the draw would decide.
CHOICES: dict[str, dict[str, Any]] = {
    "named-colour-hue-shift": {"object": "suit", "color": "orange", "new_color": "blue"},
    "qwen-image-edit": {"instruction": "Make the suit blue."},
    "grounding-dino-sd-inpainting": {
        "object": "ball",
        "prompt": "a wall",
        "negative": "ball",
        "boxes": [[[100, 14, 300, 66]], [], [[60, 26, 200, 92]]],
    },
}
OPERATIONS = [o for a in aspects() for o in a.operations.values() if isinstance(o, PixelOperation)]
#: Name, dimension, category and least clips, as the paper has them.
PAPERS = """
aesthetics aesthetics quality 1
technical_quality technical_quality quality 1
appearance_style appearance_style quality 1
background_consistency background_consistency quality 1
object_integrity object_removal consistency 1
color color consistency 1
dynamics_degree dynamics_degree consistency 1
comprehensiveness scene consistency 2
spatial_relationship spatial_relationship consistency 1
temporal_flow move_scene consistency 2
"""


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_aspects_conform(name: str, stub_models: Models) -> None:
    # technical quality makes a frame smaller, down from 384 px
    clip = synthetic_clip(3, 64, 400 if name == "technical_quality" else 96)
    check_aspect(aspect(name), models=stub_models, overrides=OVERRIDES, clip=clip)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["background_consistency", "object_integrity"])
def test_aspects_with_a_network_conform_with_the_real_one(name: str, model_folder: Path) -> None:
    from tasks.models.hub import ModelHub

    # the weights of the others are not on a machine without a GPU; tiny ones have a test of their own
    on_cpu = {key: each for key, each in aspect(name).operations.items() if each.hardware == "cpu"}
    assert on_cpu
    whole = replace(aspect(name), operations=on_cpu)
    check_aspect(whole, models=ModelHub([model_folder]), overrides=OVERRIDES)


def test_names_dimensions_and_categories_are_the_papers() -> None:
    found = {f"{a.name} {a.dimension} {a.category} {a.least_clips}" for a in aspects() if a.name in BUILT_IN}
    assert found == set(PAPERS.strip().splitlines())


@pytest.mark.parametrize("each", aspects(), ids=lambda a: a.name)
def test_only_the_papers_operations_have_a_preset_called_paper(each: Aspect) -> None:
    approximations = {"saliency-telea-inpainting", "named-colour-hue-shift"}
    for operation in each.operations.values():
        assert ("paper" in operation.strengths) == (operation.name not in approximations)


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if len(o.strengths) > 1], ids=lambda o: o.name)
def test_a_stronger_preset_changes_more(
    operation: PixelOperation[Any], photographs: Planes, degrade: Callable[..., Planes]
) -> None:
    overrides = OVERRIDES.get(operation.name, {})
    # from weak to strong; presets that the overrides make the same count once
    strengths = {operation.parameters(name, overrides): name for name in operation.strengths}
    assert len(strengths) >= 3
    differences = []
    for strength in strengths.values():
        after = degrade(operation, photographs, strength, CHOICES.get(operation.name), **overrides)
        differences.append(float(np.abs(after.astype(int) - photographs).mean()))
    assert differences == sorted(set(differences))
    assert differences[-1] > operation.threshold
    assert list(operation.strengths)[-1] == operation.default_strength


@pytest.mark.parametrize(
    ("aspect_name", "operation", "marks"),
    [
        ("aesthetics", "ffmpeg-eq", {"weak": 0.222, "medium": 0.444, "paper": 1}),
        ("technical_quality", "lanczos-down-up", {"weak": 0.415, "medium": 0.678, "paper": 1}),
        ("appearance_style", "opencv-style", {"weak": 0.35, "medium": 0.65, "paper": 1}),
        ("dynamics_degree", "middle-frame", {"weak": 0.25, "medium": 0.5, "human-actions": 1, "paper": 1}),
        ("color", "named-colour-hue-shift", {"weak": 0.35, "medium": 0.65, "standard": 1}),
    ],
)
def test_presets_are_marks_on_the_scale(aspect_name: str, operation: str, marks: dict[str, float]) -> None:
    made = aspect(aspect_name).operation(operation)
    found = {name: made.strength_of(made.parameters(name)) for name in made.strengths}
    assert found == pytest.approx(marks, abs=0.001)
    # the number of the default is its preset, to the bit
    assert made.parameters("1") == made.parameters()
