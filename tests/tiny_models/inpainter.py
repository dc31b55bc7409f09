"""A Stable Diffusion inpainting pipeline small enough to make, save, load and run in a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.models.torch_cpu import prepare_torch


def _tokenizer() -> Any:
    """Return a CLIP tokenizer that knows bytes and no merges: a token a letter."""
    from transformers import CLIPTokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    pieces = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def tiny_inpainter(folder: Path, seed: int = 0) -> Path:
    """Save a pipeline with random weights, in the file layout of the published one; return `folder`.

    The UNet has nine channels and the picture eight pixels a latent, as there.
    """
    torch = prepare_torch()
    from diffusers import AutoencoderKL, PNDMScheduler, StableDiffusionInpaintPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    tokenizer = _tokenizer()
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
        skip_prk_steps=True,
        steps_offset=1,
        beta_schedule="scaled_linear",
        beta_start=0.00085,
        beta_end=0.012,
    )
    StableDiffusionInpaintPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)
    return folder
