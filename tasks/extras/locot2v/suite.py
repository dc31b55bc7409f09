"""LoCoT2V-Bench as a suite: 26 dimensions and their scorers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from storage_schemas.suite_score import SuiteScore
from tasks.extras.locot2v.dimensions import BY_NAME, DIMENSIONS, RAW_AESTHETICS
from tasks.extras.locot2v.published_prompts import read_published
from tasks.extras.locot2v.settings import Locot2vSettings
from tasks.extras.locot2v.text_scorers import MEASURES, words_scorer
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, Scorer, Suite, SuitePrompt, suite_settings

log = logging.getLogger(__name__)


def is_raw(row: SuiteScore) -> bool:
    """Return whether a score of aesthetic quality is the predictor's own number, by details or size."""
    try:
        details = json.loads(row.details)
    except ValueError:
        details = {}
    without_bound = isinstance(details, dict) and details.get("upper_bound", 1) is None
    return without_bound or (row.score or 0) > BY_NAME[RAW_AESTHETICS.name].high


class Locot2vBench(Suite):
    """LoCoT2V-Bench (2025).

    Parameters
    ----------
    setup
        The store, where answers are kept, the model servers and the model folders.
    settings
        Fields of :class:`~tasks.extras.locot2v.settings.Locot2vSettings`.

    Raises
    ------
    UserInputError
        If a setting is invalid.
    """

    name: ClassVar[str] = "locot2v-bench"
    title: ClassVar[str] = "LoCoT2V-Bench"
    published: ClassVar[str] = "tasks.extras.locot2v"

    def __init__(self, setup: Setup, **settings: Any) -> None:
        self._setup = setup
        self.settings: Locot2vSettings = suite_settings(
            self.name, Locot2vSettings, {"prompts": setup.prompts, **settings}
        )

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """The 26, in the order of the paper's tables."""
        return DIMENSIONS

    def dimensions_of(self, rows: Iterable[SuiteScore]) -> Sequence[Dimension]:
        """Return the 26 dimensions of some scores; aesthetic quality is called raw without an upper bound."""
        name = RAW_AESTHETICS.name
        raw = any(row.dimension == name and row.score is not None and is_raw(row) for row in rows)
        return (RAW_AESTHETICS, *DIMENSIONS[1:]) if raw else DIMENSIONS

    def scorer(self, dimension: str) -> Scorer:
        """Return the scorer of a dimension; raises as :meth:`Suite.scorer`."""
        scored = self.dimension(dimension)
        if scored.name in MEASURES:
            return words_scorer(scored, self._setup, self.settings)
        from tasks.extras.locot2v.visual_scorers import visual_scorer

        return visual_scorer(scored, self._setup, self.settings)

    def read_prompts(self, path: Path) -> Sequence[SuitePrompt] | None:
        """Return the prompts of the published file; what it lacks is logged."""
        published = read_published(path)
        if published is None:
            return None
        for line in published.in_words():
            log.warning("%s: %s", path, line)
        return published.prompts
