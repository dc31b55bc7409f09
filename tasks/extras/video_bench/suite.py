"""Video-Bench as a suite: nine dimensions, their scorers, and the authors' prompt file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from storage_schemas.errors import UserInputError
from tasks.extras.video_bench.baselines import BASELINES, REPLACED_BY, baseline_scorer
from tasks.extras.video_bench.dimensions import (
    BY_NAME,
    DIMENSIONS,
    QUALITY,
    read_published,
)
from tasks.extras.video_bench.scorers import AlignmentScorer, QualityScorer
from tasks.extras.video_bench.settings import READY, VideoBenchSettings, video_bench_settings
from tasks.extras.video_bench.variants import VARIANTS
from tasks.llm.prompt_files import prompt_text
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, Scorer, Suite, SuitePrompt, Variant
from tasks.scoring.suites.conversation_scorer import suite_roles
from tasks.scoring.suites.guide import Guide


class VideoBench(Suite):
    """Video-Bench (Han et al., 2025).

    Parameters
    ----------
    setup
        The store, where answers are kept, and the model servers.
    settings
        Fields of :class:`~tasks.extras.video_bench.settings.VideoBenchSettings`.

    Raises
    ------
    UserInputError
        If a setting is invalid.
    """

    name: ClassVar[str] = "video-bench"
    title: ClassVar[str] = "Video-Bench"
    published: ClassVar[str] = "tasks.extras.video_bench"
    variants: ClassVar[Mapping[str, Variant]] = VARIANTS

    def __init__(self, setup: Setup, **settings: Any) -> None:
        self.settings: VideoBenchSettings = video_bench_settings({"prompts": setup.prompts, **settings})
        self._setup = setup
        models = {"multimodal": self.settings.multimodal, "language": self.settings.language}
        self._roles = suite_roles(self.name, setup, models, READY)

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """The nine, in the order of the paper's table 1; as baselines, those that have a metric."""
        return BASELINES if self.settings.baselines else DIMENSIONS

    @property
    def prompt_dimensions(self) -> Sequence[str]:
        """The nine."""
        return list(BY_NAME)

    def dimension(self, name: str) -> Dimension:
        """Return a dimension by its name; raises as `Suite.dimension`, also if no baseline scores it."""
        if self.settings.baselines and name in BY_NAME and name not in REPLACED_BY:
            raise UserInputError(f"no baseline scores {name}: they score {', '.join(REPLACED_BY)}")
        return super().dimension(name)

    def scorer(self, dimension: str) -> Scorer:
        """Return the scorer of a dimension; raises as :meth:`Suite.scorer`."""
        scored = self.dimension(dimension)
        if self.settings.baselines:
            models = self.settings.baselines
            return baseline_scorer(scored, self._setup, None if isinstance(models, bool) else models)
        kind = QualityScorer if scored.group == QUALITY else AlignmentScorer
        return kind(scored, self.settings, self._roles)

    def guide(self, dimension: str, language: str) -> Guide | None:
        """Return the criteria as people read them: in English those of the models, or the user's prompts."""
        asked = self.dimension(dimension)
        if language == "en":
            name = f"video-bench-criteria/{dimension}"
            text = prompt_text(name, self.settings.prompts)
        else:
            file = resources.files(__package__).joinpath("guides", language, f"{dimension}.txt")
            if not file.is_file():
                return None
            name, text = str(file), file.read_text(encoding="utf-8")
        return Guide.read(dimension, asked.title, language, text, name)

    def read_prompts(self, path: Path) -> Sequence[SuitePrompt] | None:
        """Return the prompts of the file that the authors publish."""
        return read_published(path)
