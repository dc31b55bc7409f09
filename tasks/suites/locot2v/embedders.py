"""What embeds texts: an OpenAI-compatible server, or the text tower of a CLIP.

The paper does not name its embedding model.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from storage_schemas.errors import UserInputError
from storage_schemas.judgement import Failure
from storage_schemas.model import Frozen
from tasks.evaluators.base import NotJudged, Usage
from tasks.evaluators.clip_models import ClipSource, Encoder, HubClip, ServedClipSource, server_failures
from tasks.evaluators.setup import Setup
from tasks.models.embeddings import EmbeddingsClient, Refused
from tasks.models.servers import check_server

Rows = NDArray[np.float64]

#: Places of a CLIP's text that are left for its marks, and for words that a cut splits otherwise.
_CLIP_MARKS = 4
#: What servers say of a text that is too long for the model.
_TOO_LONG = re.compile(r"context|too long|too large|maximum.{0,40}(length|tokens)|batch size", re.IGNORECASE)


class EmbeddingModel(Frozen):
    """What embeds texts.

    Parameters
    ----------
    kind
        ``embeddings``: a server with ``/v1/embeddings``. ``clip``: the text tower of a CLIP; a text that is
        longer than it reads is cut into pieces, whose rows are averaged by their tokens.
    model
        Its id at the server, or the name of a CLIP in the models folder.
    server
        Name of the server in the profile's ``[model_servers]``; empty for a CLIP that is loaded here.
    revision, code_revision
        Of a served CLIP: what the server has to say of its version.
    most_tokens
        Most tokens of a text at a server; a judge shortens long prompts to it.
    dtype
        Of a CLIP that is loaded here.
    characters_per_token
        For estimates.
    """

    kind: Literal["embeddings", "clip"] = "embeddings"
    model: str
    server: str = ""
    revision: str | None = None
    code_revision: str | None = None
    most_tokens: int = Field(default=8192, ge=1)
    dtype: str = "float32"
    characters_per_token: float = Field(default=4.6, gt=0)


#: Not from the paper: a small open model (Apache-2.0) that reads whole descriptions.
READY: Mapping[str, EmbeddingModel] = {
    "qwen3-embedding-0.6b": EmbeddingModel(
        model="Qwen/Qwen3-Embedding-0.6B", server="embeddings", most_tokens=32_768
    ),
}


def embedding_model(said: str | Mapping[str, Any]) -> EmbeddingModel:
    """Return the model from its name, or from a table of its fields.

    Raises
    ------
    UserInputError
        If there is none of that name, or a field does not fit.
    """
    if isinstance(said, str):
        if said not in READY:
            raise UserInputError(
                f"embeddings: {said!r} is no ready model ({', '.join(READY)}): give a table with model and "
                "server"
            )
        return READY[said]
    unknown = [key for key in said if key not in EmbeddingModel.model_fields]
    if unknown:
        raise UserInputError(
            f"embeddings has no field {unknown[0]!r}: it has {', '.join(EmbeddingModel.model_fields)}"
        )
    made = EmbeddingModel.model_validate(dict(said))
    if made.kind == "embeddings" and not made.server:
        raise UserInputError("embeddings: name the server (model_servers of the profile), or kind = 'clip'")
    return made


@dataclass(frozen=True)
class Vectors:
    """Rows of texts, ``(n, width)``, and what they took."""

    rows: Rows
    model: str
    usage: Usage
    requests: int


class Embedder(Protocol):
    """Embeds texts."""

    def settings(self) -> dict[str, Any]:
        """Return what rows depend on, JSON-able."""

    def check(self) -> None:
        """Raise PrerequisiteError where it is not there."""

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of texts; raise NotJudged where there are none."""


class ServedEmbedder:
    """A server with ``/v1/embeddings``."""

    def __init__(self, client: EmbeddingsClient) -> None:
        self.client = client

    def settings(self) -> dict[str, Any]:
        """Return the model's name."""
        return {"kind": "embeddings", "model": self.client.server.model}

    def check(self) -> None:
        """Ask the server whether it has the model."""
        check_server(self.client.server)

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of texts."""
        with server_failures():
            try:
                found = self.client.embed(texts)
            except Refused as problem:
                failure = Failure.CONTEXT_TOO_LONG if _TOO_LONG.search(str(problem)) else Failure.REFUSED
                raise NotJudged(failure, f"embeddings: {problem}") from problem
        usage = Usage(tokens_in=found.tokens, seconds=found.seconds, tries=found.requests)
        return Vectors(found.rows, found.model, usage, found.requests)


class ClipEmbedder:
    """The text tower of a CLIP."""

    def __init__(self, source: ClipSource, name: str) -> None:
        self._source, self._name = source, name

    def settings(self) -> dict[str, Any]:
        """Return the model and its versions."""
        return {"kind": "clip", **self._source.settings()}

    def check(self) -> None:
        """Check that the model is there."""
        self._source.check()

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of texts, pieces of long ones averaged."""
        start = time.perf_counter()
        with server_failures():
            encoder = self._source.encoder()
            rows = np.stack([_clip_row(encoder, text) for text in texts])
        return Vectors(rows, self._name, Usage(seconds=time.perf_counter() - start, tries=0), 0)


def _clip_row(encoder: Encoder, text: str) -> Rows:
    pieces = pieces_of(text, encoder.ends(text), max(1, encoder.limit - _CLIP_MARKS))
    rows = encoder.texts([piece for piece, _ in pieces], encoder.limit).astype(np.float64)
    weights = np.array([tokens for _, tokens in pieces], dtype=np.float64)
    found: Rows = (rows * weights[:, None]).sum(0) / weights.sum()
    return found


def pieces_of(text: str, ends: Sequence[int], most: int) -> list[tuple[str, int]]:
    """Return a text in pieces of at most `most` tokens, each with its number of tokens.

    Parameters
    ----------
    ends
        Where each token ends, in characters, rising.

    Examples
    --------
    >>> pieces_of("a bb c", [1, 4, 6], 2)
    [('a bb', 2), ('c', 1)]
    """
    found, begin = [], 0
    for first in range(0, len(ends), most):
        some = ends[first : first + most]
        found.append((text[begin : some[-1]].strip(), len(some)))
        begin = some[-1]
    return found or [(text, 1)]


def embedder_of(setup: Setup, model: EmbeddingModel) -> Embedder:
    """Return what embeds; nothing is loaded or asked yet.

    Raises
    ------
    PrerequisiteError
        If the profile does not name its server.
    """
    if model.kind == "embeddings":
        return ServedEmbedder(EmbeddingsClient(setup.servers.find(model.server, model.model)))
    source: ClipSource
    if model.server:
        server = setup.servers.find(model.server, model.model)
        source = ServedClipSource(server, model.revision, model.code_revision)
    else:
        source = HubClip(setup.models, model.model, model.dtype)
    return ClipEmbedder(source, model.model)
