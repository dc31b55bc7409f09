"""An OpenAI-compatible server of text embeddings over a local sentence-transformers checkpoint."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tasks.models.torch_model import prepare_torch


class EmbeddingServer:
    """Serves a checkpoint whose rows are means over tokens, of length 1, until its `with` block ends.

    Attributes
    ----------
    texts
        The texts that it was given.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._torch = prepare_torch()
        from transformers import AutoModel, AutoTokenizer

        self.name = name
        self.texts: list[str] = []
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True).eval()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def embed(self, texts: list[str]) -> tuple[list[list[float]], int]:
        """Return a row for each text, and the number of tokens."""
        with self._lock, self._torch.inference_mode():
            self.texts += texts
            given = self._tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
            mask = given["attention_mask"][..., None].float()
            rows = (self._model(**given).last_hidden_state * mask).sum(1) / mask.sum(1)
            rows = self._torch.nn.functional.normalize(rows, dim=1)
            return rows.tolist(), int(mask.sum())

    def __enter__(self) -> EmbeddingServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(server: EmbeddingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": server.name, "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            rows, tokens = server.embed(body["input"])
            data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
            usage = {"prompt_tokens": tokens, "total_tokens": tokens}
            self._send({"object": "list", "model": server.name, "data": data, "usage": usage})

        def _send(self, values: dict[str, Any]) -> None:
            content = json.dumps(values).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Write no log."""

    return Handler
