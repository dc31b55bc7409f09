"""Video-Bench as a suite: nine dimensions, their scorers, and the authors' prompt file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from storage_schemas.errors import UserInputError
from tasks.llm.answer_store import open_answers
from tasks.llm.conversation import Roles
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, Scorer, Suite, SuitePrompt
from tasks.scoring.suites.video_bench.dimensions import BY_NAME, DIMENSIONS, QUALITY, read_published
from tasks.scoring.suites.video_bench.scorers import AlignmentScorer, QualityScorer
from tasks.scoring.suites.video_bench.settings import VideoBenchSettings, settings_from, suite_model


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
        If a setting does not fit.
    """

    name: ClassVar[str] = "video-bench"
    title: ClassVar[str] = "Video-Bench"

    def __init__(self, setup: Setup, **settings: Any) -> None:
        self.settings: VideoBenchSettings = settings_from({"prompts": setup.prompts, **settings})
        models = {
            "multimodal": suite_model(self.settings.multimodal, "multimodal"),
            "language": suite_model(self.settings.language, "language"),
        }
        kept = open_answers(setup.store.root / "suites" / "answers")
        self._roles = Roles(self.name, models, setup.servers, kept)

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """The nine, in the order of the paper's table 1."""
        return DIMENSIONS

    def scorer(self, dimension: str) -> Scorer:
        """Return what scores a dimension.

        Raises
        ------
        UserInputError
            If there is no such dimension, or its criteria do not fit.
        PrerequisiteError
            If the profile does not name a model's server.
        """
        found = dimension_of(dimension)
        kind = QualityScorer if found.group == QUALITY else AlignmentScorer
        return kind(found, self.settings, self._roles)

    def read_prompts(self, path: Path) -> Sequence[SuitePrompt] | None:
        """Return the prompts of the file that the authors publish."""
        return read_published(path)


def dimension_of(name: str) -> Dimension:
    """Return a dimension by its name.

    Raises
    ------
    UserInputError
        If there is none.
    """
    if name not in BY_NAME:
        near = difflib.get_close_matches(name, BY_NAME, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(BY_NAME)}"
        raise UserInputError(f"video-bench has no dimension {name!r}: {hint}")
    return BY_NAME[name]
