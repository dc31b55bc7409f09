"""A VideoScore small enough to make, save, load and run in a test."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.models.torch_model import prepare_torch

_MARKS = ("<s>", "</s>", "<unk>", "<image>", "<fake_token_around_image>", "<end_of_utterance>")


def tiny_video_score(folder: Path, labels: int = 5, positions: int = 4096) -> Path:
    """Save an Idefics2 with a head of random weights, under the names of the published one's.

    Parameters
    ----------
    labels
        Numbers that the head gives.
    positions
        Most tokens of text and frames.
    """
    torch = prepare_torch()
    from transformers import Idefics2Config

    from tasks.models.video_score import _model_class

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _save_processor(folder)
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    number = {mark: tokenizer.convert_tokens_to_ids(mark) for mark in _MARKS}
    config = Idefics2Config(
        image_token_id=number["<image>"],
        tie_word_embeddings=False,
        num_labels=labels,
        problem_type="regression",
        vision_config={**layers, "image_size": 56, "patch_size": 14},
        perceiver_config={
            "resampler_n_latents": 4,
            "resampler_depth": 1,
            "resampler_n_heads": 2,
            "resampler_head_dim": 16,
            "num_key_value_heads": 1,
            "hidden_size": 32,
        },
        text_config={
            **layers,
            "model_type": "mistral",
            "vocab_size": len(tokenizer),
            "num_key_value_heads": 1,
            "max_position_embeddings": positions,
            "pad_token_id": number["<unk>"],
            "bos_token_id": number["<s>"],
            "eos_token_id": number["</s>"],
        },
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _model_class()(config).eval()
        # as small as they are made, different videos would have the same numbers to four digits
        torch.nn.init.normal_(model.score.weight, std=1.0)
    model.save_pretrained(folder)
    return folder


def _save_processor(folder: Path):  # type: ignore[no-untyped-def]
    """Write tokenizer (a token a byte) and processor; return the tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens(list(_MARKS))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<unk>",
        additional_special_tokens=["<image>", "<fake_token_around_image>", "<end_of_utterance>"],
    )
    tokenizer.save_pretrained(folder)
    preprocessing = {
        "image_processor_type": "Idefics2ImageProcessor",
        "processor_class": "Idefics2Processor",
        "do_image_splitting": False,
        "do_resize": True,
        "size": {"shortest_edge": 28, "longest_edge": 56},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing), encoding="utf-8")
    (folder / "processor_config.json").write_text(
        json.dumps({"processor_class": "Idefics2Processor", "image_seq_len": 4}), encoding="utf-8"
    )
    return tokenizer
