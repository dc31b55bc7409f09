"""Which scorer a dimension of pixels and features has."""

from __future__ import annotations

from storage_schemas.errors import UserInputError
from tasks.evaluators.setup import Setup
from tasks.suites.base import Dimension, Scorer
from tasks.suites.locot2v.arithmetic import PIXEL_DIMENSIONS, PixelScorer
from tasks.suites.locot2v.seen_settings import seen_settings
from tasks.suites.locot2v.settings import Locot2vSettings


def seen_scorer(dimension: Dimension, setup: Setup, settings: Locot2vSettings) -> Scorer:
    """Return the scorer of a dimension; nothing is loaded yet.

    Raises
    ------
    UserInputError
        If a setting does not fit, or it is no dimension of pixels and features.
    """
    chosen = seen_settings(settings.seen)
    if dimension.name in PIXEL_DIMENSIONS:
        return PixelScorer(dimension, chosen.pixels, chosen.worst_warping)
    raise UserInputError(f"{dimension.name} is no dimension of pixels and features")
