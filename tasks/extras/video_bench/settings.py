"""Settings, with the models of the two roles; "not from the paper" marks what the paper leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.model import Frozen
from tasks.extras.video_bench.dimensions import BY_NAME, DIMENSIONS, QUALITY
from tasks.llm.prompt_files import prompt_text
from tasks.llm.vision_models import VlmModel
from tasks.scoring.suites.base import suite_settings
from tasks.scoring.suites.shown_videos import Grid, ImageLines, SampledVideo, VideoExhibit

#: How a prompt's videos are divided if a batch cannot hold them.
Rest = Literal["even", "short", "fill"]


class VideoBenchSettings(Frozen):
    """The suite's settings.

    Parameters
    ----------
    multimodal, language
        The model that sees frames, and the one that asks questions: the name of a predefined model, or fields
        of
        :class:`~tasks.llm.vision_models.VlmModel`. Default: section 5.3.
    prompts
        A user's folder of prompts, areas ``video-bench`` and ``video-bench-criteria``; by default that of the
        run. Empty: ours.
    fps
        Frames per second that are shown, besides the last frame (public code of the authors).
    most_frames
        Maximum frames of a video; longer ones are sampled evenly, including the first and the last frame. Not
        from the paper, whose videos last seconds.
    grid
        The grid view, one of the method's components (table 3): several frames in one image. None or false
        switches it off: each frame is an image.
    shots
        Videos of one few-shot request; the maximum of table 7.
    rest
        If a prompt has more videos. ``even``: batches of about equal size. ``short``: full batches and a
        smaller last one. ``fill``: videos that are already scored fill the last batch for comparison.
        Not from the paper.
    order
        ``drawn``: the videos of a prompt are shown in an order drawn by their content, so that no model is
        always first. ``given``: in the given order, in a run by the models' names. Not from the paper.
    quality_prompt
        Quality dimensions whose requests have the prompt's text. Default: aesthetic quality, whose criteria
        ask whether the composition holds what the prompt demands (A.2.2).
    chain_of_query
        Whether alignment dimensions are scored by the chain of query; if not, by one request (table 4 (b)).
    questions
        Maximum questions of one assistant (appendix F).
    chained_questions
        Whether the second assistant sees the first one's questions. In appendix F each sees the prompt, the
        description and the caption.
    single_request
        One request of the multimodal model a video and dimension, as "GPT" in table 3: no chain of query, one
        video a request, no grid.
    baselines
        Scores by the metrics of table 2 whose models this project has, in place of the method; other values
        than true are settings of their models, as ``visual`` of LoCoT2V-Bench has them.
    """

    multimodal: str | Mapping[str, Any] = "gpt-4o-2024-08-06"
    language: str | Mapping[str, Any] = "gpt-4o-mini"
    prompts: str = ""
    fps: float = Field(default=2.0, gt=0)
    most_frames: int = Field(default=60, ge=1)
    grid: Grid | None = Grid()
    shots: int = Field(default=7, ge=1)
    rest: Rest = "even"
    order: Literal["drawn", "given"] = "drawn"
    quality_prompt: tuple[str, ...] = ("aesthetic_quality",)
    chain_of_query: bool = True
    questions: int = Field(default=2, ge=0)
    chained_questions: bool = False
    single_request: bool = False
    baselines: bool | str | Mapping[str, Any] = False

    @field_validator("grid", mode="before")
    @classmethod
    def _switch_off(cls, value: Any) -> Any:
        return None if value is False else value

    def exhibit(
        self, dimension: str, videos: Mapping[str, SampledVideo], lines: Mapping[str, str]
    ) -> VideoExhibit:
        """Return videos as a request about a dimension shows them; for `lines` see :meth:`image_lines`."""
        around = ImageLines(lines["video"], grid=lines.get("grid", ""))
        return VideoExhibit(videos, self.fps, self.most_frames, around, self.grid_of(dimension))

    def image_lines(self, dimension: str, line: str) -> Mapping[str, str]:
        """Return the lines around the images of a dimension's requests.

        Parameters
        ----------
        line
            The prompt that stands before each video: ``video_line`` or ``numbered_video_line``.
        """
        names = {"video": line, **({"grid": "grid_line"} if self.grid_of(dimension) else {})}
        return {key: prompt_text(f"video-bench/{name}", self.prompts) for key, name in names.items()}

    def grid_of(self, dimension: str) -> Grid | None:
        """Return the grids of a dimension; None where each frame is an image."""
        return self.grid if self.grid is not None and dimension in self.grid.dimensions else None


def video_bench_settings(values: Mapping[str, Any]) -> VideoBenchSettings:
    """Return a user's settings.

    Raises
    ------
    UserInputError
        For an unknown setting, an invalid value, a grid of an unknown dimension, the prompt for a
        dimension that is not of the quality group, or a single request with a part that it leaves out.
    """
    settings = suite_settings("video-bench", VideoBenchSettings, values)
    for name in settings.grid.dimensions if settings.grid else ():
        if name not in BY_NAME:
            hint = suggestion(name, BY_NAME)
            raise UserInputError(f"grid: video-bench has no dimension {name!r}: {hint}")
    quality = [dimension.name for dimension in DIMENSIONS if dimension.group == QUALITY]
    for name in settings.quality_prompt:
        if name not in quality:
            hint = suggestion(name, quality)
            raise UserInputError(f"quality_prompt: video-bench has no quality dimension {name!r}: {hint}")
    if settings.single_request:
        for name in ("chain_of_query", "shots", "grid"):
            if values.get(name):
                raise UserInputError(
                    "single_request is without chain of query, several videos a request and grid: leave out "
                    f"{name}"
                )
        return settings.model_copy(update={"chain_of_query": False, "shots": 1, "grid": None})
    return settings


#: The server of models that take no JSON Schema: an entry of the profile with ``structured = "json"`` or
#: ``"none"``. Answers under the paper's headings are also understood.
WITHOUT_SCHEMAS = "openai-without-schemas"


def _gpt_4o(model: str, **fields: Any) -> VlmModel:
    return VlmModel(
        model=model,
        context_tokens=128_000,
        answer_tokens=4096,
        most_images=500,
        images="tiles",
        detail="low",
        schema_tokens=100,
        temperature=0.0,
        **{"server": "openai", "low_tokens": 85, "tile_tokens": 170, **fields},
    )


#: The paper's models (section 5.3), at temperature 0; low detail is that of its authors' public code.
READY: Mapping[str, VlmModel] = {
    "gpt-4o-2024-08-06": _gpt_4o("gpt-4o-2024-08-06"),
    # table 5
    "gpt-4o-2024-05-13": _gpt_4o("gpt-4o-2024-05-13", server=WITHOUT_SCHEMAS),
    "gpt-4o-2024-11-20": _gpt_4o("gpt-4o-2024-11-20"),
    "gpt-4o-mini": _gpt_4o("gpt-4o-mini", low_tokens=2833, tile_tokens=5667),
}
