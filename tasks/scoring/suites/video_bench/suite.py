"""Video-Bench as a suite: nine dimensions, their scorers, and the authors' prompt file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, Scorer, Suite, SuitePrompt
from tasks.scoring.suites.conversation_scorer import suite_roles
from tasks.scoring.suites.video_bench.dimensions import DIMENSIONS, QUALITY, read_published
from tasks.scoring.suites.video_bench.scorers import AlignmentScorer, QualityScorer
from tasks.scoring.suites.video_bench.settings import READY, VideoBenchSettings, video_bench_settings


class VideoBench(Suite):
    """Video-Bench (Han et al., 2025).

    Parameters
    ----------
    setup
        The store, where answers are kept, and the model servers.
    settings
        Fields of :class:`~tasks.scoring.suites.video_bench.settings.VideoBenchSettings`.

    Raises
    ------
    UserInputError
        If a setting is invalid.
    """

    name: ClassVar[str] = "video-bench"
    title: ClassVar[str] = "Video-Bench"

    def __init__(self, setup: Setup, **settings: Any) -> None:
        self.settings: VideoBenchSettings = video_bench_settings({"prompts": setup.prompts, **settings})
        models = {"multimodal": self.settings.multimodal, "language": self.settings.language}
        self._roles = suite_roles(self.name, setup, models, READY)

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """The nine, in the order of the paper's table 1."""
        return DIMENSIONS

    def scorer(self, dimension: str) -> Scorer:
        """Return the scorer of a dimension; raises as :meth:`Suite.scorer`."""
        scored = self.dimension(dimension)
        kind = QualityScorer if scored.group == QUALITY else AlignmentScorer
        return kind(scored, self.settings, self._roles)

    def read_prompts(self, path: Path) -> Sequence[SuitePrompt] | None:
        """Return the prompts of the file that the authors publish."""
        return read_published(path)
