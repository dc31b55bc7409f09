"""Embeddings of texts from OpenAI-compatible servers (``/v1/embeddings``: vLLM, TEI, llama.cpp, OpenAI)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.judgements import Failure
from storage_schemas.secrets import strike_out
from tasks.llm.providers.base import codes_of, failure_of, status_of
from tasks.llm.providers.lenient import at, count_at, json_of, text_at
from tasks.llm.servers import (
    ChatServer,
    HttpStatus,
    NotAllowed,
    ServerDown,
    ask_json,
    json_client,
    no_such_model,
    quota_used_up,
    refused_key,
    told_by,
    why,
)

#: Texts per request; OpenAI accepts 2,048, smaller servers fewer.
BATCH = 128
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.2, 10.0


class Refused(Exception):
    """The server rejected these texts, or its answer is not their embeddings."""


@dataclass(frozen=True)
class Embedded:
    """Embeddings of texts, ``(n, width)`` float64, as the server gave them, and their cost.

    `tokens` is None if the server did not count them.
    """

    rows: NDArray[np.float64]
    model: str
    tokens: int | None
    seconds: float
    requests: int


class EmbeddingsClient:
    """Requests embeddings from one model on one server.

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
        model = self.server.model
        tokens: list[int | None] = []
        for first in range(0, len(texts), BATCH):
            batch = list(texts[first : first + BATCH])
            answer = self._ask(batch)
            rows.append(read_rows(answer, len(batch)))
            model = strike_out(text_at(answer, "model")) or model
            tokens.append(count_at(answer, "usage", "prompt_tokens"))
        widths = {part.shape[1] for part in rows}
        if len(widths) > 1:
            raise Refused(f"the server gave rows of {sorted(widths)} numbers: they cannot be compared")
        whole = np.concatenate(rows) if rows else np.empty((0, 0))
        counted = None if None in tokens else sum(count or 0 for count in tokens)
        return Embedded(whole, model, counted, time.monotonic() - start, len(tokens))

    def _ask(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the answer; transient faults are retried within the server's patience."""
        end = time.monotonic() + self.server.patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return self._once(texts)
            except _Forbidden as problem:
                self._require_permission()
                raise Refused(f"the server refused the texts: HTTP 403{problem}") from problem
            except _Unavailable as problem:
                if time.monotonic() + pause > end:
                    raise ServerDown(
                        f"{self.server.where} does not answer ({problem}): "
                        "start it, then run the same command again: scores computed so far are stored"
                    ) from problem
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_S)

    def _require_permission(self) -> None:
        """Raise NotAllowed if the server also forbids a harmless text."""
        try:
            self._once(["yes"])
        except _Forbidden as problem:
            raise refused_key(self.server, str(problem)) from problem
        except (_Unavailable, Refused):
            pass

    def _once(self, texts: Sequence[str]) -> dict[str, Any]:
        body = {"model": self.server.model, "input": list(texts), "encoding_format": "float"}
        try:
            answer = ask_json(self._http, self.server, "/embeddings", body)
        except HttpStatus as problem:
            raise self._status(problem.code, problem.text) from problem
        except (OSError, ValueError) as problem:
            raise _Unavailable(why(problem)) from problem
        error = at(answer, "error")
        if error and not at(answer, "data"):
            raise self._status(status_of(error) or 500, json.dumps(answer))
        if not isinstance(answer, dict):
            raise Refused(f"the server answered {strike_out(repr(answer)):.100}, which are not embeddings")
        return answer

    def _status(self, code: int, text: str) -> Exception:
        message = told_by(text)
        failure = failure_of(code, message, codes_of(at(json_of(text), "error")))
        if failure is Failure.QUOTA_USED_UP:
            return quota_used_up(self.server, message)
        if code == 403:
            return _Forbidden(message)
        if code == 401:
            return refused_key(self.server, message)
        if code == 404 and "model" in text.lower():
            return no_such_model(self.server, said=message)
        if code == 404:
            return NotAllowed(
                f"model server {self.server.name} has no {self.server.base}/embeddings{message}: serve an "
                "embedding model there, for instance with vLLM"
            )
        if failure is Failure.SERVER_ERROR:
            return _Unavailable(f"HTTP {code}{message}")
        return Refused(f"the server refused the texts: HTTP {code}{message}")


class _Unavailable(Exception):
    """The server does not answer at the moment."""


class _Forbidden(Exception):
    """The server forbids these texts, or every request with this key."""


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
