"""How alike texts are in meaning: the cosine of their embeddings, computed once and kept."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from storage_schemas.ids import digest_value
from tasks.evaluators.base import Estimate, Usage
from tasks.evaluators.kept_captions import KeptCaption, KeptCaptions
from tasks.evaluators.setup import Setup
from tasks.suites.locot2v.embedders import (
    Embedder,
    EmbeddingModel,
    Rows,
    Vectors,
    embedder_of,
    embedding_model,
)

#: Texts on the left and on the right: each of the one is compared with each of the other.
Group = tuple[Sequence[str], Sequence[str]]


def cosines(left: Rows, right: Rows) -> Rows:
    """Return the cosine of each row with each row, ``(left, right)``; 0 where a row has no length."""
    one, other = (
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (left, right)
    )
    found: Rows = np.clip(one @ other.T, -1.0, 1.0)
    return found


@dataclass(frozen=True)
class Compared:
    """Cosines of several groups, and what they took; nothing where they were kept."""

    values: tuple[Rows, ...]
    model: str
    usage: Usage
    requests: int


class TextSimilarity:
    """Compares texts; what was compared once is kept.

    Parameters
    ----------
    model, embedder
        What embeds.
    kept
        Where cosines are kept; embeddings themselves would be a thousand times as long.
    """

    def __init__(self, model: EmbeddingModel, embedder: Embedder, kept: KeptCaptions) -> None:
        self.model, self.embedder, self._kept = model, embedder, kept

    def compare(self, groups: Sequence[Group]) -> Compared:
        """Return the cosines of each group, ``(left, right)``.

        Raises
        ------
        NotJudged
            If the server gives none.
        """
        key = self._key(groups)
        made_of: list[Vectors] = []

        def make() -> KeptCaption:
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
            return KeptCaption(
                key=key, text=text, model=vectors.model, tokens_in=usage.tokens_in, seconds=usage.seconds
            )

        if not any(left and right for left, right in groups):
            return Compared(_read([], groups), self.model.model, Usage(tries=0), 0)
        kept, made = self._kept.get_or_make(key, make)
        usage, requests = (made_of[0].usage, made_of[0].requests) if made else (Usage(tries=0), 0)
        return Compared(_read(json.loads(kept.text), groups), kept.model, usage, requests)

    def _key(self, groups: Sequence[Group]) -> str:
        return digest_value(
            {
                "compared": [[list(left), list(right)] for left, right in groups],
                "by": self.embedder.settings(),
            }
        )

    def estimate(self, groups: Sequence[Group]) -> Estimate | None:
        """Return the request that a comparison takes; None where it is kept, or no server is asked."""
        key = self._key(groups)
        texts = {text for left, right in groups if left and right for text in (*left, *right)}
        if self.model.kind == "clip" or not texts or self._kept.find(key) is not None:
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


def text_similarity(setup: Setup, said: str | Mapping[str, Any], kept: KeptCaptions) -> TextSimilarity:
    """Return what compares texts; nothing is loaded or asked yet.

    Raises
    ------
    UserInputError
        If the model does not fit.
    PrerequisiteError
        If the profile does not name its server.
    """
    model = embedding_model(said)
    return TextSimilarity(model, embedder_of(setup, model), kept)
