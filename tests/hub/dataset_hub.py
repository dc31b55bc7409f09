"""A hub of datasets on this machine, which the real client of the Hugging Face hub uses over HTTP.

It speaks what that client asks: making a repository, the mode of each file, Git LFS' batches and uploads,
commits as lines of JSON, listings, and files with their checksums as ETag.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.tiny_models.serving import Handler, Serving

#: The only user's token; it may write to repositories of `lab`.
TOKEN = "hf_standInTokenOfTheLab"


@dataclass
class Repository:
    """A dataset: its files, and how often it was committed to."""

    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    commits: int = 0

    @property
    def sha(self) -> str:
        return f"{self.commits:040x}"


def _is_large(path: str, size: int) -> bool:
    return size > 100_000 or path.endswith((".tar", ".mp4", ".parquet"))


def _git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class _Answers(Handler):
    owner: DatasetHub

    def do_HEAD(self) -> None:
        self.read(send=False)

    def do_GET(self) -> None:
        self.read(send=True)

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        body = self.content()
        if path == "/api/validate-yaml":
            self.reply(200, {"errors": [], "warnings": []})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(401, {"error": "Invalid username or password."})
        elif path == "/api/repos/create":
            self.create(json.loads(body))
        else:
            self.write(path, body)

    def create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        if asked["organization"] != "lab":
            self.reply(403, {"error": "You don't have the rights to create a dataset there"})
        elif name in self.owner.repositories:
            self.reply(409, {"error": "already created", "url": f"{self.owner.address}/datasets/{name}"})
        else:
            self.owner.repositories[name] = Repository(
                asked.get("visibility") == "private", {".gitattributes": b"*"}
            )
            self.reply(200, {"url": f"{self.owner.address}/datasets/{name}", "name": name})

    def write(self, path: str, body: bytes) -> None:
        parts = path.strip("/").removeprefix("api/").split("/")
        name = f"{parts[1]}/{parts[2]}".removesuffix(".git")
        repository = self.owner.repositories.get(name)
        if repository is None:
            self.reply(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif parts[3] == "preupload":
            files = json.loads(body)["files"]
            self.reply(200, {"files": [self.mode(repository, file) for file in files]})
        elif parts[3:] == ["info", "lfs", "objects", "batch"]:
            objects = json.loads(body)["objects"]
            self.reply(
                200,
                {"transfer": "basic", "objects": [self.action(one) for one in objects]},
                {"Content-Type": "application/vnd.git-lfs+json"},
            )
        elif parts[3] == "commit":
            self.commit(name, repository, [json.loads(line) for line in body.splitlines()])
        else:
            self.reply(404, {"error": path})

    def mode(self, repository: Repository, file: dict[str, Any]) -> dict[str, Any]:
        there = repository.files.get(file["path"])
        large = _is_large(file["path"], file["size"])
        row = {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
        if there is not None:
            row["oid"] = hashlib.sha256(there).hexdigest() if large else _git_sha1(there)
        return row

    def action(self, one: dict[str, Any]) -> dict[str, Any]:
        if one["oid"] in self.owner.objects:
            return one
        return {**one, "actions": {"upload": {"href": f"{self.owner.address}/objects/{one['oid']}"}}}

    def do_PUT(self) -> None:
        oid = self.path.rpartition("/")[2]
        body = self.content()
        assert hashlib.sha256(body).hexdigest() == oid
        # the client sends several at once
        with self.owner.lock:
            taken = self.owner.breaks_after is None or len(self.owner.uploaded) < self.owner.breaks_after
            if taken:
                self.owner.objects[oid] = body
                self.owner.uploaded.append(oid)
        self.reply(200, {}) if taken else self.reply(403, {"error": "no more"})

    def commit(self, name: str, repository: Repository, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repository.files[value["path"]] = self.owner.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del repository.files[value["path"]]
        repository.commits += 1
        url = f"{self.owner.address}/datasets/{name}/commit/{repository.sha}"
        self.reply(200, {"success": True, "commitOid": repository.sha, "commitUrl": url})

    def read(self, send: bool) -> None:
        split = urlsplit(self.path)
        parts = unquote(split.path).strip("/").removeprefix("api/").split("/")
        name = "/".join(parts[1:3])
        repository = self.owner.repositories.get(name)
        allowed = repository is not None and (
            not repository.private or self.headers.get("Authorization") == f"Bearer {TOKEN}"
        )
        if not allowed or repository is None:
            self.reply(401, {"error": "not found"}, {"X-Error-Code": "RepoNotFound"}, send)
        elif parts[3:4] == ["tree"]:
            self.reply(200, self.tree(repository), send=send)
        elif parts[3:4] == ["resolve"]:
            self.file(repository, "/".join(parts[5:]), send)
        elif parts[3:4] in ([], ["revision"]):
            if parts[4:5] not in ([], ["main"], [repository.sha]):
                self.reply(404, {"error": "no revision"}, {"X-Error-Code": "RevisionNotFound"}, send)
                return
            siblings = [{"rfilename": path} for path in sorted(repository.files)]
            self.reply(200, {"id": name, "sha": repository.sha, "siblings": siblings}, send=send)
        else:
            self.reply(404, {"error": parse_qs(split.query)}, send=send)

    def tree(self, repository: Repository) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for path, content in sorted(repository.files.items()):
            row = {"type": "file", "path": path, "size": len(content), "oid": _git_sha1(content)}
            if _is_large(path, len(content)):
                row["lfs"] = {
                    "oid": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                    "pointerSize": 130,
                }
            rows.append(row)
        return rows

    def file(self, repository: Repository, path: str, send: bool) -> None:
        content = repository.files.get(path)
        if content is None:
            self.reply(404, {"error": "no file"}, {"X-Error-Code": "EntryNotFound"}, send)
            return
        large = _is_large(path, len(content))
        etag = hashlib.sha256(content).hexdigest() if large else _git_sha1(content)
        if send:
            self.owner.downloaded.append(path)
        self.reply(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": repository.sha}, send)

    def reply(self, code: int, body: Any, headers: dict[str, str] | None = None, send: bool = True) -> None:
        self.send(code, body, headers, None if send else 0)


@dataclass
class DatasetHub(Serving):
    """What the hub holds, what it was asked, and what it does wrong.

    Attributes
    ----------
    objects
        Large files by SHA-256, whether a commit names them or not.
    uploaded
        SHA-256 of each large file that was sent, in order.
    downloaded
        Path of each file that was sent, in order.
    breaks_after
        Uploads after which the hub answers no more; None if it continues.
    """

    handler: ClassVar[type[Handler]] = _Answers
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    uploaded: list[str] = field(default_factory=list)
    downloaded: list[str] = field(default_factory=list)
    breaks_after: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def dataset(self, name: str) -> Repository:
        return self.repositories[name]

    @property
    def address(self) -> str:
        return self.base


@contextmanager
def dataset_hub(monkeypatch: pytest.MonkeyPatch, home: str) -> Iterator[DatasetHub]:
    """Serve a hub on loopback, to which the environment points, until the block ends."""
    with DatasetHub() as hub:
        # the hub's newer protocol needs a store of chunks behind it
        settings = {"ENDPOINT": hub.address, "HOME": home, "TOKEN": TOKEN, "HUB_DISABLE_XET": "1"}
        for name, value in settings.items():
            monkeypatch.setenv(f"HF_{name}", value)
        yield hub
