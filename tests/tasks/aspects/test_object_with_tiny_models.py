"""Object integrity through the real loading and running code, with random weights that erase nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slvmeval.testing import check_aspect, synthetic_clip
from storage_schemas.analysis import CaptionAnalysis
from tasks.aspects.base import ClipContext
from tasks.aspects.object_diffusion import GroundedInpainting
from tasks.aspects.object_integrity import ASPECT
from tests.tasks.aspects.planted import PlantedModels, planted

pytestmark = pytest.mark.models

OPERATION = GroundedInpainting()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> PlantedModels:
    from tasks.models import grounding_dino, stable_diffusion
    from tests.tiny_models.detector import tiny_detector
    from tests.tiny_models.inpainter import tiny_inpainter

    folder: Path = tmp_path_factory.mktemp("models")
    detector: Any = grounding_dino.load(tiny_detector(folder / "detector"), "cpu")
    inpainter: Any = stable_diffusion.load(tiny_inpainter(folder / "inpainter"), "cpu", dtype="float32")
    detector.checksum, inpainter.checksum = "tiny detector", "tiny inpainter"
    return planted(detector, inpainter)


def test_the_operation_conforms_on_checkpoints_of_the_real_classes(tiny: PlantedModels) -> None:
    aspect = type(ASPECT)(**{**vars(ASPECT), "operations": {OPERATION.name: OPERATION}})
    # one picture at a time: larger batches differ in the last digit
    few = {OPERATION.name: {"steps": 2, "batch": 1, "detector_batch": 1}}
    check_aspect(aspect, models=tiny, overrides=few, clip=synthetic_clip(3, 68, 96))


def test_frames_in_batches_are_those_of_single_frames_up_to_rounding(
    tiny: PlantedModels, clip_of: Callable[..., ClipContext]
) -> None:
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
