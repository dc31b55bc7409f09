"""SAM 2 by transformers, on a tiny random checkpoint in the published layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError
from tests.once import Once
from tests.tasks.extras.locot2v.videos import scene

pytestmark = pytest.mark.models

BOXES = np.array([[4.0, 6.0, 30.0, 40.0], [0.0, 0.0, 64.0, 48.0], [50.0, 10.0, 60.0, 20.0]])


@pytest.fixture(scope="module")
def folder(once: Once) -> Path:
    from tests.tiny_models.segmenter import tiny_sam2

    return once("tiny-sam2", tiny_sam2)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    from tasks.models.sam2 import load

    return load(folder, "cpu")


def test_there_is_one_mask_a_box_in_the_pictures_size(model: Any) -> None:
    masks = model.masks(scene(1), BOXES)
    assert (masks.shape, masks.dtype) == ((3, 48, 64), np.bool_)
    assert (model.masks(scene(1), BOXES) == masks).all()
    # a box alone has the mask that it has among others
    assert (model.masks(scene(1), BOXES[1:2])[0] == masks[1]).mean() > 0.999
    assert (masks[0] != masks[2]).any()
    assert model.masks(scene(1), np.zeros((0, 4))).shape == (0, 48, 64)


def test_masks_are_those_of_the_library_asked_directly(folder: Path, model: Any) -> None:
    import torch
    from transformers import Sam2Model, Sam2Processor

    processor = Sam2Processor.from_pretrained(folder)
    inputs = processor(images=scene(2), input_boxes=[BOXES.tolist()], return_tensors="pt")
    sizes = inputs.pop("original_sizes")
    with torch.inference_mode():
        logits = Sam2Model.from_pretrained(folder).eval()(**inputs, multimask_output=False).pred_masks[0]
    grown = torch.nn.functional.interpolate(logits, sizes[0].tolist(), mode="bilinear")[:, 0]
    assert ((grown > 0).numpy() == model.masks(scene(2), BOXES)).mean() > 0.999


def test_another_checkpoint_is_refused(tmp_path: Path, once: Once) -> None:
    from tasks.models.sam2 import load
    from tests.tiny_models.pictures import tiny_dino

    with pytest.raises(PrerequisiteError, match=r"'dinov2' model, this loader accepts sam2 and sam2_video"):
        load(once("tiny-dino", tiny_dino), "cpu")
    with pytest.raises(PrerequisiteError, match="as SAM 2"):
        load(tmp_path, "cpu")


@pytest.mark.gpu
def test_it_runs_on_a_gpu(folder: Path, model: Any) -> None:
    from tasks.models.sam2 import load

    assert (load(folder, "cuda").masks(scene(1), BOXES) == model.masks(scene(1), BOXES)).mean() > 0.99
