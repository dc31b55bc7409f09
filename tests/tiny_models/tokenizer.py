"""Qwen's tokenizer without merges, for the tiny checkpoints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def byte_tokenizer(folder: Path, marks: Sequence[str], template: str, longest: int) -> Any:
    """Return Qwen's tokenizer without merges: one token a byte, and the marks."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import Qwen2Tokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    folder.mkdir(parents=True, exist_ok=True)
    plain.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": longest,
        "additional_special_tokens": list(marks[1:]),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    tokenizer = Qwen2Tokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    return tokenizer
