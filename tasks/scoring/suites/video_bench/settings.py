"""What a user can set, with the models of the two roles; what the paper leaves open is marked so."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from tasks.llm.vision_models import SuiteModel
from tasks.scoring.suites.video_bench.dimensions import BY_NAME

#: How a prompt's videos are shared out where there are more of them than a batch holds.
Rest = Literal["even", "short", "fill"]


class Grid(Frozen):
    """Several frames side by side in one image (the paper names a grid view and nothing more of it).

    Parameters
    ----------
    rows, columns
        Frames of one image, in reading order; not from the paper.
    fps
        Frames a second that are laid into grids; not from the paper.
    cell_side
        Longer side of one frame in a grid, in pixels; not from the paper.
    dimensions
        Where grids are used; not from the paper.
    """

    rows: int = Field(default=1, ge=1, le=16)
    columns: int = Field(default=4, ge=1, le=16)
    fps: float = Field(default=8.0, gt=0)
    cell_side: int = Field(default=256, ge=16, le=2048)
    dimensions: tuple[str, ...] = ("temporal_consistency", "motion_effects")

    @property
    def cells(self) -> int:
        """Frames of one image."""
        return self.rows * self.columns


class VideoBenchSettings(Frozen):
    """The suite's settings.

    Parameters
    ----------
    multimodal, language
        Who looks at frames, and who asks questions: the name of a ready model, or a table of fields of
        :class:`~tasks.llm.vision_models.SuiteModel`. Default: section 5.3.
    criteria
        A folder whose ``DIMENSION.txt`` and ``describe.txt``, ``ask_questions.txt``, ``answer.txt``,
        ``score.txt``, ``few_shot.txt`` replace ours; empty for ours. The wording is ours.
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
    criteria: str = ""
    fps: float = Field(default=2.0, gt=0)
    most_frames: int = Field(default=60, ge=1)
    grid: Grid | None = None
    shots: int = Field(default=7, ge=1)
    rest: Rest = "even"
    order: Literal["drawn", "given"] = "drawn"
    quality_prompt: bool = False
    questions: int = Field(default=2, ge=0)
    chained_questions: bool = True

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


def _gpt_4o(model: str, **fields: Any) -> SuiteModel:
    return SuiteModel(
        model=model,
        server="openai",
        context_tokens=128_000,
        answer_tokens=4096,
        most_images=500,
        images="tiles",
        detail="low",
        schema_tokens=100,
        temperature=0.0,
        **fields,
    )


#: The paper's models (section 5.3), at temperature 0.
READY: Mapping[str, SuiteModel] = {
    "gpt-4o-2024-08-06": _gpt_4o("gpt-4o-2024-08-06"),
    "gpt-4o-mini": _gpt_4o("gpt-4o-mini", low_tokens=2833, tile_tokens=5667),
}
#: Of a model that is not ready, what a user does not say.
_OTHER: Mapping[str, Any] = {
    "context_tokens": 32_768,
    "answer_tokens": 4096,
    "most_images": 128,
    "temperature": 0.0,
}


def suite_model(said: str | Mapping[str, Any], role: str) -> SuiteModel:
    """Return a model from its name, or from a table of its fields.

    Parameters
    ----------
    said
        Name of a ready model, or its fields: ``model`` (which may be a ready one's) and what is to differ;
        ``server`` for one that is not ready.
    role
        What a message calls it: the setting's name.

    Raises
    ------
    UserInputError
        If there is none of that name, and no server is given.
    """
    fields = {"model": said} if isinstance(said, str) else dict(said)
    name = fields.get("model")
    if not isinstance(name, str):
        raise UserInputError(f"{role}: give the model's name, or a table with model and server")
    unknown = [key for key in fields if key not in SuiteModel.model_fields]
    if unknown:
        near = difflib.get_close_matches(unknown[0], SuiteModel.model_fields, n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        raise UserInputError(f"{role} has no field {unknown[0]!r}{hint}")
    if name in READY:
        return SuiteModel(**{**READY[name].model_dump(), **fields})
    if "server" not in fields:
        raise UserInputError(
            f"{role}: {name!r} is no ready model ({', '.join(READY)}): give a table with model and server, "
            "the server's name in model_servers of the profile"
        )
    return SuiteModel(**{**_OTHER, **fields})
