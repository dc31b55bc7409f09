"""Vision-language models: limits and request settings, and the paper's judges (SLVMEval, appendix G.1)."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.extras import is_installed
from storage_schemas.model import Frozen
from tasks.llm.json_answers import AnswerForm

#: Qwen3-VL enlarges images with fewer pixels (``shortest_edge`` in its preprocessor configuration).
QWEN_MIN_PIXELS = 65_536
#: Approximate tokens of the markers around a system message, a user message and the start of an answer.
MARK_TOKENS = 15
#: A shorter beginning of a request is in no provider's cache, in tokens (OpenAI; most models of Anthropic).
MIN_CACHED_TOKENS = 1024
#: Tokens of the line before a video's frames.
LINE_TOKENS = 8
#: Tokens of a choice as JSON, including the end marker.
CHOICE_TOKENS = 7
#: Tokens of five intervals as JSON; of the time before a frame.
INTERVALS_TOKENS = 90
TIME_TOKENS = 8
#: Qwen3-VL merges this number of a video's frames into one, before which stands its time.
_MERGED_FRAMES = 2

#: OpenAI's models since GPT-4o, which share a vocabulary.
_OF_OPENAI = re.compile(r"gpt-(4o|4\.1|4\.5|5)|o[1-9](-|$)")
#: Characters that the tokenizer gets at once: it takes at most 200,000 tokens. A cut adds a token at most.
_PIECE = 40_000

#: How frames are sent: each as an image, or all frames of a video as one video.
FramesAs = Literal["images", "video"]

#: Where the aspect's text stands: before everything, or after all that requests on other aspects share.
Layout = Literal["aspect-first", "aspect-last"]

#: Fields by which requests to a model are counted, limited and sampled. Another model has others.
_OF_ONE_MODEL = (
    "context_tokens",
    "answer_tokens",
    "most_images",
    "images",
    "characters_per_token",
    "temperature",
)
#: Fields that are part of a key only with another value than this.
_NOT_IN_OLD_KEYS = {"answers": "tolerant", "layout": "aspect-first"}
_IN_NO_KEY = {
    "server",
    "address_in_key",
    "schema_tokens",
    "thinking_tokens",
    "description_tokens",
    "logprobs",
}


class VlmModel(Frozen):
    """A model behind an OpenAI-compatible server, as judges and suites use it.

    Parameters
    ----------
    model
        Id of the model at the server.
    server
        Name of the server in the profile's ``[model_servers]``, or its address.
    address_in_key
        Whether the server's address is part of the settings, so that another server's answers are others.
    context_tokens, answer_tokens
        Maximum tokens of a request with its answer, and of the answer with its reasoning.
    most_images
        Maximum images of one request.
    frames
        ``scenes``: the centre frame of each detected scene; ``all``: every frame, and scenes only if the
        context is too short.
    frames_as
        ``images``: each frame is an image. ``video``: all frames of a video are one video with its rate, for
        models that place frames in time; what cannot be a video is sent as images.
    video_pixels
        For ``video``: maximum pixels of a video's frames together, which vLLM is told. Above it Qwen3-VL
        would reduce each frame. None leaves it to the server.
    video_frame_tokens
        For ``video``: tokens of a frame with its time; None for Qwen3-VL's, see :meth:`video_tokens`.
    layout
        Of a judge that sees frames. ``aspect-first``: all texts, then the frames. ``aspect-last``: the text
        of the aspect comes after all that requests on other aspects of a source share, which a provider's
        cache or vLLM's then reads once.
    image_side
        Longer side to which frames are reduced, in pixels; frames are never enlarged.
    jpeg_quality
        Quality of the JPEG files that are sent.
    images
        How the model counts the tokens of images, see :meth:`image_tokens`.
    detail
        Level of detail requested from the server; None leaves it to the server.
    low_tokens, tile_tokens
        For ``tiles``: tokens of an image (all of them in low detail), and of each tile of 512 px in addition.
        The defaults are GPT-5's (OpenAI's guide on vision).
    square_px
        For ``merged-patches``: side of the square that counts as one token; None for Qwen3-VL's.
    characters_per_token
        Mean for English text, for models that are not OpenAI's, or without the extra `tokenizer`: used by
        estimates and the context check. For our
        prompts, descriptions of aspects and captions it is 4.4 to 4.8, with the vocabularies of both GPT-5
        and Qwen.
    schema_tokens
        Tokens of the answer's JSON Schema if the server writes it into the prompt, as in OpenAI's published
        message format (harmony); vLLM does not. Not part of any key.
    thinking_tokens, description_tokens
        Tokens of the reasoning before an answer, and of a description that a text-based judge reads; assumed
        by estimates while the store has no answers to measure. They do not affect answers, so they are part
        of any key.
    answers
        ``tolerant``: an answer that holds exactly one JSON object with the wanted keys is understood, see
        :mod:`tasks.llm.json_answers`. ``strict``: it has to be that object and nothing else.
    logprobs
        Whether the server returns log probabilities of the answer's tokens, from which a judgement has the
        probability of "first". They do not affect answers, so this is part of any key.
    temperature, top_p, extra_body
        Sampling; `extra_body` is for fields that only some servers support.
    """

    model: str
    server: str
    address_in_key: bool = False
    context_tokens: int = Field(ge=1024)
    answer_tokens: int = Field(ge=16)
    most_images: int = Field(ge=2)
    frames: Literal["scenes", "all"] = "scenes"
    frames_as: FramesAs = "images"
    video_pixels: int | None = Field(default=None, ge=65_536)
    video_frame_tokens: int | None = Field(default=None, ge=1)
    layout: Layout = "aspect-first"
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
    answers: AnswerForm = "tolerant"
    logprobs: bool = False
    temperature: float | None = None
    top_p: float | None = None
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    _assumed: tuple[str, tuple[str, ...]] = PrivateAttr(("", ()))

    @classmethod
    def like(cls, other: Mapping[str, Any], given: Mapping[str, Any], name: str) -> VlmModel:
        """Return a model with some given fields; the others are those of another model, see :meth:`borrowed`.

        Parameters
        ----------
        other, name
            Fields of the other model, and its name for messages.
        """
        model = cls(**{**other, **given})
        fields = [field for field in _OF_ONE_MODEL if field not in given]
        if {"square_px", "low_tokens", "tile_tokens"} & set(given):
            fields = [field for field in fields if field != "images"]
        if model.frames_as == "video" and model.video_frame_tokens is None:
            fields.append("video_frame_tokens")
        model._assumed = name, tuple(fields)
        return model

    def borrowed(self) -> str:
        """Return a readable statement of what is assumed of this model because another has it; else empty."""
        name, fields = self._assumed
        if not fields:
            return ""
        of = [f"{field} {_shown(getattr(self, field))}" for field in fields]
        by_name = ", texts by GPT's vocabulary (for its name)" if _OF_OPENAI.match(self.model) else ""
        return (
            f"not known of {self.model} and assumed as for {name}: {', '.join(of)}{by_name}. Set what "
            "differs: the estimate, the check of the context and the number of frames rest on it"
        )

    def settings(self, address: Callable[[], str] = str) -> dict[str, Any]:
        """Return the settings that answers depend on.

        Parameters
        ----------
        address
            Returns the server's, which is among them with `address_in_key`.
        """
        # answers from before a setting existed keep their keys
        ruled = {name for name, usual in _NOT_IN_OLD_KEYS.items() if getattr(self, name) == usual}
        own = self.model_dump(mode="json", exclude=_IN_NO_KEY | ruled)
        return {**own, "address": address()} if self.address_in_key else own

    def image_tokens(self, width: int, height: int) -> int:
        """Return the tokens of an image of this size.

        ``tiles``: `low_tokens`, plus `tile_tokens` for each tile of 512 px, after the image is reduced to
        2,048 px and its short side to 768 px (GPT-4o, GPT-5). ``patches``: 1.62 for each square of 32 px, at
        most 1,536 squares (GPT-5 mini). Both follow OpenAI's guide on vision; an image in low detail has
        `low_tokens` alone. ``merged-patches``: one for each square of 32 px, plus two markers (Qwen3-VL:
        patches of 16 px, merged two by two; smaller images are enlarged first), or for each of `square_px`.
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
        if self.square_px is None and across * down * 32**2 < QWEN_MIN_PIXELS:
            scale = math.sqrt(QWEN_MIN_PIXELS / (width * height)) / 32
            across, down = math.ceil(width * scale), math.ceil(height * scale)
        return across * down + 2

    def video_tokens(self, frames: int, width: int, height: int) -> int:
        """Return the tokens of a video of this size, sent as a video.

        `video_frame_tokens` for each frame, or Qwen3-VL's: two frames are merged into one, of a token for
        each square of 32 px, with its time and two markers.
        """
        if self.video_frame_tokens is not None:
            return frames * self.video_frame_tokens
        squares = max(1, round(width / 32)) * max(1, round(height / 32))
        return math.ceil(frames / _MERGED_FRAMES) * (squares + TIME_TOKENS + 2)

    def request_tokens(self) -> int:
        """Return the maximum tokens of a request, which leaves room for the longest answer."""
        return self.context_tokens - self.answer_tokens

    def assumes(self) -> str:
        """Return a readable statement of what estimates assume without measurements."""
        return (
            f"the store has no answer of {self.model}: {self.thinking_tokens:,} reasoning tokens per answer "
            "are assumed (thinking_tokens)"
        )

    def text_tokens(self, text: str) -> int:
        """Return the number of tokens of a text: by GPT's vocabulary, or approximate.

        It is approximate for models that are not OpenAI's, and without the extra `tokenizer`.
        """
        if _OF_OPENAI.match(self.model) and is_installed("bpe_openai"):
            pieces = (text[begin : begin + _PIECE] for begin in range(0, len(text), _PIECE))
            return sum(len(_gpt_vocabulary().encode_ordinary(piece)) for piece in pieces)
        return math.ceil(len(text) / self.characters_per_token)


def _shown(value: object) -> str:
    if value is None:
        return "as Qwen3-VL's"
    return f"{value:,}" if isinstance(value, int) else str(value)


@cache
def _gpt_vocabulary() -> Any:
    with warnings.catch_warnings():
        # it reads its files in an old way
        warnings.simplefilter("ignore", DeprecationWarning)
        import bpe_openai

    return bpe_openai.get_encoding("o200k_base")


def model_from(
    value: str | Mapping[str, Any],
    setting: str,
    ready: Mapping[str, VlmModel],
    otherwise: Mapping[str, Any],
) -> VlmModel:
    """Return a model from its name, or from a table of its fields.

    Parameters
    ----------
    value
        Name of a predefined model, or fields: ``model`` (possibly a predefined one) and fields that differ;
        ``server`` is required unless the model is predefined.
    setting
        Name of the setting, for messages.
    ready
        Predefined models by name.
    otherwise
        Defaults of the fields of other models.

    Raises
    ------
    UserInputError
        If the name is unknown and no server is given, or for an unknown field.
    """
    fields = {"model": value} if isinstance(value, str) else dict(value)
    name = fields.get("model")
    if not isinstance(name, str) or not name:
        raise UserInputError(f"{setting}: give the model's name, or a table with model and server")
    for field in fields:
        if field not in VlmModel.model_fields:
            hint = suggestion(field, VlmModel.model_fields)
            raise UserInputError(f"{setting} has no field {field!r}: {hint}")
    if fields.get("frames_as", "images") != "images":
        raise UserInputError(f"{setting}: suites send frames as images; leave out frames_as")
    if fields.get("logprobs"):
        raise UserInputError(f"{setting}: only judges of pairs use log probabilities; leave out logprobs")
    if fields.get("layout", "aspect-first") != "aspect-first":
        raise UserInputError(f"{setting}: only judges of pairs that see frames have a layout; leave it out")
    if name in ready:
        return VlmModel(**{**ready[name].model_dump(), **fields, "model": ready[name].model})
    if "server" not in fields:
        raise UserInputError(
            f"{setting}: {name!r} is not a predefined model ({', '.join(ready)}): give a table with model "
            "and server, the server's name in model_servers of the profile"
        )
    return VlmModel.like(otherwise, fields, "other models of suites")


#: The paper's three models (SLVMEval, appendix G.1). The GPT-5 family accepts only temperature 1.
#: `thinking_tokens` are guesses.
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
        frames_as="video",
        # 196,608 tokens: one video fills the context, and so do two together
        video_pixels=402_653_184,
        images="merged-patches",
        thinking_tokens=2000,
        temperature=0.7,
        top_p=0.8,
        extra_body={"top_k": 20, "min_p": 0},
    ),
}
