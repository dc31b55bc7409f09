"""A Stable Diffusion inpainting pipeline small enough to make, save, load and run in a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.models.torch_model import prepare_torch


def _tokenizer(folder: Path) -> Any:
    """Return a CLIP tokenizer that knows bytes and no merges: a token a letter. Its files are like CLIP's."""
    from transformers import CLIPTokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    start, end = "<|startoftext|>", "<|endoftext|>"
    letters = list(bytes_to_unicode().values())
    pieces = [*letters, *(letter + "</w>" for letter in letters), start, end]
    folder.mkdir(parents=True)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    marks = {"bos_token": start, "eos_token": end, "unk_token": end, "pad_token": end}
    about = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "do_lower_case": True, **marks}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    return CLIPTokenizer.from_pretrained(folder, local_files_only=True)


def tiny_inpainter(folder: Path, seed: int = 0) -> Path:
    """Save a pipeline with random weights, in the file layout of the published one; return `folder`.

    The UNet has nine channels and the picture eight pixels a latent, as there.
    """
    torch = prepare_torch()
    from diffusers import AutoencoderKL, PNDMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    tokenizer = _tokenizer(folder / "tokenizer")
    count = len(tokenizer)
    torch.manual_seed(seed)
    unet = UNet2DConditionModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        sample_size=64,
        in_channels=9,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        norm_num_groups=8,
        attention_head_dim=4,
    )
    vae = AutoencoderKL(
        block_out_channels=[8, 8, 8, 8],
        down_block_types=["DownEncoderBlock2D"] * 4,
        up_block_types=["UpDecoderBlock2D"] * 4,
        latent_channels=4,
        norm_num_groups=8,
    )
    text_encoder = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=count,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            bos_token_id=count - 2,
            eos_token_id=count - 1,
            pad_token_id=count - 1,
        )
    )
    scheduler = PNDMScheduler(
        skip_prk_steps=True, steps_offset=1, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012
    )
    saved = {"vae": vae, "text_encoder": text_encoder, "unet": unet, "scheduler": scheduler}
    for name, part in saved.items():
        part.save_pretrained(folder / name)
    # as published: it names a safety checker, whose files a mirror leaves out
    parts: dict[str, Any] = {
        "_class_name": "StableDiffusionInpaintPipeline",
        "_diffusers_version": "0.6.0",
        "feature_extractor": ["transformers", "CLIPImageProcessor"],
        "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],
        "scheduler": ["diffusers", "PNDMScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(parts), encoding="utf-8")
    return folder
