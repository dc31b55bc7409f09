"""A CLIP small enough to make, save, load and run in a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.models.torch_model import prepare_torch


def tiny_clip(folder: Path, limit: int = 77, positions: int = 77, seed: int = 0) -> Path:
    """Save a CLIP with random weights, in the file layout of the published one; return `folder`.

    Parameters
    ----------
    limit
        Most tokens that its tokenizer says it is made for.
    positions
        Places that it has for tokens; those of the published model are its limit.
    """
    torch = prepare_torch()
    from transformers import CLIPConfig, CLIPModel

    folder.mkdir(parents=True, exist_ok=True)
    size = _save_tokenizer(folder, limit)
    preprocessing = {
        "image_processor_type": "CLIPImageProcessor",
        "processor_class": "CLIPProcessor",
        "size": {"shortest_edge": 32},
        "crop_size": {"height": 32, "width": 32},
        "resample": 3,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing), encoding="utf-8")
    layers: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 2}
    layers |= {"hidden_size": 16, "intermediate_size": 32}
    config = CLIPConfig(
        projection_dim=16,
        text_config={
            **layers,
            "vocab_size": size,
            "max_position_embeddings": positions,
            "bos_token_id": size - 2,
            "eos_token_id": size - 1,
            "pad_token_id": size - 1,
        },
        vision_config={**layers, "image_size": 32, "patch_size": 8},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = CLIPModel(config).eval()
    model.save_pretrained(folder)
    return folder


def _save_tokenizer(folder: Path, limit: int) -> int:
    """Write CLIP's tokenizer without merges, a token a letter; return the size of its vocabulary."""
    from transformers import CLIPTokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    start, end = "<|startoftext|>", "<|endoftext|>"
    letters = list(bytes_to_unicode().values())
    pieces = [*letters, *(letter + "</w>" for letter in letters), start, end]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    marks = {"bos_token": start, "eos_token": end, "unk_token": end, "pad_token": end}
    about = {"tokenizer_class": "CLIPTokenizer", "model_max_length": limit, "do_lower_case": True, **marks}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    CLIPTokenizer.from_pretrained(folder, local_files_only=True).save_pretrained(folder)
    return len(pieces)
