"""Embeddings of texts from OpenAI-compatible servers (``/v1/embeddings``: vLLM, TEI, llama.cpp, OpenAI)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.secrets import strike_out
from tasks.llm.servers import (
    ChatServer,
    HttpStatus,
    NotAllowed,
    ServerDown,
    ask_json,
    json_client,
    no_such_model,
    refused_key,
    why,
)

#: Texts per request; OpenAI accepts 2,048, smaller servers fewer.
BATCH = 128
_TRANSIENT = frozenset({408, 409, 425, 429})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0


class Refused(Exception):
    """The server rejected these texts, or its answer is not their embeddings."""


@dataclass(frozen=True)
class Embedded:
    """Embeddings of texts, ``(n, width)`` float64, as the server gave them, and their cost."""

    rows: NDArray[np.float64]
    model: str
    tokens: int
    seconds: float
    requests: int


class EmbeddingsClient:
    """Requests embeddings of one model from one server.

    Parameters
    ----------
    server
        The server, with its name for the model.
    """

    def __init__(self, server: ChatServer) -> None:
        self.server = server
        self._http = json_client(server)

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Return the embeddings of texts, in their order.

        Raises
        ------
        Refused
            If the server rejects the texts or its answer is invalid.
        ServerDown, NotAllowed
            If it does not answer within its patience, refuses the key, or does not have the model.
        """
        start = time.monotonic()
        rows: list[NDArray[np.float64]] = []
        model, tokens, requests = self.server.model, 0, 0
        for first in range(0, len(texts), BATCH):
            batch = list(texts[first : first + BATCH])
            answer = self._ask(batch)
            rows.append(read_rows(answer, len(batch)))
            model = strike_out(str(answer.get("model") or model))
            usage = answer.get("usage")
            counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
            tokens += counted if isinstance(counted, int) else 0
            requests += 1
        widths = {part.shape[1] for part in rows}
        if len(widths) > 1:
            raise Refused(f"the server gave rows of {sorted(widths)} numbers: they cannot be compared")
        whole = np.concatenate(rows) if rows else np.empty((0, 0))
        return Embedded(whole, model, tokens, time.monotonic() - start, requests)

    def _ask(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the answer; transient faults are retried within the server's patience."""
        end = time.monotonic() + self.server.patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return self._once(texts)
            except _Unavailable as problem:
                if time.monotonic() + pause > end:
                    raise ServerDown(
                        f"model server {self.server.name} at {self.server.base} does not answer ({problem}): "
                        "start it, then run the same command again: scores computed so far are stored"
                    ) from problem
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _once(self, texts: Sequence[str]) -> dict[str, Any]:
        body = {"model": self.server.model, "input": list(texts), "encoding_format": "float"}
        try:
            answer = ask_json(self._http, self.server, "/embeddings", body)
        except HttpStatus as problem:
            raise self._status(problem.code, problem.text) from problem
        except (OSError, ValueError) as problem:
            raise _Unavailable(why(problem)) from problem
        if not isinstance(answer, dict):
            raise Refused(f"the server answered {strike_out(repr(answer)):.100}, which are not embeddings")
        return answer

    def _status(self, code: int, text: str) -> Exception:
        if code in (401, 403):
            return refused_key(self.server)
        if code == 404 and "model" in text.lower():
            return no_such_model(self.server)
        if code == 404:
            return NotAllowed(
                f"model server {self.server.name} has no {self.server.base}/embeddings: serve an embedding "
                "model there, for instance with vLLM"
            )
        if code in _TRANSIENT or code >= 500:
            return _Unavailable(f"HTTP {code}")
        return Refused(f"the server refused the texts: HTTP {code} ({text:.200})")


class _Unavailable(Exception):
    """The server does not answer at the moment."""


def read_rows(answer: dict[str, Any], count: int) -> NDArray[np.float64]:
    """Return the embeddings of an answer ordered by `index`, ``(count, width)`` float64.

    Raises
    ------
    Refused
        If there are not exactly `count`, each once, of equal width and with finite numbers.
    """
    try:
        by_index = {int(one["index"]): one["embedding"] for one in answer["data"]}
        rows = np.array([by_index[index] for index in range(count)], dtype=np.float64)
        whole = len(answer["data"]) == count and rows.ndim == 2 and rows.shape[1] > 0
    except (KeyError, TypeError, ValueError) as problem:
        why_not = strike_out(repr(problem))
        raise Refused(f"the server's embeddings do not fit {count} texts ({why_not:.100})") from problem
    if not whole or not np.isfinite(rows).all():
        raise Refused(f"the server's embeddings are not {count} rows of finite numbers")
    return rows
