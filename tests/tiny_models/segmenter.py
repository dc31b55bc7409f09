"""A SAM 2 small enough to make, save, load and run in a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.models.torch_model import prepare_torch

_SIDE = 64


def tiny_sam2(folder: Path, seed: int = 0) -> Path:
    """Save a SAM 2 with random weights, in the published one's layout: the video model; return `folder`."""
    torch = prepare_torch()
    from transformers import Sam2VideoConfig, Sam2VideoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    backbone: dict[str, Any] = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 8,
        "image_size": [_SIDE, _SIDE],
        "blocks_per_stage": [1, 1, 2, 1],
        "embed_dim_per_stage": [8, 16, 32, 64],
        "num_attention_heads_per_stage": [1, 1, 2, 2],
        "window_size_per_stage": [8, 4, 8, 4],
        "global_attention_blocks": [3],
        "window_positional_embedding_background_size": [4, 4],
    }
    memory = {
        f"memory_{name}": value
        for name, value in {
            "attention_hidden_size": 16,
            "attention_num_layers": 1,
            "attention_feed_forward_hidden_size": 16,
            "attention_rope_feat_sizes": [4, 4],
            "encoder_hidden_size": 16,
            "encoder_output_channels": 8,
            "fuser_num_layers": 1,
            "fuser_embed_dim": 16,
            "fuser_intermediate_dim": 16,
        }.items()
    }
    config = Sam2VideoConfig(
        vision_config={
            "model_type": "sam2_vision_model",
            "backbone_config": backbone,
            "backbone_channel_list": [64, 32, 16, 8],
            "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
            "fpn_hidden_size": 16,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": _SIDE, "mask_input_channels": 4},
        mask_decoder_config={
            "hidden_size": 16,
            "mlp_dim": 16,
            "num_attention_heads": 2,
            "iou_head_hidden_dim": 16,
            "num_hidden_layers": 1,
        },
        image_size=_SIDE,
        mask_downsampler_embed_dim=16,
        **memory,
    )
    folder.mkdir(parents=True, exist_ok=True)
    preprocessing = {
        "image_processor_type": "Sam2ImageProcessorFast",
        "processor_class": "Sam2VideoProcessor",
        "size": {"height": _SIDE, "width": _SIDE},
        "mask_size": {"height": 16, "width": 16},
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }
    processor = {"processor_class": "Sam2VideoProcessor", "target_size": _SIDE, "point_pad_value": -10}
    for name, values in (("preprocessor_config", preprocessing), ("processor_config", processor)):
        (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        Sam2VideoModel(config).eval().save_pretrained(folder)
    return folder
