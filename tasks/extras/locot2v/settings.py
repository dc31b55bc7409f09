"""Settings; "not from the paper" marks our defaults for what the paper leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from storage_schemas.model import Frozen
from tasks.extras.locot2v.visual_settings import VisualSettings
from tasks.llm.prompt_files import prompt_text
from tasks.llm.vision_models import VlmModel
from tasks.scoring.suites.shown_videos import ImageLines, SampledVideo, VideoExhibit


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


#: Qwen2.5-VL counts one token per square of this side, in pixels: patches of 14, merged two by two.
_QWEN25: Mapping[str, Any] = {"square_px": 28, "image_side": 448}
#: The paper's models. It states no sampling: temperature 0 and the limits are ours. The names at a hub are to
#: be compared with what the server says: `model` in the profile's entry overrides them.
READY: Mapping[str, VlmModel] = {
    "qwen2.5-vl-7b": _ready("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl", 128_000, 768, **_QWEN25),
    # makes prompts, see tasks/extras/prompt_suite
    "qwen2.5-vl-72b": _ready("Qwen/Qwen2.5-VL-72B-Instruct", "qwen2.5-vl-72b", 128_000, 768, **_QWEN25),
    "time-r1-7b": _ready("Boshenxx/Time-R1-7B", "time-r1", 128_000, 768, **_QWEN25),
    "deepseek-v3.1": _ready("deepseek-ai/DeepSeek-V3.1", "deepseek", 128_000, 2),
}


class MatchSettings(Frozen):
    """Constants of the matching.

    Parameters
    ----------
    order_penalty
        Share that is subtracted if the order of the events is fully reversed (not from the paper, which names
        a penalty without a number).
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
        The model that describes videos (the paper's Qwen2.5-VL-7B), and, not from the paper, looks for
        actions, scores content clarity and answers questions. The name of a predefined model, or a table of
        fields of
        :class:`~tasks.llm.vision_models.VlmModel`.
    language
        The model that extracts events and actions from texts (the paper's DeepSeek-V3.1).
    locating
        The model that locates events in time (the paper's Time-R1-7B).
    embeddings
        The model that compares texts: the name of a predefined model, or a table of fields of
        :class:`~tasks.extras.locot2v.text_similarity.EmbeddingModel`. Not from the paper.
    prompts
        A user's folder of prompts, area ``locot2v-bench``; by default that of the run. Empty: ours.
    fps
        Frames per second that models see, besides the last frame. Not from the paper.
    most_frames
        Maximum frames of one request; longer videos are sampled evenly. Not from the paper.
    most_events
        Maximum events of a text. Not from the paper.
    most_actions
        Maximum actions of a prompt. Not from the paper.
    matching
        Constants of event alignment, see :class:`~tasks.extras.locot2v.settings.MatchSettings`.
    rounds
        Number of rounds of content clarity (R; not from the paper).
    round_temperature
        Temperature of these rounds, each with its own seed; None leaves both to the model's settings, which
        some servers require. Not from the paper.
    questions_at_once
        Maximum questions of one request, all about one attribute. Not from the paper.
    unsmooth_action
        Value of an action that is present but not smooth. Not from the paper.
    visual
        Settings of the dimensions of pixels and features.
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
    visual: VisualSettings = VisualSettings()

    def exhibit(self, film: SampledVideo, timed: bool = False) -> VideoExhibit:
        """Return a video for a step, optionally with the frames' times."""
        time = prompt_text("locot2v-bench/time_line", self.prompts) if timed else ""
        lines = ImageLines(prompt_text("locot2v-bench/video_line", self.prompts), time)
        return VideoExhibit({"video": film}, self.fps, self.most_frames, lines)
