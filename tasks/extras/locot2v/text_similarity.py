"""Similarity of texts in meaning: models of embeddings, and stored cosines."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen
from tasks.llm.answer_store import AnswerStore, StoredAnswer
from tasks.llm.answers import text_tokens
from tasks.llm.embeddings import EmbeddingsClient, Refused
from tasks.llm.servers import check_server
from tasks.llm.usage import Estimate, NotJudged, Usage
from tasks.scoring.judges.clip_models import ClipSource, Encoder, HubClip, ServedClipSource, server_failures
from tasks.scoring.setup import Setup

Rows = NDArray[np.float64]

#: Positions of a CLIP's text that are reserved for its marks, and for words that a cut splits differently.
_CLIP_MARKS = 4
#: Servers' messages about a text that is too long for the model.
_TOO_LONG = re.compile(r"context|too long|too large|maximum.{0,40}(length|tokens)|batch size", re.IGNORECASE)


class EmbeddingModel(Frozen):
    """A model of text embeddings.

    Parameters
    ----------
    kind
        ``embeddings``: a server with ``/v1/embeddings``. ``clip``: the text tower of a CLIP; a text that is
        longer than it reads is cut into pieces, whose rows are averaged by their tokens.
    model
        Its id at the server, or the name of a CLIP in the model folder.
    server
        Name of the server in the profile's ``[model_servers]``; empty for a CLIP that is loaded here.
    revision, code_revision
        Of a served CLIP: the version that the server must report.
    most_tokens
        Maximum tokens of a text at a server; judges shorten longer prompts.
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


def embedding_model(setting: str | Mapping[str, Any]) -> EmbeddingModel:
    """Return the model from its name, or from a table of its fields.

    Raises
    ------
    UserInputError
        If the name is unknown or a field is invalid.
    """
    if isinstance(setting, str):
        if setting not in READY:
            raise UserInputError(
                f"embeddings: {setting!r} is not a predefined model ({', '.join(READY)}): give a table with "
                "model and server"
            )
        return READY[setting]
    unknown = [key for key in setting if key not in EmbeddingModel.model_fields]
    if unknown:
        raise UserInputError(
            f"embeddings has no field {unknown[0]!r}: it has {', '.join(EmbeddingModel.model_fields)}"
        )
    made = EmbeddingModel.model_validate(dict(setting))
    if made.kind == "embeddings" and not made.server:
        raise UserInputError("embeddings: name the server (model_servers of the profile), or kind = 'clip'")
    return made


@dataclass(frozen=True)
class Vectors:
    """Rows of texts, ``(n, width)``, and their cost."""

    rows: Rows
    model: str
    usage: Usage
    requests: int


class Embedder(Protocol):
    """Embeds texts."""

    def settings(self) -> dict[str, Any]:
        """Return what rows depend on, JSON-serialisable."""

    def check(self) -> None:
        """Raise PrerequisiteError if it is missing."""

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of texts; raise NotJudged if there are none."""


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
                embedded = self.client.embed(texts)
            except Refused as problem:
                failure = Failure.CONTEXT_TOO_LONG if _TOO_LONG.search(str(problem)) else Failure.REFUSED
                raise NotJudged(failure, f"embeddings: {problem}") from problem
        tokens, known = embedded.tokens, embedded.tokens is not None
        usage = Usage(
            tokens_in=tokens or 0,
            seconds=embedded.seconds,
            tries=embedded.requests,
            uncounted=int(not known),
            estimated_in=0 if known else sum(text_tokens(text) for text in texts),
        )
        return Vectors(embedded.rows, embedded.model, usage, embedded.requests)


class ClipEmbedder:
    """The text tower of a CLIP."""

    def __init__(self, source: ClipSource, name: str) -> None:
        self._source, self._name = source, name

    def settings(self) -> dict[str, Any]:
        """Return the model and its versions."""
        return {"kind": "clip", **self._source.settings()}

    def check(self) -> None:
        """Check that the model is present."""
        self._source.check()

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of texts; a long text's is the mean of its pieces."""
        start = time.perf_counter()
        with server_failures():
            encoder = self._source.encoder()
            rows = np.stack([_clip_row(encoder, text) for text in texts])
        return Vectors(rows, self._name, Usage(seconds=time.perf_counter() - start, tries=0), 0)


def _clip_row(encoder: Encoder, text: str) -> Rows:
    pieces = pieces_of(text, encoder.ends(text), max(1, encoder.limit - _CLIP_MARKS))
    rows = encoder.texts([piece for piece, _ in pieces], encoder.limit).astype(np.float64)
    weights = np.array([tokens for _, tokens in pieces], dtype=np.float64)
    mean: Rows = (rows * weights[:, None]).sum(0) / weights.sum()
    return mean


def pieces_of(text: str, ends: Sequence[int], most: int) -> list[tuple[str, int]]:
    """Return a text in pieces of at most `most` tokens, each with its number of tokens.

    Parameters
    ----------
    ends
        End of each token in characters, ascending.

    Examples
    --------
    >>> pieces_of("a bb c", [1, 4, 6], 2)
    [('a bb', 2), ('c', 1)]
    """
    chunks, begin = [], 0
    for first in range(0, len(ends), most):
        some = ends[first : first + most]
        chunks.append((text[begin : some[-1]].strip(), len(some)))
        begin = some[-1]
    return chunks or [(text, 1)]


def embedder_of(setup: Setup, model: EmbeddingModel) -> Embedder:
    """Return the embedder; nothing is loaded or asked yet.

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


#: Texts on the left and on the right, which are all compared with each other.
Group = tuple[Sequence[str], Sequence[str]]


def cosines(left: Rows, right: Rows) -> Rows:
    """Return the cosine of each row with each other row, ``(left, right)``; 0 for rows of length 0."""
    one, other = (
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (left, right)
    )
    cosines: Rows = np.clip(one @ other.T, -1.0, 1.0)
    return cosines


@dataclass(frozen=True)
class Compared:
    """Cosines of several groups, and their cost; none if they were stored."""

    values: tuple[Rows, ...]
    model: str
    usage: Usage
    requests: int


class TextSimilarity:
    """Compares texts; each comparison is stored.

    Parameters
    ----------
    model, embedder
        What embeds.
    answers
        Store of the cosines; embeddings themselves would be a thousand times as large.
    """

    def __init__(self, model: EmbeddingModel, embedder: Embedder, answers: AnswerStore) -> None:
        self.model, self.embedder, self._answers = model, embedder, answers

    def compare(self, groups: Sequence[Group]) -> Compared:
        """Return the cosines of each group, ``(left, right)``.

        Raises
        ------
        NotJudged
            If the server gives none.
        """
        key = self._key(groups)
        made_of: list[Vectors] = []

        def make() -> StoredAnswer:
            texts = list(dict.fromkeys(text for left, right in groups for text in (*left, *right)))
            vectors = self.embedder.rows(texts)
            made_of.append(vectors)
            row = dict(zip(texts, vectors.rows, strict=True))
            values = [
                cosines(np.stack([row[one] for one in left]), np.stack([row[one] for one in right])).round(7)
                for left, right in groups
                if left and right
            ]
            text = json.dumps([value.tolist() for value in values])
            usage = vectors.usage
            return StoredAnswer(
                key=key, text=text, model=vectors.model, tokens_in=usage.tokens_in, seconds=usage.seconds
            )

        if not any(left and right for left, right in groups):
            return Compared(_read([], groups), self.model.model, Usage(tries=0), 0)
        stored, made = self._answers.get_or_make(key, make)
        usage, requests = (made_of[0].usage, made_of[0].requests) if made else (Usage(tries=0), 0)
        return Compared(_read(json.loads(stored.text), groups), stored.model, usage, requests)

    def _key(self, groups: Sequence[Group]) -> str:
        return digest_value(
            {
                "compared": [[list(left), list(right)] for left, right in groups],
                "by": self.embedder.settings(),
            }
        )

    def estimate(self, groups: Sequence[Group]) -> Estimate | None:
        """Return the estimated request of a comparison; None if it is stored, or no server is asked."""
        key = self._key(groups)
        texts = {text for left, right in groups if left and right for text in (*left, *right)}
        if self.model.kind == "clip" or not texts or self._answers.find(key) is not None:
            return None
        tokens = sum(math.ceil(len(text) / self.model.characters_per_token) for text in texts)
        return Estimate(tokens_in=tokens, model=self.model.model, once=key)


def _read(values: Sequence[Any], groups: Sequence[Group]) -> tuple[Rows, ...]:
    left_over = iter(values)
    return tuple(
        np.array(next(left_over), dtype=np.float64).reshape(len(left), len(right))
        if left and right
        else np.empty((len(left), len(right)))
        for left, right in groups
    )


def text_similarity(setup: Setup, setting: str | Mapping[str, Any], answers: AnswerStore) -> TextSimilarity:
    """Return the comparison of texts; nothing is loaded or asked yet.

    Raises
    ------
    UserInputError
        If the model is invalid.
    PrerequisiteError
        If the profile does not name its server.
    """
    model = embedding_model(setting)
    return TextSimilarity(model, embedder_of(setup, model), answers)
