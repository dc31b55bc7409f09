"""Load a CLIP; the loader is the only model-specific code here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .encoder import Parts

JINA = "jinaai/jina-clip-v2"
#: Jina CLIP's repositories at matching commits: weights; code; configuration, tokenizer and code of its text
#: tower. Its code loads the last two from their branch `main`, see :func:`fetch_jina`.
JINA_REVISIONS: Mapping[str, str] = {
    JINA: "e10d47f5691d0454a0fb5d13f46f2199b74cb436",
    "jinaai/jina-clip-implementation": "39e6a55ae971b59bea6e44675d237c99762e7ee2",
    "jinaai/jina-embeddings-v3": "ab036b023d30b4d1138c4c3bfa9f0c445ab455d6",
    "jinaai/xlm-roberta-flash-implementation": "bd55a5ec8e6c0fb1d6c26efb4b6a4a74ce8a88d3",
}
JINA_CODE = JINA_REVISIONS["jinaai/jina-clip-implementation"]
_JINA_FILES = {
    JINA: ["*.json", "model.safetensors"],
    "jinaai/jina-embeddings-v3": ["config.json", "tokenizer*.json", "special_tokens_map.json"],
}


def load_transformers(path: str, device: str, dtype: str) -> Parts:
    """Load any CLIP of transformers from a folder; no network access, no code of the checkpoint."""
    import torch
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer
    from transformers import __version__ as release

    named = "dtype" if int(release.split(".")[0]) >= 5 else "torch_dtype"
    here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    # pictures are preprocessed by Pillow, not torchvision: the same input on every machine
    pillow: dict[str, Any] = {"backend": "pil"} if named == "dtype" else {"use_fast": False}
    model = AutoModel.from_pretrained(path, **here, **{named: getattr(torch, dtype)})
    tokenizer = AutoTokenizer.from_pretrained(path, **here)
    processor = AutoImageProcessor.from_pretrained(path, **here, **pillow)
    if not hasattr(model, "get_text_features") or not hasattr(model, "get_image_features"):
        raise ValueError(f"a {model.config.model_type!r} model does not embed both texts and pictures")
    places = int(model.config.text_config.max_position_embeddings)
    return Parts(
        model.to(device).eval(),
        tokenizer,
        lambda pictures: processor(images=pictures, return_tensors="pt")["pixel_values"],
        limit=min(int(tokenizer.model_max_length), places),
        positions=places,
        padding="max_length" if model.config.model_type.startswith("siglip") else False,
    )


def load_jina(path: str, device: str, dtype: str) -> Parts:
    """Load Jina CLIP v2 with its own code, at the pinned commits; not tested with the real weights."""
    import torch
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    pinned: dict[str, Any] = {"revision": JINA_REVISIONS[JINA], "code_revision": JINA_CODE}
    pinned["trust_remote_code"] = True
    model = AutoModel.from_pretrained(path, torch_dtype=getattr(torch, dtype), **pinned)
    tokenizer = AutoTokenizer.from_pretrained(path, **pinned)
    processor = AutoImageProcessor.from_pretrained(path, use_fast=False, **pinned)
    # its text tower uses rotary positions, which have no maximum
    return Parts(
        model.to(device).eval(),
        tokenizer,
        lambda pictures: processor(pictures)["pixel_values"],
        limit=8192,
        positions=None,
    )


LOADERS: Mapping[str, Callable[[str, str, str], Parts]] = {
    "transformers": load_transformers,
    "jina-clip-v2": load_jina,
}


def fetch_jina() -> None:
    """Fetch Jina CLIP v2 into the hub's cache (``HF_HOME``), each repository at its pinned commit.

    Its code loads parts of the text tower from the branch ``main``: in this cache, that name points to the
    pinned commit, and the server starts offline, so nothing else can be loaded.
    """
    from huggingface_hub import snapshot_download

    for name, revision in JINA_REVISIONS.items():
        wanted = _JINA_FILES.get(name, ["*.py"])
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
        branch = folder.parent.parent / "refs" / "main"
        branch.parent.mkdir(exist_ok=True)
        branch.write_text(revision, encoding="utf-8")
        print(f"{name} @ {revision}: {folder}", flush=True)
