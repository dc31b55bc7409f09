"""Vision-language models: what each takes and how it is asked; those that judge (SLVMEval, appendix G.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.model import Frozen

#: Qwen3-VL's processor enlarges images with fewer pixels (``shortest_edge`` of its preprocessor's file).
QWEN_LEAST_PIXELS = 65_536
#: Tokens of the marks around a system message, a user message and the beginning of an answer, about.
MARK_TOKENS = 15
#: Tokens of the line before a video's frames.
LINE_TOKENS = 8
#: Tokens of a choice as JSON, with the mark of the answer's end.
CHOICE_TOKENS = 7

_IN_NO_KEY = {"server", "schema_tokens", "thinking_tokens", "description_tokens"}


class VlmModel(Frozen):
    """A model behind an OpenAI-compatible server, as judges and suites ask it.

    Parameters
    ----------
    model
        Its id at the server.
    server
        Name of the server in the profile's ``[model_servers]``.
    context_tokens, answer_tokens
        Most tokens of a request with its answer, and of the answer with its thoughts.
    most_images
        Most images of one request.
    frames
        ``scenes``: the centre frame of each detected scene; ``all``: every frame, and scenes only where the
        context is too short.
    image_side
        Longer side to which frames are reduced, in pixels; larger frames are never made.
    jpeg_quality
        Quality of the JPEG files that are sent.
    images
        How the model counts images, see :meth:`image_tokens`.
    detail
        In which detail the server is to look at images; None says nothing of it.
    low_tokens, tile_tokens
        Where images count in tiles: what an image counts (in low detail alone), and each tile of 512 px
        besides. The defaults are GPT-5's (OpenAI's guide on vision).
    square_px
        Where images count in merged patches: side of the square that counts one token; None for Qwen3-VL's.
    characters_per_token
        Mean of English text, for estimates and the check of the context. On our prompts, descriptions of
        aspects and captions of films it is 4.4 to 4.8 with the vocabularies of GPT-5 and of Qwen alike.
    schema_tokens
        Tokens of the answer's JSON Schema where the server writes it into the prompt, as OpenAI's published
        format of messages (harmony) has it; vLLM does not. In no key.
    thinking_tokens, description_tokens
        Tokens of thoughts before one answer, and of a description that a text-based judge reads: what
        estimates assume while the store has no answers that tell. They change no answer, so are in no key.
    temperature, top_p, extra_body
        Sampling; `extra_body` is what only some servers know.
    """

    model: str
    server: str
    context_tokens: int = Field(ge=1024)
    answer_tokens: int = Field(ge=16)
    most_images: int = Field(ge=2)
    frames: Literal["scenes", "all"] = "scenes"
    image_side: int = Field(default=512, ge=32)
    jpeg_quality: int = Field(default=90, ge=30, le=100)
    images: Literal["tiles", "patches", "merged-patches"] = "merged-patches"
    detail: Literal["low", "high", "auto"] | None = None
    low_tokens: int = Field(default=70, ge=1)
    tile_tokens: int = Field(default=140, ge=1)
    square_px: int | None = Field(default=None, ge=1)
    characters_per_token: float = Field(default=4.6, gt=0)
    schema_tokens: int = Field(default=0, ge=0)
    thinking_tokens: int = Field(default=0, ge=0)
    description_tokens: int = Field(default=600, ge=1)
    temperature: float | None = None
    top_p: float | None = None
    extra_body: Mapping[str, Any] = Field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """Return what answers depend on."""
        return self.model_dump(mode="json", exclude=_IN_NO_KEY)

    def image_tokens(self, width: int, height: int) -> int:
        """Return what an image of this size counts, in tokens.

        ``tiles``: `low_tokens`, and `tile_tokens` for each tile of 512 px, once the image fits into 2,048 px
        and its short side into 768 px (GPT-4o, GPT-5). ``patches``: 1.62 for each square of 32 px, at most
        1,536 squares (GPT-5 mini). Both are as OpenAI's guide on vision had it; low detail counts
        `low_tokens` alone. ``merged-patches``: one for each square of 32 px, and two marks (Qwen3-VL: patches
        of 16 px, merged two by two; smaller images are enlarged first), or for each of `square_px`.
        """
        if self.detail == "low":
            return self.low_tokens
        if self.images == "tiles":
            scale = min(1.0, 2048 / max(width, height))
            width, height = round(width * scale), round(height * scale)
            scale = min(1.0, 768 / min(width, height))
            across, down = (math.ceil(round(side * scale) / 512) for side in (width, height))
            return self.low_tokens + self.tile_tokens * across * down
        if self.images == "patches":
            squares = math.ceil(width / 32) * math.ceil(height / 32)
            return math.ceil(min(squares, 1536) * 1.62)
        square = self.square_px or 32
        across, down = max(1, round(width / square)), max(1, round(height / square))
        if self.square_px is None and across * down * 32**2 < QWEN_LEAST_PIXELS:
            scale = math.sqrt(QWEN_LEAST_PIXELS / (width * height)) / 32
            across, down = math.ceil(width * scale), math.ceil(height * scale)
        return across * down + 2

    def request_tokens(self) -> int:
        """Return what is left for a request beside its longest answer."""
        return self.context_tokens - self.answer_tokens

    def assumes(self) -> str:
        """Return for a person what estimates assume while nothing is measured."""
        return (
            f"no answer of {self.model} is in the store: {self.thinking_tokens:,} tokens of thoughts each "
            "are assumed (thinking_tokens)"
        )

    def text_tokens(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return math.ceil(len(text) / self.characters_per_token)


def model_from(
    said: str | Mapping[str, Any],
    setting: str,
    ready: Mapping[str, VlmModel],
    otherwise: Mapping[str, Any],
) -> VlmModel:
    """Return a model from its name, or from a table of its fields.

    Parameters
    ----------
    said
        Name of a ready model, or its fields: ``model`` (which may be a ready one's) and what is to differ;
        ``server`` for one that is not ready.
    setting
        The setting's name, for messages.
    ready
        Models by name.
    otherwise
        Of a model that is not ready, what a user does not say.

    Raises
    ------
    UserInputError
        If there is none of that name and no server is given, or for a field that there is not.
    """
    fields = {"model": said} if isinstance(said, str) else dict(said)
    name = fields.get("model")
    if not isinstance(name, str) or not name:
        raise UserInputError(f"{setting}: give the model's name, or a table with model and server")
    for field in fields:
        if field not in VlmModel.model_fields:
            hint = suggestion(field, VlmModel.model_fields)
            raise UserInputError(f"{setting} has no field {field!r}: {hint}")
    if name in ready:
        return VlmModel(**{**ready[name].model_dump(), **fields, "model": ready[name].model})
    if "server" not in fields:
        raise UserInputError(
            f"{setting}: {name!r} is no ready model ({', '.join(ready)}): give a table with model and "
            "server, the server's name in model_servers of the profile"
        )
    return VlmModel(**{**otherwise, **fields})


#: The paper's three models (SLVMEval, appendix G.1); the GPT-5 family takes temperature 1 and no other. How
#: long they think nobody says beforehand: `thinking_tokens` are guesses.
VLM_MODELS: Mapping[str, VlmModel] = {
    "gpt-5": VlmModel(
        model="gpt-5-2025-08-07",
        server="openai",
        context_tokens=400_000,
        answer_tokens=32_768,
        most_images=500,
        images="tiles",
        schema_tokens=45,
        thinking_tokens=1000,
        temperature=1.0,
    ),
    "gpt-5-mini": VlmModel(
        model="gpt-5-mini-2025-08-07",
        server="openai",
        context_tokens=400_000,
        answer_tokens=32_768,
        most_images=500,
        images="patches",
        schema_tokens=45,
        thinking_tokens=1000,
        temperature=1.0,
    ),
    "qwen3-vl": VlmModel(
        model="Qwen/Qwen3-VL-235B-A22B-Thinking-FP8",
        server="qwen3-vl",
        context_tokens=262_144,
        answer_tokens=32_768,
        most_images=100_000,
        frames="all",
        images="merged-patches",
        thinking_tokens=2000,
        temperature=0.7,
        top_p=0.8,
        extra_body={"top_k": 20, "min_p": 0},
    ),
}
