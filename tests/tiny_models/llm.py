"""A tiny random checkpoint of Qwen3, in the layout of the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.models.torch_cpu import prepare_torch

_MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
#: Qwen3's form of a conversation: without thinking, an empty thought is put into the model's mouth.
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
_CONTEXT = 32_768


def tiny_llm(folder: Path) -> Path:
    """Write a checkpoint of under a megabyte with random weights, the same every time; return its folder."""
    torch = prepare_torch()
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = _tokenizer(folder)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=_CONTEXT,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = end
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(folder: Path) -> Any:
    """Return Qwen's tokenizer without merges: one token a byte, and the marks."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import Qwen2Tokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in _MARKS])
    folder.mkdir(parents=True, exist_ok=True)
    plain.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": _CONTEXT,
        "additional_special_tokens": list(_MARKS[1:]),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    tokenizer = Qwen2Tokenizer.from_pretrained(folder)
    tokenizer.chat_template = _TEMPLATE
    return tokenizer
