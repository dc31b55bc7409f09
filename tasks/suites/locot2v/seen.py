"""Which scorer a dimension of pixels and features has."""

from __future__ import annotations

from storage_schemas.errors import UserInputError
from tasks.evaluators.setup import Setup
from tasks.suites.base import Dimension, Scorer
from tasks.suites.locot2v.aesthetic_quality import AestheticQuality
from tasks.suites.locot2v.arithmetic import PIXEL_DIMENSIONS, PixelScorer
from tasks.suites.locot2v.event_consistency import KINDS, EventConsistency
from tasks.suites.locot2v.featured import SemanticConsistency, TransitionSmoothness
from tasks.suites.locot2v.seen_settings import seen_settings
from tasks.suites.locot2v.settings import Locot2vSettings
from tasks.suites.locot2v.technical_quality import TechnicalQuality


def seen_scorer(dimension: Dimension, setup: Setup, settings: Locot2vSettings) -> Scorer:
    """Return the scorer of a dimension; nothing is loaded yet.

    Raises
    ------
    UserInputError
        If a setting does not fit, or it is no dimension of pixels and features.
    PrerequisiteError
        If the profile does not name a model's server.
    """
    chosen = seen_settings(settings.seen)
    if dimension.name in PIXEL_DIMENSIONS:
        return PixelScorer(dimension, setup.cache, chosen.pixels, chosen.worst_warping)
    if dimension.name in KINDS:
        return EventConsistency(dimension, setup, settings, chosen)
    models, cache = setup.models, setup.cache
    if dimension.name == "aesthetic_quality":
        return AestheticQuality(dimension, models, cache, chosen.aesthetics)
    if dimension.name == "technical_quality":
        return TechnicalQuality(dimension, models, chosen.technical)
    if dimension.name == "semantic_consistency":
        return SemanticConsistency(dimension, models, cache, chosen.semantic_pictures)
    if dimension.name == "transition_smoothness":
        return TransitionSmoothness(dimension, models, cache, chosen)
    raise UserInputError(f"{dimension.name} is no dimension of pixels and features")
