"""An OpenAI-compatible server of text embeddings over a local sentence-transformers checkpoint."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tasks.models.torch_model import prepare_torch
from tests.tiny_models.serving import Handler, Serving


class _Answers(Handler):
    owner: EmbeddingServer

    def do_GET(self) -> None:
        self.send(200, {"object": "list", "data": [{"id": self.owner.name, "object": "model"}]})

    def do_POST(self) -> None:
        rows, tokens = self.owner.embed(json.loads(self.content())["input"])
        data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        self.send(200, {"object": "list", "model": self.owner.name, "data": data, "usage": usage})


class EmbeddingServer(Serving):
    """Serves a checkpoint whose rows are means over tokens, of length 1, until its `with` block ends.

    Attributes
    ----------
    texts
        The texts that it was given.
    """

    handler = _Answers

    def __init__(self, folder: Path, name: str) -> None:
        self._torch = prepare_torch()
        from transformers import AutoModel, AutoTokenizer

        self.name = name
        self.texts: list[str] = []
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True).eval()
        self._lock = threading.Lock()

    def embed(self, texts: list[str]) -> tuple[list[list[float]], int]:
        """Return a row for each text, and the number of tokens."""
        with self._lock, self._torch.inference_mode():
            self.texts += texts
            given = self._tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
            mask = given["attention_mask"][..., None].float()
            rows = (self._model(**given).last_hidden_state * mask).sum(1) / mask.sum(1)
            rows = self._torch.nn.functional.normalize(rows, dim=1)
            return rows.tolist(), int(mask.sum())
