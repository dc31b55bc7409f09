"""What a user can set where prompts are made; what the paper leaves open is marked so, with our default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError, model_validator

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.model import Frozen
from tasks.scoring.suites.locot2v.settings import Locot2vSettings

#: Where our prompts lie.
PACKAGE = "tasks.prompt_suite"


class PromptSuiteSettings(Frozen):
    """How prompts are made.

    Parameters
    ----------
    multimodal
        Who describes videos, criticises and rewrites descriptions, and says what a viewer expects. The paper
        names Seed1.5-VL and Qwen2.5-VL-72B for the last; a name or a table, as for the suite.
    language
        Who extracts events and actions, asks questions, judges their polarity and the complexity (the paper's
        DeepSeek-V3.1).
    prompts
        A folder whose files replace ours of the same names; empty for ours. The wording is ours.
    fps, most_frames
        Frames a second that models see, besides the last one, and most of one request. Not from the paper.
    rounds
        Most rounds of self-refinement; it ends early where nothing is found wrong. Not from the paper.
    least_words, most_words
        How long a description should be. Not from the paper, whose whole prompts mostly have 200 to 300:
        with a sentence on each of seven attributes ours have as many.
    questions
        Questions on each attribute (the paper's six).
    tries
        How often a model is asked where its answer does not fit; it is told what did not. Not from the paper.
    most_events, most_actions
        Most of a prompt. Not from the paper.
    again
        Another number asks all anew, past all kept answers.
    """

    multimodal: str | Mapping[str, Any] = "qwen2.5-vl-7b"
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
        """Return what the suite's own steps are told."""
        names = ("multimodal", "language", "prompts", "fps", "most_frames", "most_events", "most_actions")
        return Locot2vSettings(**{name: getattr(self, name) for name in names})


def prompt_suite_settings(values: Mapping[str, Any]) -> PromptSuiteSettings:
    """Return the settings that a user gave.

    Raises
    ------
    UserInputError
        For one that there is not, or a value that does not fit.
    """
    known = PromptSuiteSettings.model_fields
    for name in values:
        if name not in known:
            hint = suggestion(name, known, "there are")
            raise UserInputError(f"prompts are made without a setting {name!r}: {hint}")
    try:
        return PromptSuiteSettings.model_validate(dict(values))
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "settings"
        raise UserInputError(f"{key}: {first['msg'].removeprefix('Value error, ')}") from problem
