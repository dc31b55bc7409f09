"""Vision-language models for tests, Qwen2.5-VL and Idefics3: small, random, and they answer a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.models.torch_model import prepare_torch
from tests.tiny_models.tokenizer import byte_tokenizer

#: Each is a token: the two answers of a judge. Which one is reported depends on the pictures.
ANSWERS = ('{"better": "first"}', '{"better": "second"}')
_SIZES = {"hidden_size": 32, "intermediate_size": 32}
_LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
_QWEN_MARKS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
_IDEFICS_MARKS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<fake_token_around_image>",
    "<global-img>",
    "<image>",
)
#: Chats with system messages, and pictures between texts.
_QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: Chats without system messages.
_IDEFICS_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"
    "<|im_start|>{{ message.role | capitalize }}: {% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant: {% endif %}"
)


def tiny_qwen_vl(folder: Path, positions: int = 16384) -> Path:
    """Save a Qwen2.5-VL with random weights, the same every time."""
    prepare_torch()
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    tokenizer = _with_answers(byte_tokenizer(folder, _QWEN_MARKS, _QWEN_TEMPLATE, positions))
    number = tokenizer.convert_tokens_to_ids
    config = Qwen2_5_VLConfig(
        text_config={
            **_SIZES,
            **_LAYERS,
            "vocab_size": len(tokenizer),
            "rope_parameters": {"mrope_section": [2, 3, 3], "rope_type": "default", "rope_theta": 1e6},
            "max_position_embeddings": positions,
        },
        vision_config={
            **_SIZES, "depth": 2, "num_heads": 2, "out_hidden_size": 32, "fullatt_block_indexes": [1],
            "window_size": 112,
        },
        vocab_size=len(tokenizer),
        image_token_id=number("<|image_pad|>"),
        video_token_id=number("<|video_pad|>"),
        vision_start_token_id=number("<|vision_start|>"),
        vision_end_token_id=number("<|vision_end|>"),
        bos_token_id=None,
        eos_token_id=number("<|im_end|>"),
    )  # fmt: skip
    processor = Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 112 * 112}),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=_QWEN_TEMPLATE,
    )
    return _saved(folder, Qwen2_5_VLForConditionalGeneration, config, processor)


def tiny_idefics(folder: Path, positions: int = 16384) -> Path:
    """Save an Idefics3 with random weights, whose template takes no system messages."""
    prepare_torch()
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessor,
        Idefics3Processor,
    )

    tokenizer = _with_answers(byte_tokenizer(folder, _IDEFICS_MARKS, _IDEFICS_TEMPLATE, positions))
    size = {"longest_edge": 56}
    config = Idefics3Config(
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        vision_config={
            **_SIZES, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 56, "patch_size": 14,
        },
        text_config={
            "model_type": "llama", **_SIZES, **_LAYERS, "vocab_size": len(tokenizer),
            "max_position_embeddings": positions, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        },
        pad_token_id=0,
    )  # fmt: skip
    processor = Idefics3Processor(
        Idefics3ImageProcessor(do_image_splitting=False, size=size, max_image_size=size),
        tokenizer,
        image_seq_len=4,
        chat_template=_IDEFICS_TEMPLATE,
    )
    return _saved(folder, Idefics3ForConditionalGeneration, config, processor)


def _with_answers(tokenizer: Any) -> Any:
    tokenizer.add_tokens(list(ANSWERS))
    return tokenizer


def _saved(folder: Path, kind: Any, config: Any, processor: Any) -> Path:
    torch = prepare_torch()
    from transformers.utils import logging

    tokenizer = processor.tokenizer
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(config).eval()
    answers, end = (
        tokenizer.convert_tokens_to_ids(list(ANSWERS)),
        tokenizer.convert_tokens_to_ids("<|im_end|>"),
    )
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    # first an answer, then the end
    biases = [*([[answer], 1e3] for answer in answers), *([[answer, end], 1e6] for answer in answers)]
    settings = {"eos_token_id": [end], "pad_token_id": 0, "sequence_bias": biases, "repetition_penalty": 1.05}
    (folder / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
