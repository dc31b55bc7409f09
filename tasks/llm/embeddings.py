"""Embeddings of texts by any OpenAI-compatible server (``/v1/embeddings``: vLLM, TEI, llama.cpp, OpenAI)."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.llm.servers import ChatServer, NotAllowed, ServerDown, is_near, no_such_model, refused_key, why

#: Texts of one request; OpenAI takes 2,048, smaller servers fewer.
BATCH = 128
_PASSING = frozenset({408, 409, 425, 429})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0


class Refused(Exception):
    """The server does not take these texts, or answered with something else than their rows."""


@dataclass(frozen=True)
class Embedded:
    """Rows of texts, ``(n, width)`` float64, as the server gave them, and what they took."""

    rows: NDArray[np.float64]
    model: str
    tokens: int
    seconds: float
    requests: int


class EmbeddingsClient:
    """Asks one server for embeddings by one model.

    Parameters
    ----------
    server
        Where it answers, and what it calls its model.
    """

    def __init__(self, server: ChatServer) -> None:
        self.server = server
        near = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._opener = near if is_near(server.url) else urllib.request.build_opener()

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Return the rows of texts, in their order.

        Raises
        ------
        Refused
            If the server refuses the texts or answers oddly.
        ServerDown, NotAllowed
            If it does not answer for its patience, refuses the key, or does not have the model.
        """
        start = time.monotonic()
        rows: list[NDArray[np.float64]] = []
        model, tokens, requests = self.server.model, 0, 0
        for first in range(0, len(texts), BATCH):
            some = list(texts[first : first + BATCH])
            found = self._ask(some)
            rows.append(read_rows(found, len(some)))
            model = str(found.get("model") or model)
            usage = found.get("usage")
            counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
            tokens += counted if isinstance(counted, int) else 0
            requests += 1
        widths = {part.shape[1] for part in rows}
        if len(widths) > 1:
            raise Refused(f"the server gave rows of {sorted(widths)} numbers: they cannot be compared")
        whole = np.concatenate(rows) if rows else np.empty((0, 0))
        return Embedded(whole, model, tokens, time.monotonic() - start, requests)

    def _ask(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the answer, trying again for the server's patience while it is not there."""
        end = time.monotonic() + self.server.patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return self._once(texts)
            except _Away as problem:
                if time.monotonic() + pause > end:
                    raise ServerDown(
                        f"model server {self.server.name} at {self.server.base} does not answer ({problem}): "
                        "start it, then run the same command again: what is scored is kept"
                    ) from problem
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _once(self, texts: Sequence[str]) -> dict[str, Any]:
        body = {"model": self.server.model, "input": list(texts), "encoding_format": "float"}
        headers = {"Content-Type": "application/json"}
        secret = self.server.secret()
        if secret is not None:
            headers["Authorization"] = f"Bearer {secret}"
        address = f"{self.server.base}/embeddings"
        asked = urllib.request.Request(address, data=json.dumps(body).encode(), headers=headers)
        try:
            with self._opener.open(asked, timeout=self.server.timeout_s) as answer:
                found = json.loads(answer.read())
        except urllib.error.HTTPError as problem:
            with problem:
                said = problem.read(500).decode("utf-8", "replace")
            raise self._status(problem.code, said) from problem
        except (OSError, ValueError) as problem:
            raise _Away(why(problem)) from problem
        if not isinstance(found, dict):
            raise Refused(f"the server answered {found!r:.100}, which are no embeddings")
        return found

    def _status(self, code: int, said: str) -> Exception:
        if code in (401, 403):
            return refused_key(self.server)
        if code == 404 and "model" in said.lower():
            return no_such_model(self.server)
        if code == 404:
            return NotAllowed(
                f"model server {self.server.name} has no {self.server.base}/embeddings: serve a model for "
                "embeddings there, such as by vLLM"
            )
        if code in _PASSING or code >= 500:
            return _Away(f"HTTP {code}")
        return Refused(f"the server refused the texts: HTTP {code} ({said:.200})")


class _Away(Exception):
    """The server does not answer now."""


def read_rows(found: dict[str, Any], count: int) -> NDArray[np.float64]:
    """Return the rows of an answer by their `index`, ``(count, width)``.

    Raises
    ------
    Refused
        If there are not exactly `count`, each once, all of one width and of finite numbers.
    """
    try:
        by_place = {int(one["index"]): one["embedding"] for one in found["data"]}
        rows = np.array([by_place[place] for place in range(count)], dtype=np.float64)
        whole = len(found["data"]) == count and rows.ndim == 2 and rows.shape[1] > 0
    except (KeyError, TypeError, ValueError) as problem:
        raise Refused(f"the server's embeddings do not fit {count} texts ({problem!r:.100})") from problem
    if not whole or not np.isfinite(rows).all():
        raise Refused(f"the server's embeddings are not {count} rows of finite numbers")
    return rows
