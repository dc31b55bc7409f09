"""Sources of CLIPScore's embeddings: a locally loaded CLIP, or one behind a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from storage_schemas.judgements import Failure
from tasks.llm.servers import ChatServer, NotAllowed, ServerDown
from tasks.llm.usage import NotJudged
from tasks.media.planes import planes_to_rgb
from tasks.models.clip import ServedClip
from tasks.models.hub import ModelHub
from tasks.pairs.view import Side
from tasks.scoring.features import FrameFeature, Rows
from tasks.scoring.judges.local_models import HubSource
from tasks.scoring.judges.prompt_length import Tokens, check_positions


class Encoder(Tokens, Protocol):
    """Embeds pictures and texts into one space; rows have length 1."""

    @property
    def width(self) -> int:
        """Length of a row."""

    def images(self, rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the rows of pictures ``(n, H, W, 3)``, shape (n, width)."""

    def texts(self, texts: Sequence[str], most_tokens: int) -> NDArray[np.float32]:
        """Return the rows of texts, each truncated to `most_tokens`, shape (n, width)."""


class ClipSource(Protocol):
    """Provides an encoder and its identity."""

    def settings(self) -> dict[str, Any]:
        """Return everything the embeddings depend on, JSON-compatible."""

    def libraries(self) -> dict[str, str]:
        """Return the versions that affect the last digits of embeddings."""

    def check(self) -> None:
        """Check, without loading anything, that it is available; raise PrerequisiteError if not."""

    def check_length(self) -> None:
        """Raise UserInputError if it cannot read more than it is made for."""

    def encoder(self) -> Encoder:
        """Return the encoder; call it each time, so that a loaded model can make room for another."""


class HubClip(HubSource):
    """A transformers CLIP loaded in this process."""

    kinds = ("clip",)

    def encoder(self) -> Encoder:
        """Return the loaded model."""
        encoder: Encoder = self.loaded()
        return encoder

    def check_length(self) -> None:
        """Check that it has more positions than its tokenizer fills, as far as its folder says.

        Raises
        ------
        UserInputError
            If not, because longer prompts could not be read.
        """
        if not isinstance(self._models, ModelHub):
            return
        folder = self._models.find(self.name).path
        config = json.loads((folder / "config.json").read_bytes())
        tokenizer = json.loads((folder / "tokenizer_config.json").read_bytes())
        # CLIP's configuration omits the default of 77
        positions = int(config.get("text_config", {}).get("max_position_embeddings", 77))
        check_positions(positions, int(tokenizer.get("model_max_length", positions)))


class ServedClipSource:
    """A CLIP behind its own server.

    Parameters
    ----------
    server
        Where it answers.
    revision, code_revision
        The revisions the server must report; None to accept any.
    """

    def __init__(self, server: ChatServer, revision: str | None, code_revision: str | None) -> None:
        self.revision, self.code_revision = revision, code_revision
        self.client = ServedClip(server)

    def settings(self) -> dict[str, Any]:
        """Return the model's name and revisions."""
        model = {"revision": self.revision, "code_revision": self.code_revision}
        return {"model": {self.client.server.model: model}}

    def libraries(self) -> dict[str, str]:
        """Return the versions that the server computes with, and its dtype."""
        about = self.client.about
        return {**about.libraries, "dtype": about.encoder.dtype}

    def check(self) -> None:
        """Ask the server once for its model.

        Raises
        ------
        PrerequisiteError
            If it does not answer, refuses the key, or has another model or version.
        """
        # a starting run does not wait for a missing server
        first = ServedClip(self.client.server.model_copy(update={"patience_s": 0.0, "timeout_s": 30.0}))
        reported = (first.about.revision, first.about.code_revision)
        if reported != (self.revision, self.code_revision):
            raise PrerequisiteError(
                f"model server {self.client.server.name} serves {self.client.server.model} at revision "
                f"{reported[0]} with code {reported[1]}, but {self.revision} and {self.code_revision} are "
                "needed: "
                "start it with that version, see docs/scorers.md"
            )

    def check_length(self) -> None:
        """Check that it has positions for more than it is made for; raises UserInputError if not."""
        check_positions(self.client.positions, self.client.limit)

    def encoder(self) -> Encoder:
        """Return the client."""
        return self.client


class ClipEmbedding(FrameFeature):
    """The embedding of a frame by a CLIP.

    Parameters
    ----------
    source
        Which CLIP.
    """

    name = "clip-embedding"
    dtype = "float32"

    def __init__(self, source: ClipSource) -> None:
        self._source = source

    @cached_property
    def width(self) -> int:
        """Length of a row."""
        return self._source.encoder().width

    def settings(self) -> dict[str, Any]:
        """Return the model, its dtype and the libraries that preprocess pictures."""
        return {**self._source.settings(), "libraries": self._source.libraries(), "version": 1}

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the embeddings of frames by index, shape (n, `width`)."""
        with server_failures():
            return self._source.encoder().images(planes_to_rgb(side.planes(indices), side.color))


@contextmanager
def server_failures() -> Iterator[None]:
    """Turn an error of the server's client into the failure of one request."""
    try:
        yield
    except ServerDown as problem:
        raise NotJudged(Failure.SERVER_DOWN, str(problem)) from problem
    except NotAllowed as problem:
        raise NotJudged(Failure.NOT_ALLOWED, str(problem)) from problem
