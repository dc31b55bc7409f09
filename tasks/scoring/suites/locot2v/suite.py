"""LoCoT2V-Bench as a suite: 26 dimensions and their scorers."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, Scorer, Suite, SuitePrompt
from tasks.scoring.suites.locot2v.dimensions import BY_NAME, DIMENSIONS
from tasks.scoring.suites.locot2v.published_prompts import read_published
from tasks.scoring.suites.locot2v.settings import Locot2vSettings, settings_from
from tasks.scoring.suites.locot2v.text_scorers import MEASURES, words_scorer

log = logging.getLogger(__name__)

#: What scores pixels and features: ``seen_scorer(dimension, setup, settings)`` with a
#: :class:`~tasks.scoring.suites.base.Dimension`, a :class:`~tasks.scoring.setup.Setup` and the suite's
#: :class:`~tasks.scoring.suites.locot2v.settings.Locot2vSettings`.
_VISUAL_SCORERS = "tasks.scoring.suites.locot2v.visual_scorers"
SeenScorer = Callable[[Dimension, Setup, Locot2vSettings], Scorer]


class Locot2vBench(Suite):
    """LoCoT2V-Bench (2025).

    Parameters
    ----------
    setup
        The store, where answers are kept, the model servers, and model folders.
    settings
        Fields of :class:`~tasks.scoring.suites.locot2v.settings.Locot2vSettings`.

    Raises
    ------
    UserInputError
        If a setting does not fit.
    """

    name: ClassVar[str] = "locot2v-bench"
    title: ClassVar[str] = "LoCoT2V-Bench"

    def __init__(self, setup: Setup, **settings: Any) -> None:
        self._setup = setup
        self.settings: Locot2vSettings = settings_from({"prompts": setup.prompts, **settings})

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """The 26, in the order of the paper's tables."""
        return DIMENSIONS

    def scorer(self, dimension: str) -> Scorer:
        """Return what scores a dimension.

        Raises
        ------
        UserInputError
            If there is no such dimension.
        PrerequisiteError
            If something that it needs is missing.
        """
        found = dimension_of(dimension)
        if found.name in MEASURES:
            return words_scorer(found, self._setup, self.settings)
        return _seen_scorer(found)(found, self._setup, self.settings)

    def read_prompts(self, path: Path) -> Sequence[SuitePrompt] | None:
        """Return the prompts of the published file; what it lacks is said in the log."""
        found = read_published(path)
        if found is None:
            return None
        for line in found.in_words():
            log.warning("%s: %s", path, line)
        return found.prompts


def _seen_scorer(dimension: Dimension) -> SeenScorer:
    if importlib.util.find_spec(_VISUAL_SCORERS) is None:
        raise PrerequisiteError(
            f"{dimension.name} cannot be scored: this installation has no {_VISUAL_SCORERS}; "
            "install the whole package"
        )
    found: SeenScorer = importlib.import_module(_VISUAL_SCORERS).seen_scorer
    return found


def dimension_of(name: str) -> Dimension:
    """Return a dimension by its name.

    Raises
    ------
    UserInputError
        If there is none.
    """
    if name not in BY_NAME:
        near = difflib.get_close_matches(name, BY_NAME, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(BY_NAME)}"
        raise UserInputError(f"locot2v-bench has no dimension {name!r}: {hint}")
    return BY_NAME[name]
