"""Models of pictures small enough to make, save, load and run in a test."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from tasks.models.torch_model import prepare_torch

_LAYERS: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def _save_processor(folder: Path, kind: str, **fields: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    mean = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 3}
    text = json.dumps({"image_processor_type": kind, **mean, **fields})
    (folder / "preprocessor_config.json").write_text(text, encoding="utf-8")


def tiny_siglip(folder: Path, seed: int = 0) -> Path:
    """Save a SigLIP with random weights, in the published one's layout but without a tokenizer."""
    torch = prepare_torch()
    from transformers import SiglipConfig, SiglipModel

    _save_processor(folder, "SiglipImageProcessor", size={"height": 32, "width": 32})
    config = SiglipConfig(
        text_config={**_LAYERS, "vocab_size": 40, "max_position_embeddings": 16},
        vision_config={**_LAYERS, "image_size": 32, "patch_size": 8},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        SiglipModel(config).eval().save_pretrained(folder)
    return folder


def tiny_dino(folder: Path, seed: int = 0) -> Path:
    """Save a DINOv2 with random weights, in the published one's layout."""
    torch = prepare_torch()
    from transformers import Dinov2Config, Dinov2Model

    size, crop = {"shortest_edge": 32}, {"height": 32, "width": 32}
    _save_processor(folder, "BitImageProcessor", size=size, crop_size=crop)
    config = Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        Dinov2Model(config).eval().save_pretrained(folder)
    return folder


def tiny_aesthetic_head(folder: Path, width: int = 16, ending: str = ".safetensors", seed: int = 0) -> Path:
    """Save the predictor's head with random weights, under the published one's names."""
    torch = prepare_torch()
    widths = (width, 1024, 128, 64, 16, 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = [torch.nn.Linear(before, after) for before, after in pairwise(widths)]
    weights = {
        f"scoring_head.{2 * n}.{name}": value.detach().clone().to(torch.bfloat16)
        for n, part in enumerate(parts)
        for name, value in part.named_parameters()
    }
    # near the middle of the scale, as trained ones are
    weights["scoring_head.8.bias"] += 5
    folder.mkdir(parents=True, exist_ok=True)
    if ending == ".pth":
        torch.save(weights, folder / "aesthetic_predictor_v2_5.pth")
    else:
        from safetensors.torch import save_file

        save_file(weights, folder / "aesthetic_predictor_v2_5.safetensors")
    return folder
