"""What a user can set, with the models of the two roles; what the paper leaves open is marked so."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from tasks.llm.vision_models import VlmModel, model_from
from tasks.scoring.suites.shown_videos import Grid, SampledVideo, VideoExhibit
from tasks.scoring.suites.video_bench.dimensions import BY_NAME

#: How a prompt's videos are shared out where there are more of them than a batch holds.
Rest = Literal["even", "short", "fill"]


class VideoBenchSettings(Frozen):
    """The suite's settings.

    Parameters
    ----------
    multimodal, language
        Who looks at frames, and who asks questions: the name of a ready model, or a table of fields of
        :class:`~tasks.llm.vision_models.VlmModel`. Default: section 5.3.
    prompts
        A user's folder of prompts, areas ``video-bench`` and ``video-bench-criteria``; by default that of the
        run. Empty: ours.
    fps
        Frames a second that are shown, besides the last one (public code of the authors).
    most_frames
        Most frames of a video; of longer ones an even choice of these, the first and the last among them. Not
        from the paper, whose videos last seconds.
    grid
        Frames in grids where it is given; by default each frame is an image of its own.
    shots
        Videos of one few-shot request; the most of table 7.
    rest
        What happens where a prompt has more videos. ``even``: batches as equal as can be. ``short``: full
        ones and a smaller last one. ``fill``: videos that are scored already fill the last one as a measure.
        Not from the paper.
    order
        ``drawn``: the videos of a prompt are shown in an order drawn by their content, so that no model is
        always the first. ``given``: as they come, in a run by the models' names. Not from the paper.
    quality_prompt
        Whether few-shot requests have the prompt's text. Not from the paper.
    questions
        Most questions of one assistant (appendix F).
    chained_questions
        Whether the second assistant sees the first one's questions. Not from the paper.
    """

    multimodal: str | Mapping[str, Any] = "gpt-4o-2024-08-06"
    language: str | Mapping[str, Any] = "gpt-4o-mini"
    prompts: str = ""
    fps: float = Field(default=2.0, gt=0)
    most_frames: int = Field(default=60, ge=1)
    grid: Grid | None = None
    shots: int = Field(default=7, ge=1)
    rest: Rest = "even"
    order: Literal["drawn", "given"] = "drawn"
    quality_prompt: bool = False
    questions: int = Field(default=2, ge=0)
    chained_questions: bool = True

    def exhibit(self, dimension: str, videos: Mapping[str, SampledVideo]) -> VideoExhibit:
        """Return videos as a request about a dimension shows them."""
        return VideoExhibit(videos, self.fps, self.most_frames, self.grid_of(dimension))

    def grid_of(self, dimension: str) -> Grid | None:
        """Return the grids of a dimension; None where each frame is an image."""
        return self.grid if self.grid is not None and dimension in self.grid.dimensions else None


def settings_from(values: Mapping[str, Any]) -> VideoBenchSettings:
    """Return the settings that a user gave.

    Raises
    ------
    UserInputError
        For one that there is not, or a grid of a dimension that there is not.
    ValidationError
        For a value that does not fit.
    """
    for name in values:
        if name not in VideoBenchSettings.model_fields:
            near = difflib.get_close_matches(name, VideoBenchSettings.model_fields, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else "it has "
            hint += "" if near else ", ".join(VideoBenchSettings.model_fields)
            raise UserInputError(f"video-bench has no setting {name!r}: {hint}")
    made = VideoBenchSettings.model_validate(dict(values))
    for name in made.grid.dimensions if made.grid else ():
        if name not in BY_NAME:
            raise UserInputError(f"grid: video-bench has no dimension {name!r}; it has {', '.join(BY_NAME)}")
    return made


def _gpt_4o(model: str, **fields: Any) -> VlmModel:
    return VlmModel(
        model=model,
        server="openai",
        context_tokens=128_000,
        answer_tokens=4096,
        most_images=500,
        images="tiles",
        detail="low",
        schema_tokens=100,
        temperature=0.0,
        **{"low_tokens": 85, "tile_tokens": 170, **fields},
    )


#: The paper's models (section 5.3), at temperature 0; low detail is that of its authors' public code.
READY: Mapping[str, VlmModel] = {
    "gpt-4o-2024-08-06": _gpt_4o("gpt-4o-2024-08-06"),
    "gpt-4o-mini": _gpt_4o("gpt-4o-mini", low_tokens=2833, tile_tokens=5667),
}
#: Of a model that is not ready, what a user does not say.
_OTHER: Mapping[str, Any] = {
    "context_tokens": 32_768,
    "answer_tokens": 4096,
    "most_images": 128,
    "low_tokens": 85,
    "tile_tokens": 170,
    "temperature": 0.0,
}


def suite_model(said: str | Mapping[str, Any], role: str) -> VlmModel:
    """Return the model of a role; see :func:`~tasks.llm.vision_models.model_from`."""
    return model_from(said, role, READY, _OTHER)
