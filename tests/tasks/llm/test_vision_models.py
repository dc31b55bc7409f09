"""How many tokens texts and images count."""

from __future__ import annotations

import pytest
from PIL import Image

from tasks.llm.vision_models import VLM_MODELS


@pytest.mark.models
@pytest.mark.parametrize("size", [(512, 288), (512, 384), (288, 512), (512, 212), (320, 180)])
def test_qwen3_vl_counts_its_squares(size: tuple[int, int]) -> None:
    """As the model's own processor does."""
    from tasks.models.torch_model import prepare_torch

    prepare_torch()
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    # Qwen3-VL's own settings of that processor: patches of 16 px, merged two by two
    processor = Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, size={"shortest_edge": 65_536, "longest_edge": 16_777_216}
    )
    grid = processor(images=[Image.new("RGB", size)], return_tensors="np")["image_grid_thw"][0]
    # and the marks of the image's beginning and end
    assert VLM_MODELS["qwen3-vl"].image_tokens(*size) == int(grid.prod()) // 4 + 2


def test_gpts_texts_are_counted_by_its_vocabulary_however_long_they_are() -> None:
    model = VLM_MODELS["gpt-5"]
    assert model.text_tokens("hello world") == 2
    million = "A red boat lies on the beach. " * 40_000
    assert model.text_tokens(million) == pytest.approx(40_000 * 8, rel=0.05)
