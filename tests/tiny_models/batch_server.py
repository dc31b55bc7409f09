"""A server of this process with the batch interfaces of OpenAI, Anthropic and Google.

Batches stay until the `with` block ends, and are answered when a test says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from tests.tiny_models.provider_server import KEY, Said, error
from tests.tiny_models.provider_server import _anthropic as anthropic_message
from tests.tiny_models.provider_server import _google as google_message
from tests.tiny_models.provider_server import _openai as openai_message
from tests.tiny_models.serving import Handler, Serving


@dataclass
class Batch:
    """A batch: its requests by id, and what is reported about each; None for one that expires."""

    name: str
    requests: dict[str, dict[str, Any]]
    said: dict[str, Said | None] = field(default_factory=dict)
    ended: bool = False
    failed: str = ""
    made_at: datetime = field(default_factory=lambda: datetime.now(UTC))


def _as_lines(values: Iterator[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


class _Answers(Handler):
    owner: BatchServer

    def do_POST(self) -> None:
        server = self.owner
        body = self.content()
        path = self.path.partition("?")[0]
        # the address of an upload is its own key
        if path != "/upload/here" and not self._allowed():
            self.send(*error(server.provider, "key")[::2])
        elif path == "/upload/v1beta/files":
            where = {"X-Goog-Upload-URL": f"{server.base}/upload/here"}
            self.send(200, {}, where)
        elif path == "/upload/here":
            id_ = f"file_{len(server.files)}"
            server.files[id_] = body
            self.send(200, {"file": {"name": f"files/{id_}"}}, {"X-Goog-Upload-Status": "final"})
        elif path == "/v1beta/models/m:batchGenerateContent":
            asked = json.loads(body)["batch"]
            file = server.files[asked["inputConfig"]["fileName"].removeprefix("files/")]
            requests = {one["key"]: one["request"] for one in map(json.loads, file.splitlines())}
            self.send(200, server.described(server.take(asked["displayName"], requests)))
        elif path == "/v1/files":
            boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
            part = next(p for p in body.split(b"--" + boundary) if b'name="file"' in p)
            id_ = f"file_{len(server.files)}"
            content = server.files[id_] = part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
            told = {"id": id_, "object": "file", "bytes": len(content), "created_at": 1}
            self.send(200, {**told, "filename": "f", "purpose": "batch", "status": "processed"})
        elif path == "/v1/batches":
            asked = json.loads(body)
            lines = [json.loads(line) for line in server.files[asked["input_file_id"]].splitlines()]
            requests = {line["custom_id"]: line["body"] for line in lines}
            self.send(200, server.described(server.take(asked["metadata"]["slvmeval"], requests)))
        elif path == "/v1/messages/batches":
            requests = {one["custom_id"]: one["params"] for one in json.loads(body)["requests"]}
            self.send(200, server.described(server.take("", requests)))
        else:
            server.asked_live += 1
            self.send(*error(server.provider, "no-model")[::2])

    def do_GET(self) -> None:
        server = self.owner
        path = self.path.partition("?")[0]
        words = path.strip("/").split("/")
        model = {"id": "m", "type": "model"}
        if not self._allowed():
            self.send(*error(server.provider, "key")[::2])
        elif words[1] == "files" and words[-1].endswith(":download"):
            lines = server.google_lines(words[2].removesuffix(":download"))
            self.send(200, server.bad_lines + _as_lines(lines))
        elif words[0] == "v1beta" and words[1] == "models":
            self.send(200, {"models": [{"name": "models/m"}]})
        elif words[0] == "v1beta" and words[1:] == ["batches"]:
            listed = [server.described(id_) for id_ in reversed(server.batches)]
            self.send(200, {"operations": listed})
        elif words[1] == "files":
            id_, kind = words[2].rsplit("-", 1)
            lines = server.openai_lines(id_, kind == "err")
            self.send(200, server.bad_lines + _as_lines(lines))
        elif words[1] == "models":
            self.send(200, {"data": [model], "has_more": False})
        elif words[-1] == "batches":
            listed = [server.described(id_) for id_ in reversed(server.batches)]
            last = listed[-1]["id"] if listed else None
            self.send(200, {"object": "list", "data": listed, "has_more": False, "last_id": last})
        elif words[-1] == "results":
            lines = server.anthropic_lines(words[-2])
            self.send(200, server.bad_lines + _as_lines(lines))
        else:
            self.send(200, server.described(words[-1]))

    def _allowed(self) -> bool:
        given = (self.headers.get("x-api-key"), self.headers.get("x-goog-api-key"))
        return KEY in given or self.headers.get("Authorization") == f"Bearer {KEY}"


@dataclass
class BatchServer(Serving):
    """Serves one provider's batches until its `with` block ends.

    Parameters
    ----------
    on_hand_over
        Called when a batch has been stored, before the provider says so.
    """

    handler: ClassVar[type[Handler]] = _Answers
    provider: str
    on_hand_over: Callable[[], None] = lambda: None
    batches: dict[str, Batch] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    #: Lines among the answers that are none.
    bad_lines: str = ""
    asked_live: int = 0

    @property
    def url(self) -> str:
        if self.provider == "offline":
            return "offline"
        return self.base + ("/v1" if self.provider == "openai" else "")

    @property
    def protocol(self) -> str:
        return "openai" if self.provider == "offline" else self.provider

    @property
    def handed_over(self) -> list[str]:
        return [id_ for batch in self.batches.values() for id_ in batch.requests]

    def answer(self, said: Callable[[int], Said | None] = lambda number: Said()) -> None:
        """End all batches; each request, by its number, gets what it was given."""
        number = 0
        for batch in self.batches.values():
            for id_ in batch.requests:
                batch.said.setdefault(id_, said(number))
                number += 1
            batch.ended = True

    def take(self, name: str, requests: dict[str, dict[str, Any]]) -> str:
        id_ = f"batch_{len(self.batches)}"
        self.batches[id_] = Batch(name, requests)
        self.on_hand_over()
        return id_

    def described(self, id_: str) -> dict[str, Any]:
        """Return a batch as the provider describes it."""
        batch = self.batches[id_]
        if self.provider == "openai":
            status = "failed" if batch.failed else "completed" if batch.ended else "in_progress"
            if batch.ended and None in batch.said.values():
                status = "expired"
            problems = {"object": "list", "data": [{"message": batch.failed}]} if batch.failed else None
            return {
                "id": id_,
                "object": "batch",
                "completion_window": "24h",
                "created_at": int(batch.made_at.timestamp()),
                "endpoint": "/v1/chat/completions",
                "input_file_id": "file",
                "status": status,
                "errors": problems,
                "metadata": {"slvmeval": batch.name},
                "output_file_id": f"{id_}-out" if batch.ended else None,
                "error_file_id": f"{id_}-err" if batch.ended else None,
            }
        now = batch.made_at
        if self.provider == "google":
            said = batch.said.values()
            expired = bool(said) and all(one is None for one in said)
            ended = "FAILED" if batch.failed else "EXPIRED" if expired else "SUCCEEDED"
            told = {
                "model": "models/m",
                "displayName": batch.name,
                "state": f"BATCH_STATE_{ended if batch.ended or batch.failed else 'PENDING'}",
                "createTime": now.isoformat(),
            }
            if batch.ended:
                told["output"] = {"responsesFile": f"files/{id_}"}
            return {"name": f"batches/{id_}", "metadata": told}
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        counts["succeeded" if batch.ended else "processing"] = len(batch.requests)
        return {
            "id": id_,
            "type": "message_batch",
            "processing_status": "ended" if batch.ended else "in_progress",
            "request_counts": counts,
            "created_at": now.isoformat(),
            "expires_at": (now + timedelta(hours=24)).isoformat(),
            "ended_at": now.isoformat() if batch.ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.base}/v1/messages/batches/{id_}/results" if batch.ended else None,
        }

    def openai_lines(self, id_: str, errors: bool) -> Iterator[dict[str, Any]]:
        for key, said in self.batches[id_].said.items():
            line: dict[str, Any] = {"id": "r", "custom_id": key, "response": None, "error": None}
            if said is None:
                line["error"] = {"code": "batch_expired", "message": "This request could not be executed."}
            else:
                status, body = 200, openai_message(said)
                if said.error:
                    status, _, body = error("openai", said.error)
                if said.change is not None:
                    body = said.change("openai", body)
                line["response"] = {"status_code": status, "request_id": "r", "body": body}
            if errors == (said is None or bool(said.error)):
                yield line

    def google_lines(self, id_: str) -> Iterator[dict[str, Any]]:
        for key, said in self.batches[id_].said.items():
            if said is not None and said.error:
                yield {"key": key, "error": error("google", said.error)[2]["error"]}
            elif said is not None:
                yield {"key": key, "response": google_message(said)}

    def anthropic_lines(self, id_: str) -> Iterator[dict[str, Any]]:
        for key, said in self.batches[id_].said.items():
            result: dict[str, Any] = {"type": "expired"}
            if said is not None and said.error:
                result = {"type": "errored", "error": error("anthropic", said.error)[2]}
            elif said is not None:
                result = {"type": "succeeded", "message": anthropic_message(said)}
            yield {"custom_id": key, "result": result}
