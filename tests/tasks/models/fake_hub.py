"""A model hub on this machine, with faults on demand, and a loaded program that asks it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.models.checkpoints import FILES, LEFT_OUT, REVISION
from tests.tiny_models.serving import Handler, Serving


class _Answers(Handler):
    owner: FakeHub

    def do_HEAD(self) -> None:
        self.answer(send=False)

    def do_GET(self) -> None:
        self.answer(send=True)

    def answer(self, send: bool) -> None:
        hub = self.owner
        path = self.path.partition("?")[0]
        hub.asked.append((self.command, path, self.headers.get("Range")))
        if hub.status is not None:
            code, reason = hub.status
            self.reply(code, b"{}", {"X-Error-Code": reason, "X-Error-Message": reason}, send)
        elif path in ("/api/models/someone/toy", f"/api/models/someone/toy/revision/{REVISION}"):
            self.reply(
                200, json.dumps({"id": "someone/toy", "sha": REVISION, **hub.about}).encode(), {}, send
            )
        elif path == f"/api/models/someone/toy/tree/{REVISION}":
            self.reply(200, json.dumps(hub.tree()).encode(), {}, send)
        elif path.startswith(f"/someone/toy/resolve/{REVISION}/"):
            self.file(path.removeprefix(f"/someone/toy/resolve/{REVISION}/"), send)
        else:
            self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"}, send)

    def file(self, name: str, send: bool) -> None:
        hub = self.owner
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
        self.send(code, body, headers, cut if send else 0)
        if cut is not None:
            self.owner.cuts -= 1
            if self.owner.stalls:
                self.owner.stalled.set()
                self.owner.released.wait(60)
            self.close_connection = True


class FakeHub(Serving):
    """What the hub holds, what it does wrong, and what it was asked.

    Attributes
    ----------
    files
        Text by path; those that end in ``.safetensors`` or ``.ckpt`` are large files, with a SHA-256.
    about
        What it says of the repository besides its name and commit.
    cut_after
        Bytes after which the next `cuts` answers of weights break off.
    stalls
        Whether weights stop there without an end.
    stalled, released
        Set when they have, and by a test that lets them end.
    status
        HTTP status and error code of every answer; None where all is well.
    sent
        In place of a file's own text, what is sent of it.
    asked
        Method, path and range of every request.
    """

    handler = _Answers

    def __init__(self) -> None:
        self.files = {**FILES, **LEFT_OUT}
        self.about: dict[str, Any] = {}
        self.cut_after: int | None = None
        self.cuts = 0
        self.stalls = False
        self.stalled, self.released = threading.Event(), threading.Event()
        self.status: tuple[int, str] | None = None
        self.sent: dict[str, str] = {}
        self.stated_sha256: dict[str, str] = {}
        self.asked: list[tuple[str, str, str | None]] = []

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

    def __exit__(self, *problem: object) -> None:
        self.released.set()
        super().__exit__(*problem)


@contextmanager
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Serve a hub on loopback, to which HF_ENDPOINT points, until the block ends."""
    with FakeHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.base)
        yield hub


#: Runs the program for each line of input in a copy of itself, which reads small pieces and never sleeps.
_LOADED = """
import io, json, os, runpy, sys, time
import huggingface_hub.hf_api, huggingface_hub._snapshot_download, huggingface_hub.file_download
from huggingface_hub import constants
program = runpy.run_path(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os.environ.update(asked["environment"])
        constants.ENDPOINT = here = asked["environment"]["HF_ENDPOINT"]
        constants.HUGGINGFACE_CO_URL_TEMPLATE = here + "/{repo_id}/resolve/{revision}/{filename}"
        constants.DOWNLOAD_CHUNK_SIZE = 100_000
        time.sleep = lambda seconds: None
        sys.stdin = io.StringIO(asked["request"])
        program["main"]()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said]), flush=True)
"""
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@contextmanager
def loaded_program(program: Path, home: Path) -> Iterator[Run]:
    """Give what stands for :func:`subprocess.run` of the hub's program, and starts no Python each time."""
    command = [sys.executable, "-P", "-c", _LOADED, str(program)]
    settings = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
    settings["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=settings, stdin=pipe, stdout=pipe, text=True) as process:

        def run(command: list[str], *, env: dict[str, str], input: bytes, **_: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            environment = {name: value for name, value in env.items() if name.startswith("HF_")}
            asked = {"environment": environment, "request": input.decode()}
            print(json.dumps(asked), file=process.stdin, flush=True)
            code, said = json.loads(process.stdout.readline())
            return subprocess.CompletedProcess(command, code, said.encode())

        yield run
