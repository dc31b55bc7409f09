"""A Grounding DINO small enough to make, save, load and run in a test."""

from __future__ import annotations

import json
import string
from pathlib import Path

from tasks.models.torch_model import prepare_torch

#: Words that the tiny tokenizer knows as such; any other it spells letter by letter.
WORDS = "a an the of on and red blue black white dog cat car person man woman cup ball tree boat".split()


def tiny_detector(folder: Path, seed: int = 0) -> Path:
    """Save a Grounding DINO with random weights, in the file layout of the published one; return `folder`."""
    torch = prepare_torch()
    from transformers import BertTokenizerFast, GroundingDinoConfig, GroundingDinoForObjectDetection

    folder.mkdir(parents=True, exist_ok=True)
    letters = [letter for letter in string.ascii_lowercase + string.digits if letter not in WORDS]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", ",", "'", "-", *WORDS, *letters]
    pieces += [f"##{letter}" for letter in string.ascii_lowercase + string.digits]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=True, model_max_length=512)
    tokenizer.save_pretrained(folder)
    preprocessing = {
        "image_processor_type": "GroundingDinoImageProcessor",
        "processor_class": "GroundingDinoProcessor",
        "size": {"shortest_edge": 64, "longest_edge": 128},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing), encoding="utf-8")

    config = GroundingDinoConfig(
        backbone_config={
            "model_type": "swin",
            "image_size": 64,
            "embed_dim": 8,
            "depths": [1, 1, 1, 1],
            "num_heads": [1, 1, 2, 2],
            "window_size": 4,
            "out_features": ["stage2", "stage3", "stage4"],
        },
        text_config={
            "model_type": "bert",
            "vocab_size": len(vocabulary),
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_position_embeddings": 256,
        },
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=10,
        fusion_droppath=0.0,
        num_feature_levels=4,
        max_text_len=256,
    )
    torch.manual_seed(seed)
    GroundingDinoForObjectDetection(config).eval().save_pretrained(folder)
    return folder
