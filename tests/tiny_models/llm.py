"""A tiny random checkpoint of Qwen3, in the layout of the real one."""

from __future__ import annotations

from pathlib import Path

from tasks.models.torch_model import prepare_torch
from tests.tiny_models.tokenizer import byte_tokenizer

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

    tokenizer = byte_tokenizer(folder, _MARKS, _TEMPLATE, _CONTEXT)
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
