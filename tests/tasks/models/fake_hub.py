"""A model hub on this machine: one repository, spoken to as huggingface_hub speaks, with faults on demand."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from storage_schemas.ids import digest_text
from tests.tasks.models.checkpoints import FILES, LEFT_OUT, REVISION


class FakeHub:
    """What the hub holds, what it does wrong, and what it was asked.

    Attributes
    ----------
    files
        Text by path; those that end in ``.safetensors`` or ``.ckpt`` are large files, with a SHA-256.
    cut_after
        Bytes after which the next `cuts` answers of weights break off.
    stalls, stalled
        Whether weights stop there without an end, and whether they have.
    status
        HTTP status and error code of every answer; None where all is well.
    sent
        In place of a file's own text, what is sent of it.
    asked
        Method, path and range of every request.
    """

    def __init__(self) -> None:
        self.files = {**FILES, **LEFT_OUT}
        self.cut_after: int | None = None
        self.cuts = 0
        self.stalls = threading.Event()
        self.stalled = threading.Event()
        self.status: tuple[int, str] | None = None
        self.sent: dict[str, str] = {}
        self.stated_sha256: dict[str, str] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        self.address = ""

    def large(self, path: str) -> bool:
        return path.endswith((".safetensors", ".ckpt", ".bin"))

    def etag(self, path: str) -> str:
        text = self.files[path].encode()
        if self.large(path):
            return self.stated_sha256.get(path) or hashlib.sha256(text).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()

    def tree(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [{"type": "directory", "path": "unet", "oid": "0" * 40, "size": 0}]
        for path, text in self.files.items():
            row = {"type": "file", "path": path, "size": len(text), "oid": self.etag(path)[:40]}
            if self.large(path):
                row["lfs"] = {"oid": self.etag(path), "size": len(text), "pointerSize": 130}
            rows.append(row)
        return rows


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(send=False)

        def do_GET(self) -> None:
            self.answer(send=True)

        def answer(self, send: bool) -> None:
            path = self.path.partition("?")[0]
            hub.asked.append((self.command, path, self.headers.get("Range")))
            if hub.status is not None:
                code, reason = hub.status
                self.reply(code, b"{}", {"X-Error-Code": reason, "X-Error-Message": reason}, send)
            elif path == f"/api/models/someone/toy/tree/{REVISION}":
                self.reply(200, json.dumps(hub.tree()).encode(), {}, send)
            elif path.startswith(f"/someone/toy/resolve/{REVISION}/"):
                self.file(path.removeprefix(f"/someone/toy/resolve/{REVISION}/"), send)
            else:
                self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"}, send)

        def file(self, name: str, send: bool) -> None:
            whole = hub.sent.get(name, hub.files[name]).encode()
            headers = {"ETag": f'"{hub.etag(name)}"', "X-Repo-Commit": REVISION, "Accept-Ranges": "bytes"}
            asked = self.headers.get("Range")
            begin = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
            if begin:
                headers["Content-Range"] = f"bytes {begin}-{len(whole) - 1}/{len(whole)}"
            cut = hub.cut_after if send and hub.large(name) and hub.cuts else None
            self.reply(206 if begin else 200, whole[begin:], headers, send, cut)

        def reply(
            self, code: int, body: bytes, headers: dict[str, str], send: bool, cut: int | None = None
        ) -> None:
            self.send_response(code)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if send:
                self.wfile.write(body[:cut])
            if cut is not None:
                hub.cuts -= 1
                if hub.stalls.is_set():
                    hub.stalled.set()
                    while hub.stalls.is_set():
                        time.sleep(0.01)
                self.close_connection = True

    return Handler


@contextmanager
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Serve a hub on loopback, to which HF_ENDPOINT points, until the block ends."""
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    try:
        yield hub
    finally:
        hub.stalls.clear()
        server.shutdown()
        server.server_close()
        thread.join()


def other_sum(text: str) -> str:
    """A checksum that is no file's here."""
    return digest_text(f"not {text}")
