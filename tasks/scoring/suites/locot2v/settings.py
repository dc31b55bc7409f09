"""What a user can set; what the paper leaves open is marked so, with our default."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from tasks.llm.vision_models import VlmModel
from tasks.scoring.suites.shown_videos import SampledVideo, VideoExhibit


def _ready(model: str, server: str, context_tokens: int, most_images: int, **fields: Any) -> VlmModel:
    return VlmModel(
        model=model,
        server=server,
        context_tokens=context_tokens,
        answer_tokens=4096,
        most_images=most_images,
        temperature=0.0,
        **fields,
    )


#: Qwen2.5-VL counts one token for a square of so many pixels: patches of 14, merged two by two.
_QWEN25: Mapping[str, Any] = {"square_px": 28, "image_side": 448}
#: The paper's models. It states no sampling: temperature 0 and the limits are ours. The names at a hub are to
#: be compared with what the server says: `model` in the profile's entry overrides them.
READY: Mapping[str, VlmModel] = {
    "qwen2.5-vl-7b": _ready("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl", 128_000, 768, **_QWEN25),
    "time-r1-7b": _ready("Boshenxx/Time-R1-7B", "time-r1", 128_000, 768, **_QWEN25),
    "deepseek-v3.1": _ready("deepseek-ai/DeepSeek-V3.1", "deepseek", 128_000, 2),
}
#: Of a model that is not ready, what a user does not say.
OTHER: Mapping[str, Any] = {
    "context_tokens": 32_768,
    "answer_tokens": 4096,
    "most_images": 128,
    "low_tokens": 85,
    "tile_tokens": 170,
    "image_side": 448,
    "temperature": 0.0,
}


class MatchSettings(Frozen):
    """Constants of the matching.

    Parameters
    ----------
    order_penalty
        Share that is taken off where the order of the events is wholly turned round (not from the paper,
        which names a penalty and no number).
    over
        ``matched``: the mean is over matched pairs (the paper); ``prompt``: over all events of the prompt, so
        that a missing event counts 0.
    """

    order_penalty: float = Field(default=0.5, ge=0, le=1)
    over: Literal["matched", "prompt"] = "matched"


class Locot2vSettings(Frozen):
    """The suite's settings.

    Parameters
    ----------
    multimodal
        Who describes videos (the paper's Qwen2.5-VL-7B); who looks for actions, scores content clarity and
        answers questions is not from the paper. The name of a ready model, or a table of fields of
        :class:`~tasks.llm.vision_models.VlmModel`.
    language
        Who extracts events and actions from texts (the paper's DeepSeek-V3.1).
    locating
        Who says when events take place (the paper's Time-R1-7B).
    embeddings
        What compares texts: the name of a ready model, or a table of fields of
        :class:`~tasks.scoring.suites.locot2v.text_similarity.EmbeddingModel`. Not from the paper.
    prompts
        A user's folder of prompts, area ``locot2v-bench``; by default that of the run. Empty: ours.
    fps
        Frames a second that models see, besides the last one. Not from the paper.
    most_frames
        Most frames of one request; of longer videos an even choice. Not from the paper.
    most_events
        Most events of a text. Not from the paper.
    most_actions
        Most actions of a prompt. Not from the paper.
    matching
        Constants of event alignment, see :class:`~tasks.scoring.suites.locot2v.settings.MatchSettings`.
    rounds
        Times that content clarity is scored (R; not from the paper).
    round_temperature
        Temperature of these rounds, each with a seed of its own; None leaves both to the model's settings, as
        some servers want it. Not from the paper.
    questions_at_once
        Most questions of one request, all of one attribute. Not from the paper.
    unsmooth_action
        What an action counts that takes place and is not smooth. Not from the paper.
    seen
        Settings of the dimensions of pixels and features, by name.
    """

    multimodal: str | Mapping[str, Any] = "qwen2.5-vl-7b"
    language: str | Mapping[str, Any] = "deepseek-v3.1"
    locating: str | Mapping[str, Any] = "time-r1-7b"
    embeddings: str | Mapping[str, Any] = "qwen3-embedding-0.6b"
    prompts: str = ""
    fps: float = Field(default=1.0, gt=0)
    most_frames: int = Field(default=64, ge=1)
    most_events: int = Field(default=40, ge=1, le=500)
    most_actions: int = Field(default=20, ge=1, le=500)
    matching: MatchSettings = MatchSettings()
    rounds: int = Field(default=3, ge=1, le=100)
    round_temperature: float | None = Field(default=0.7, ge=0)
    questions_at_once: int = Field(default=6, ge=1, le=100)
    unsmooth_action: float = Field(default=0.5, ge=0, le=1)
    seen: Mapping[str, Any] = Field(default_factory=dict)

    def exhibit(self, film: SampledVideo, timed: bool = False) -> VideoExhibit:
        """Return a video as a step shows it, frames with their times where it says so."""
        return VideoExhibit({"video": film}, self.fps, self.most_frames, timed=timed)


def settings_from(values: Mapping[str, Any]) -> Locot2vSettings:
    """Return the settings that a user gave.

    Raises
    ------
    UserInputError
        For one that there is not.
    ValidationError
        For a value that does not fit.
    """
    for name in values:
        if name not in Locot2vSettings.model_fields:
            near = difflib.get_close_matches(name, Locot2vSettings.model_fields, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else ""
            hint = hint or f"it has {', '.join(Locot2vSettings.model_fields)}"
            raise UserInputError(f"locot2v-bench has no setting {name!r}: {hint}")
    return Locot2vSettings.model_validate(dict(values))
