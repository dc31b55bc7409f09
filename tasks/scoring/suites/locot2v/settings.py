"""What a user can set; what the paper leaves open is marked so, with our default."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen


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
        :class:`~tasks.scoring.suites.locot2v.roles.RoleModel`.
    language
        Who extracts events and actions from texts (the paper's DeepSeek-V3.1).
    locating
        Who says when events take place (the paper's Time-R1-7B).
    embeddings
        What compares texts: the name of a ready model, or a table of fields of
        :class:`~tasks.scoring.suites.locot2v.text_similarity.EmbeddingModel`. Not from the paper.
    prompts
        A folder whose files replace ours of the same names; empty for ours. The wording is ours.
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
