"""A tiny random checkpoint of the pipeline behind Qwen-Image-Edit-2509, in the layout of the real one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tasks.models.torch_model import prepare_torch
from tests.tiny_models.tokenizer import byte_tokenizer

#: The marks that Qwen's tokenizer adds to its bytes.
_MARKS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_WIDTH = 32
_LATENTS = 4


def tiny_image_editor(folder: Path) -> Path:
    """Write a checkpoint of about one megabyte with random weights, the same every time; return its folder.

    Classes and files are those of the real checkpoint: Qwen2.5-VL, its processor, the image transformer of
    two blocks, the video autoencoder and the flow-matching scheduler.
    """
    torch = prepare_torch()
    import diffusers

    tokenizer = byte_tokenizer(folder / "tokenizer", _MARKS, _TEMPLATE, 4096)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        pipeline = diffusers.QwenImageEditPlusPipeline(
            scheduler=_scheduler(),
            vae=diffusers.AutoencoderKLQwenImage(
                base_dim=4,
                z_dim=_LATENTS,
                dim_mult=[1, 1, 1, 1],
                num_res_blocks=1,
                temperal_downsample=[False, True, True],
                latents_mean=[0.0] * _LATENTS,
                latents_std=[1.0] * _LATENTS,
            ),
            text_encoder=_text_encoder(tokenizer),
            tokenizer=tokenizer,
            processor=_processor(tokenizer),
            transformer=diffusers.QwenImageTransformer2DModel(
                patch_size=2,
                in_channels=4 * _LATENTS,
                out_channels=_LATENTS,
                num_layers=2,
                attention_head_dim=16,
                num_attention_heads=2,
                joint_attention_dim=_WIDTH,
                guidance_embeds=False,
                axes_dims_rope=(8, 4, 4),
            ),
        )
    pipeline.save_pretrained(folder)
    return folder


def see_small_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pipeline see its reference picture small, where it would scale it to a megapixel."""
    prepare_torch()
    module = importlib.import_module("diffusers.pipelines.qwenimage.pipeline_qwenimage_edit_plus")
    monkeypatch.setattr(module, "VAE_IMAGE_SIZE", 64 * 64)
    monkeypatch.setattr(module, "CONDITION_IMAGE_SIZE", 56 * 56)


def _scheduler() -> Any:
    """Return the scheduler with the real checkpoint's settings."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    return FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True,
        base_shift=0.5,
        max_shift=0.9,
        base_image_seq_len=256,
        max_image_seq_len=8192,
        shift_terminal=0.02,
        time_shift_type="exponential",
    )


def _text_encoder(tokenizer: Any) -> Any:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    layers = {"hidden_size": _WIDTH, "intermediate_size": _WIDTH}
    config = Qwen2_5_VLConfig(
        text_config={
            **layers,
            "vocab_size": len(tokenizer),
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "rope_parameters": {"mrope_section": [2, 3, 3], "rope_type": "default", "rope_theta": 1e6},
            "max_position_embeddings": 4096,
        },
        vision_config={
            **layers,
            "depth": 2,
            "num_heads": 2,
            "out_hidden_size": _WIDTH,
            "fullatt_block_indexes": [1],
            "window_size": 112,
        },
        vocab_size=len(tokenizer),
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
    )
    return Qwen2_5_VLForConditionalGeneration(config).eval()


def _processor(tokenizer: Any) -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen2VLProcessor, Qwen2VLVideoProcessor

    return Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 112 * 112}),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=_TEMPLATE,
    )
