"""Settings of prompt making; those that the paper leaves open are marked, and have defaults of our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError, model_validator

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.model import Frozen
from storage_schemas.value_problems import value_problem
from tasks.extras.locot2v.settings import Locot2vSettings


class PromptSuiteSettings(Frozen):
    """How prompts are made.

    Parameters
    ----------
    multimodal
        The model that describes videos, criticises and rewrites descriptions, and assesses the videos; a name
        or table, as for the suite. For the assessments the paper names Seed1.5-VL (method) and
        Qwen2.5-VL-72B (appendix B.8); only the latter has public weights.
    language
        The model that extracts events and actions, writes questions, and judges their polarity and the
        complexity (the paper's DeepSeek-V3.1).
    prompts
        A user's folder of prompts, areas ``prompt-suite`` and ``locot2v-bench``; empty for ours.
    fps, most_frames
        Frames per second shown to models, besides the last frame, and maximum frames of one request. Not from
        the paper.
    rounds
        Maximum rounds of self-refinement, which ends early if no fault is found. Not from the paper.
    least_words, most_words
        Length of a description. Not from the paper, whose complete prompts mostly have 200 to 300 words; with
        a sentence on each of seven attributes, these have as many.
    questions
        Number of questions on each attribute (the paper's six).
    tries
        Maximum attempts per request; after an invalid answer, the model gets the reason. Not from the paper.
    most_events, most_actions
        Maximum numbers per prompt. Not from the paper.
    again
        Another number ignores all kept answers and requests new ones.
    """

    multimodal: str | Mapping[str, Any] = "qwen2.5-vl-72b"
    language: str | Mapping[str, Any] = "deepseek-v3.1"
    prompts: str = ""
    fps: float = Field(default=1.0, gt=0)
    most_frames: int = Field(default=64, ge=1)
    rounds: int = Field(default=2, ge=0, le=20)
    least_words: int = Field(default=120, ge=1)
    most_words: int = Field(default=180, ge=1, le=5000)
    questions: int = Field(default=6, ge=1, le=50)
    tries: int = Field(default=3, ge=1, le=20)
    most_events: int = Field(default=40, ge=1, le=500)
    most_actions: int = Field(default=20, ge=1, le=500)
    again: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _length(self) -> PromptSuiteSettings:
        if self.least_words > self.most_words:
            raise ValueError(f"least_words {self.least_words} is above most_words {self.most_words}")
        return self

    def of_suite(self) -> Locot2vSettings:
        """Return the settings of the suite's own steps."""
        names = ("multimodal", "language", "prompts", "fps", "most_frames", "most_events", "most_actions")
        return Locot2vSettings(**{name: getattr(self, name) for name in names})


def prompt_suite_settings(values: Mapping[str, Any]) -> PromptSuiteSettings:
    """Return settings from a user's values.

    Raises
    ------
    UserInputError
        For an unknown setting or an invalid value.
    """
    fields = PromptSuiteSettings.model_fields
    for name in values:
        if name not in fields:
            hint = suggestion(name, fields, "there are")
            raise UserInputError(f"prompt making has no setting {name!r}: {hint}")
    try:
        return PromptSuiteSettings.model_validate(dict(values))
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "settings"
        raise UserInputError(f"{key}: {value_problem(first)}") from problem
