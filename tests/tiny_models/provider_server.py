"""A server of this process that speaks the protocols of OpenAI, Anthropic and Gemini.

It listens on the loopback interface only, in a thread that ends with the `with` block.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.tiny_models.serving import Handler, Serving, completion

KEY = "key-0123456789"


#: Makes another body of the provider's usual one, and its status if that is not 200.
Change = Callable[[str, dict[str, Any]], Any]


@dataclass(frozen=True)
class Said:
    """What the server does with one request: an answer, a kind of :func:`error`, or another text.

    With the error ``broken`` it reads the request and closes the connection. `change` is a bad habit.
    """

    text: str = '{"better": "first"}'
    refusal: str | None = None
    finish: str = "stop"
    error: str = ""
    page: str = ""
    delay_s: float = 0.0
    change: Change | None = None


@dataclass
class Seen:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class _Answers(Handler):
    owner: ProviderServer

    def do_POST(self) -> None:
        server = self.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        number = len(server.seen)
        server.seen.append(Seen(self.path, headers, json.loads(self.content())))
        said = server.plan(number)
        time.sleep(said.delay_s)
        if said.error == "broken":
            self.close_connection = True
            return
        self.answer(*(server.respond(said) if server.allowed(headers) else error(server.provider, "key")))

    def do_GET(self) -> None:
        server, path = self.owner, self.path.partition("?")[0]
        name = path.rpartition("/models")[2].strip("/")
        model = {"id": "listed", "name": "models/listed", "type": "model"}
        if not server.allowed({k.lower(): v for k, v in self.headers.items()}):
            self.answer(*error(server.provider, "key"))
        elif name in ("", "listed", "alias"):
            listed = {"data": [model], "models": [model], "has_more": False}
            self.send(200, model if name else listed)
        else:
            self.answer(*error(server.provider, "no-model"))

    def answer(self, status: int, headers: dict[str, str], value: Any) -> None:
        self.send(status, value, headers)


@dataclass
class ProviderServer(Serving):
    """Serves one provider's protocol until its `with` block ends."""

    handler: ClassVar[type[Handler]] = _Answers
    provider: str
    plan: Callable[[int], Said] = lambda number: Said()
    seen: list[Seen] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.base + ("/v1" if self.provider == "openai" else "")

    def allowed(self, headers: dict[str, str]) -> bool:
        if self.provider == "google":
            return headers.get("x-goog-api-key") == KEY
        return headers.get("authorization") == f"Bearer {KEY}"

    def respond(self, said: Said) -> tuple[int, dict[str, str], Any]:
        if said.page:
            return 200, {}, said.page
        if said.error:
            return error(self.provider, said.error)
        body = {"openai": _openai, "anthropic": _anthropic, "google": _google}[self.provider](said)
        if said.change is None:
            return 200, {}, body
        changed = said.change(self.provider, body)
        return (changed[0], {}, changed[1]) if isinstance(changed, tuple) else (200, {}, changed)


def _openai(said: Said) -> dict[str, Any]:
    message = {"role": "assistant", "content": None if said.refusal else said.text, "refusal": said.refusal}
    details = {"prompt_tokens_details": {"cached_tokens": 60}}
    details |= {"completion_tokens_details": {"reasoning_tokens": 15}}
    return completion("m-2026", message, said.finish, (100, 20), **details)


def _anthropic(said: Said) -> dict[str, Any]:
    stop = {"stop": "end_turn", "length": "max_tokens"}[said.finish]
    refused = {"type": "refusal", "category": "bio", "explanation": said.refusal}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-2026",
        "content": [] if said.refusal else [{"type": "text", "text": said.text}],
        "stop_reason": "refusal" if said.refusal else stop,
        "stop_details": refused if said.refusal else None,
        "usage": {
            "input_tokens": 40,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 0,
            "output_tokens": 20,
            "output_tokens_details": {"thinking_tokens": 15},
        },
    }


def _google(said: Said) -> dict[str, Any]:
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 15,
        "totalTokenCount": 120,
    }
    finish = {"stop": "STOP", "length": "MAX_TOKENS"}[said.finish]
    candidate: dict[str, Any] = {"index": 0, "finishReason": finish}
    candidate["content"] = {"role": "model", "parts": [{"text": said.text}]}
    if said.refusal:
        candidate = {"index": 0, "finishReason": "SAFETY"}
        candidate["content"] = {"role": "model", "parts": [{"text": said.refusal}]}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m-2026"}


def error(provider: str, kind: str) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and body of an error: too-fast, no-credit, bad, key, overloaded, no-model."""
    if kind == "page":
        return 200, {}, "<html>gateway</html>"
    if kind == "gateway-timeout":
        return 504, {}, "<html>gateway</html>"
    if provider == "openai":
        status, code, text = {
            "too-fast": (429, "rate_limit_exceeded", "slow down"),
            "no-credit": (429, "insufficient_quota", "You exceeded your current quota"),
            "bad": (400, "invalid_value", "bad image"),
            "key": (401, "invalid_api_key", "wrong key"),
            "forbidden": (403, "permission_error", "not for you"),
            "overloaded": (503, None, "overloaded"),
            "no-model": (404, "model_not_found", "no such model"),
        }[kind]
        headers = {"Retry-After": "0.5"} if kind == "too-fast" else {}
        return status, headers, {"error": {"message": text, "type": code, "param": None, "code": code}}
    if provider == "anthropic":
        status, code, text = {
            "too-fast": (429, "rate_limit_error", "slow down"),
            "no-credit": (400, "invalid_request_error", "Your credit balance is too low to access the API"),
            "bad": (400, "invalid_request_error", "bad image"),
            "key": (401, "authentication_error", "invalid x-api-key"),
            "forbidden": (403, "permission_error", "not for you"),
            "overloaded": (529, "overloaded_error", "overloaded"),
            "no-model": (404, "not_found_error", "model: m"),
        }[kind]
        headers = {"Retry-After": "0.5"} if kind == "too-fast" else {}
        return status, headers, {"type": "error", "error": {"type": code, "message": text}}
    base = "type.googleapis.com/google.rpc."
    retry = {"@type": f"{base}RetryInfo", "retryDelay": "0.5s"}
    day = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
    quota = {"@type": f"{base}QuotaFailure", "violations": [{"quotaId": day}]}
    bad_key = {"@type": f"{base}ErrorInfo", "reason": "API_KEY_INVALID"}
    status, code, text, details = {
        "too-fast": (429, "RESOURCE_EXHAUSTED", "slow down", [retry]),
        "no-credit": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", [quota, retry]),
        "bad": (400, "INVALID_ARGUMENT", "bad image", []),
        "key": (400, "INVALID_ARGUMENT", "API key not valid", [bad_key]),
        "forbidden": (403, "PERMISSION_DENIED", "not for you", []),
        "overloaded": (503, "UNAVAILABLE", "overloaded", []),
        "no-model": (404, "NOT_FOUND", "models/m is not found", []),
    }[kind]
    return status, {}, {"error": {"code": status, "message": text, "status": code, "details": details}}
