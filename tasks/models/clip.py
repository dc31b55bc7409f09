"""Any CLIP, loaded in this process by transformers or behind a server (``tasks/models/clip_server``)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, ValidationError

from storage_schemas.errors import PrerequisiteError
from storage_schemas.model import Frozen
from storage_schemas.secrets import strike_out
from tasks.llm.servers import (
    ChatServer,
    HttpStatus,
    ServerDown,
    ask_json,
    json_client,
    no_such_model,
    refused_key,
    why,
)
from tasks.models.base import OutOfMemory
from tasks.models.clip_server.encoder import ClipEncoder, Parts, Rows
from tasks.models.clip_server.loaders import load_transformers
from tasks.models.residence import Batches
from tasks.models.torch_model import library, loading, memory_errors, torch_dtype

#: Pictures per batch; halved when the device runs out of memory.
BATCH = 32


def load(path: Path, device: str, dtype: str = "float32") -> LoadedClip:
    """Load the checkpoint in a folder; see :func:`~tasks.models.loaders.load_model`."""
    torch_dtype(dtype)
    library("transformers")
    with loading(path, "a CLIP"):
        return LoadedClip(load_transformers(str(path), device, dtype), device, dtype)


class LoadedClip(ClipEncoder):
    """A CLIP that embeds pictures in batches that fit into memory.

    Attributes
    ----------
    batches
        The batches, whose size adapts to the memory.
    """

    def __init__(self, parts: Parts, device: str, dtype: str) -> None:
        self.batches = Batches(BATCH, owner=self)
        self._one_by_one = Batches(1, owner=self)
        super().__init__(parts, device, dtype)

    def images(self, rgb: NDArray[np.uint8]) -> Rows:
        """Return the embeddings of pictures ``(n, H, W, 3)``, shape (n, width)."""

        def work(batch: slice) -> Rows:
            with memory_errors():
                return super(LoadedClip, self).images(rgb[batch])

        return np.stack(self.batches.run(len(rgb), work))

    def texts(self, texts: Sequence[str], most_tokens: int) -> Rows:
        """Return the embeddings of texts, each truncated to `most_tokens`, shape (n, width)."""

        def work(batch: slice) -> Rows:
            with memory_errors():
                return super(LoadedClip, self).texts(texts[batch], most_tokens)

        return np.stack(self._one_by_one.run(len(texts), work))


ServedRows = NDArray[np.float32]

#: Pictures per request; halved when the server runs out of memory.
SERVED_BATCH = 16


class ServedFacts(Frozen):
    """A server's description of its model.

    Parameters
    ----------
    width
        Length of an embedding.
    limit, positions
        Maximum number of tokens that the model was trained for and has positions for; None for no limit.
    dtype
        Of its computation.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    width: int
    limit: int
    positions: int | None
    dtype: str


class ServedModel(Frozen):
    """A model in a server's list."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    revision: str | None = None
    code_revision: str | None = None
    libraries: Mapping[str, str] = {}
    encoder: ServedFacts


class ServedClip:
    """Embeds pictures and texts through a server; like :class:`tasks.models.clip_server.encoder.ClipEncoder`.

    Parameters
    ----------
    server
        Its address and the name of its model.
    """

    def __init__(self, server: ChatServer) -> None:
        self.server = server
        self.batches = Batches(SERVED_BATCH, owner=self)
        self._http = json_client(server)

    @cached_property
    def about(self) -> ServedModel:
        """The server's description of its model, requested once.

        Raises
        ------
        ServerDown, NotAllowed, PrerequisiteError
            If it does not answer, rejects the key, lacks the model, or is another kind of server.
        """
        listed = self._ask("models", None)
        try:
            models = {str(model["id"]): model for model in listed["data"]}
            if self.server.model not in models:
                raise no_such_model(self.server, list(models))
            return ServedModel.model_validate(models[self.server.model])
        except (KeyError, TypeError, ValidationError) as problem:
            raise PrerequisiteError(
                f"{self.server.where} is not a CLIP server like "
                "tasks/models/clip_server: start that one, see docs/scorers.md"
            ) from problem

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return self.about.encoder.width

    @property
    def limit(self) -> int:
        """Maximum number of tokens that the model was trained for."""
        return self.about.encoder.limit

    @property
    def positions(self) -> int | None:
        """Maximum number of tokens that the model accepts; None for no limit."""
        return self.about.encoder.positions

    def images(self, rgb: NDArray[np.uint8]) -> ServedRows:
        """Return the embeddings of pictures ``(n, H, W, 3)``, shape (n, width)."""

        def work(batch: slice) -> ServedRows:
            some = np.ascontiguousarray(rgb[batch])
            data = base64.b64encode(some.tobytes()).decode("ascii")
            return self._rows("images", {"shape": list(some.shape), "rgb": data}, len(some))

        return np.stack(self.batches.run(len(rgb), work))

    def texts(self, texts: Sequence[str], most_tokens: int) -> ServedRows:
        """Return the embeddings of texts, each truncated to `most_tokens`, shape (n, width)."""
        return self._rows("texts", {"texts": list(texts), "most_tokens": most_tokens}, len(texts))

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, with special tokens."""
        return int(self._ask("tokens", {"texts": [text]})["counts"][0])

    def ends(self, text: str) -> list[int]:
        """Return the end of each token of a text, in characters; without special tokens."""
        return [int(end) for end in self._ask("tokens", {"texts": [text], "ends": True})["ends"][0]]

    def _rows(self, path: str, body: Mapping[str, Any], count: int) -> ServedRows:
        reply = self._ask(path, body)
        rows: ServedRows = np.frombuffer(base64.b64decode(reply["rows"]), "<f4").reshape(reply["shape"])
        if rows.shape != (count, self.width):
            raise PrerequisiteError(
                f"{self.server.base} gave rows of {rows.shape} for {count} of {self.width}"
            )
        return rows.astype(np.float32)

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """Return the answer; while the server is unreachable, retry for as long as its patience allows."""
        end = time.monotonic() + self.server.patience_s
        pause = 0.2
        while True:
            try:
                return self._once(path, body)
            except _Unreachable as problem:
                if time.monotonic() + pause > end:
                    raise ServerDown(
                        f"{self.server.where} does not answer ({problem}): "
                        "start it again, see docs/scorers.md"
                    ) from problem
            time.sleep(pause)
            pause = min(2 * pause, 10.0)

    def _once(self, path: str, body: Mapping[str, Any] | None) -> Any:
        asked = None if body is None else {"model": self.server.model, **body}
        try:
            return ask_json(self._http, self.server, f"/{path}", asked)
        except HttpStatus as problem:
            reason = _message(problem.text)
            if problem.code in (401, 403):
                raise refused_key(self.server, f" ({reason})") from problem
            if problem.code == 507:
                raise OutOfMemory(reason) from problem
            if problem.code == 404 and "no model" in reason:
                raise no_such_model(self.server) from problem
            if problem.code in (502, 503, 504):
                raise _Unreachable(f"HTTP {problem.code}") from problem
            message = f"{self.server.where} answers HTTP {problem.code}: {reason}"
            if problem.code >= 500:
                # only this request failed: the next one may succeed
                raise RuntimeError(message) from problem
            raise PrerequisiteError(message) from problem
        except (OSError, ValueError) as problem:
            raise _Unreachable(why(problem)) from problem


class _Unreachable(Exception):
    """The server does not answer at the moment."""


def _message(text: str) -> str:
    try:
        return strike_out(str(json.loads(text)["error"]["message"]))
    except (ValueError, KeyError, TypeError):
        return text[:200]
