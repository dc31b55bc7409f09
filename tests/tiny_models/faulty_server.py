"""An OpenAI-compatible server of this process that answers as it is told: slowly, wrongly, or not at all.

It listens on the loopback interface only, in a thread that ends with the `with` block.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.tiny_models.serving import Handler, Serving, completion

#: What an analysis of a red ball looks like.
RED_BALL = {
    "subject": ["ball"],
    "background": ["meadow"],
    "dynamic_degree": [{"agent": "ball", "action": "rolls"}],
    "human_action": [],
    "color": [{"color": "red", "object": "ball"}],
    "spatial_relationship": [{"location": "left", "object": "ball"}],
    "scene": ["meadow"],
}


@dataclass(frozen=True)
class Reply:
    """What the server does with one request.

    `tokens` are those of the request and of the answer that it reports. `cut` closes the connection:
    ``before`` any byte, or in the middle of the ``body``.
    """

    text: str | None = json.dumps(RED_BALL)
    reasoning: str | None = None
    finish_reason: str = "stop"
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut: str = ""
    tokens: tuple[int, int] = (100, 20)
    #: Each token with the log probabilities of what it could have been.
    logprobs: Sequence[tuple[str, dict[str, float]]] = ()


@dataclass
class Seen:
    """One request as the server saw it."""

    body: dict[str, Any]
    headers: dict[str, str]
    at: float

    @property
    def caption(self) -> str:
        """The caption that the first message of the user has."""
        user = next(m["content"] for m in self.body["messages"] if m["role"] == "user")
        return str(json.loads(user)["caption"])


Plan = Callable[[int, dict[str, Any]], Reply]


class _Answers(Handler):
    owner: FaultyServer

    def do_GET(self) -> None:
        server = self.owner
        server.listed += 1
        if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
            return self.send(401, {})
        if not server.models:
            return self.send(404, {"error": {"message": "no such page"}})
        models = [{"id": name, "object": "model"} for name in server.models]
        return self.send(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        server, body = self.owner, json.loads(self.content())
        if server.down:
            self.close_connection = True
            return
        server.count(1)
        try:
            reply = server.reply(body, {name.lower(): value for name, value in self.headers.items()})
            time.sleep(reply.delay_s)
        finally:
            server.count(-1)
        content = reply.body
        if content is None:
            content = json.dumps(_completion(reply, body) if reply.status == 200 else _error(reply)).encode()
        if reply.cut:
            self.close_connection = True
        if reply.cut != "before":
            cut_at = len(content) // 2 if reply.cut == "body" else None
            self.send(reply.status, content, reply.headers, cut_at)


class FaultyServer(Serving):
    """Serves until its `with` block ends.

    Parameters
    ----------
    plan
        Called with the number of the request (from 0) and its body; or replies in order, the last one for
        ever.
    models
        What it says it has.
    key
        The key that it wants, if any.
    """

    handler = _Answers

    def __init__(
        self, plan: Plan | Sequence[Reply] | None = None, models: Sequence[str] = ("tiny",), key: str = ""
    ) -> None:
        self.seen: list[Seen] = []
        self.listed = 0
        self.down = False
        self.in_flight = 0
        self.most_in_flight = 0
        self.models = models
        self.key = key
        self._plan = plan
        self._lock = threading.Lock()

    def __exit__(self, *problem: object) -> None:
        # connections that are kept alive end with their next request
        self.down = True
        super().__exit__(*problem)

    def reply(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        with self._lock:
            number = len(self.seen)
            self.seen.append(Seen(body, headers, time.monotonic()))
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return Reply(status=401)
        if body["model"] not in self.models:
            return Reply(status=404)
        if self._plan is None:
            return Reply()
        if callable(self._plan):
            return self._plan(number, body)
        return self._plan[min(number, len(self._plan) - 1)]

    def count(self, step: int) -> None:
        with self._lock:
            self.in_flight += step
            self.most_in_flight = max(self.most_in_flight, self.in_flight)


def _completion(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    reasoning = {} if reply.reasoning is None else {"reasoning": reply.reasoning}
    message = {"role": "assistant", "content": reply.text, **reasoning}
    result = completion(body["model"], message, reply.finish_reason, reply.tokens)
    if body.get("logprobs"):
        result["choices"][0]["logprobs"] = {"content": [_token(*one) for one in reply.logprobs]}
    return result


def _token(token: str, chances: dict[str, float]) -> dict[str, Any]:
    top = [{"token": one, "logprob": logprob} for one, logprob in chances.items()]
    return {"token": token, "logprob": chances.get(token, -9.0), "top_logprobs": top}


def _error(reply: Reply) -> dict[str, Any]:
    return {"error": {"message": reply.text or "no", "type": "error", "code": reply.status}}
