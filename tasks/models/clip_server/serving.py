"""Serve embeddings and token counts over HTTP; the model processes one request at a time."""

from __future__ import annotations

import argparse
import base64
import hmac
import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

import numpy as np

from .encoder import ClipEncoder, Rows
from .loaders import JINA, JINA_CODE, JINA_REVISIONS, LOADERS, fetch_jina

KEY_VARIABLE = "VLLM_API_KEY"
#: Largest request: 32 pictures of 1280×720 in base64 take 118 MB.
MAX_BYTES = 256 << 20


def answer(encoder: ClipEncoder, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a POST; a KeyError, TypeError or ValueError means that the request is invalid."""
    if path == "/v1/images":
        shape = tuple(int(size) for size in body["shape"])
        if len(shape) != 4 or shape[3] != 3 or min(shape) < 1:
            raise ValueError(f"pictures are (n, H, W, 3), not {shape}")
        raw = np.frombuffer(base64.b64decode(body["rgb"], validate=True), np.uint8)
        return _packed(encoder.images(raw.reshape(shape)))
    texts = body["texts"]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("texts must be a list of at least one string")
    if path == "/v1/texts":
        most = int(body["most_tokens"])
        if most < 1 or (encoder.positions is not None and most > encoder.positions):
            raise ValueError(f"most_tokens is {most}, the model has {encoder.positions} positions")
        return _packed(encoder.texts(texts, most))
    ends = [encoder.ends(text) for text in texts] if body.get("ends") else None
    return {"counts": [encoder.count(text) for text in texts], "ends": ends}


def _packed(rows: Rows) -> dict[str, Any]:
    data = np.ascontiguousarray(rows, "<f4").tobytes()
    return {"shape": list(rows.shape), "rows": base64.b64encode(data).decode("ascii")}


def make_server(
    encoder: ClipEncoder, about: Mapping[str, Any], key: str, host: str, port: int
) -> ThreadingHTTPServer:
    """Return a listening server; ``about["id"]`` is its model's name."""
    lock = threading.Lock()
    facts: dict[str, Any] = {"width": encoder.width, "limit": encoder.limit, "positions": encoder.positions}
    facts |= {"dtype": encoder.dtype, "device": encoder.device}
    model = {"object": "model", **about, "encoder": facts}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        timeout = 600

        def do_GET(self) -> None:
            if self._allowed():
                known = self.path == "/v1/models"
                self._send(
                    *((200, {"object": "list", "data": [model]}) if known else _refused(404, "no such path"))
                )

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or -1)
            if not 0 <= length <= MAX_BYTES:
                self.close_connection = True
                self._send(*_refused(413, f"a request needs a Content-Length of 0 to {MAX_BYTES} bytes"))
                return
            content = self.rfile.read(length)
            if not self._allowed():
                return
            if self.path not in ("/v1/images", "/v1/texts", "/v1/tokens"):
                self._send(*_refused(404, "no such path"))
                return
            self._send(*self._answer(content))

        def _answer(self, content: bytes) -> tuple[int, dict[str, Any]]:
            try:
                body = json.loads(content)
                if body["model"] != model["id"]:
                    return _refused(404, f"no model {body['model']!r}, only {model['id']!r}")
                with lock:
                    return 200, answer(encoder, self.path, body)
            except (KeyError, TypeError, ValueError) as problem:
                return _refused(400, f"{type(problem).__name__}: {problem}")
            except Exception as problem:  # noqa: BLE001 - the server survives it
                traceback.print_exc()
                full = "out of memory" in str(problem).lower()
                return _refused(507 if full else 500, f"{type(problem).__name__}: {problem}")

        def _allowed(self) -> bool:
            given = self.headers.get("Authorization") or ""
            if hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
                return True
            self._send(*_refused(401, "the key is wrong or missing"))
            return False

        def _send(self, status: int, values: Mapping[str, Any]) -> None:
            content = json.dumps(values).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing per request."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server


def _refused(status: int, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"message": message}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the model, or load it and serve it until stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--loader", choices=LOADERS, default="jina-clip-v2")
    parser.add_argument(
        "--fetch", action="store_true", help="fetch Jina CLIP v2 at its pinned commits and exit"
    )
    parser.add_argument("--model", default=JINA, help="checkpoint folder, for the loader transformers")
    parser.add_argument("--name", help="the model's name for clients; its folder or repository by default")
    parser.add_argument("--revision", help="the model's version, as reported to clients")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    options = parser.parse_args(arguments)
    if options.fetch:
        fetch_jina()
        return 0
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        print(f"error: {KEY_VARIABLE} does not hold a key for the clients", file=sys.stderr)
        return 1
    os.environ["HF_HUB_OFFLINE"] = "1"
    parts = LOADERS[options.loader](options.model, options.device, options.dtype)
    revision = JINA_REVISIONS[JINA] if options.loader == "jina-clip-v2" else options.revision
    about = {
        "id": options.name or options.model,
        "revision": revision,
        "code_revision": JINA_CODE if options.loader == "jina-clip-v2" else None,
        "libraries": {name: version(name) for name in ("torch", "transformers", "pillow")},
    }
    encoder = ClipEncoder(parts, options.device, options.dtype)
    make_server(encoder, about, key, options.host, options.port).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
