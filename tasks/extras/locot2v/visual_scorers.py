"""Scorers that compare features of whole frames, and the scorer of each visual dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from storage_schemas.errors import UserInputError
from storage_schemas.placement import Hardware
from tasks.extras.locot2v.aesthetic_quality import AestheticQuality
from tasks.extras.locot2v.dimensions import RAW_AESTHETICS
from tasks.extras.locot2v.event_consistency import KINDS, EventConsistency
from tasks.extras.locot2v.optical_flow import optical_flow
from tasks.extras.locot2v.picture_models import PictureRow, Pictures, feature_rows
from tasks.extras.locot2v.pixel_metrics import Features, Measured, cosines
from tasks.extras.locot2v.pixel_scorers import (
    PIXEL_DIMENSIONS,
    LoadedPixelScorer,
    Measurement,
    PixelScorer,
    VisualScorer,
)
from tasks.extras.locot2v.settings import Locot2vSettings
from tasks.extras.locot2v.technical_quality import TechnicalQuality
from tasks.extras.locot2v.transitions import find_cuts, transition_smoothness, transitions
from tasks.extras.locot2v.visual_settings import PictureModel, VisualSettings
from tasks.models.base import Models
from tasks.scoring.features import FeatureCache, Rows
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, Scorer, SuitePrompt, SuiteVideo

#: Maximum number of cuts in the details of a score.
_MAX_CUTS = 200


class FeatureScorer(VisualScorer):
    """Base of scorers with a model of pictures."""

    hardware: ClassVar[Hardware] = "gpu"

    def __init__(
        self, dimension: Dimension, models: Models, cache: FeatureCache, model: PictureModel
    ) -> None:
        super().__init__(dimension)
        self._pictures, self._cache = Pictures(models, model), cache

    def settings(self) -> dict[str, Any]:
        """Return the model."""
        return {"pictures": self._pictures.settings(), "version": 1}

    def check(self) -> None:
        """Check that the model is present.

        Raises
        ------
        PrerequisiteError
            If not, with the remedy.
        """
        self._pictures.check()


class SemanticConsistency(FeatureScorer):
    """The mean cosine of neighbouring frames' features, at least 0 (EvalCrafter's CLIP-Temp)."""

    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the mean over neighbours."""
        side = video.video
        measured = neighbour_cosines(
            feature_rows(self._cache, side, range(len(side)), PictureRow(self._pictures))
        )
        return Measurement(measured, model=self._pictures.name)


def neighbour_cosines(parts: Iterable[Rows]) -> Measured:
    """Return the mean cosine of neighbouring rows, given in parts, at least 0."""
    last: Features | None = None
    values: list[float] = []
    for part in parts:
        rows = np.asarray(part, dtype=np.float64)
        joined = rows if last is None else np.concatenate([last, rows])
        values += cosines(joined).tolist()
        last = joined[-1:]
    if not values:
        return Measured(None, 0, "a video of one frame has no neighbours")
    mean = math.fsum(values) / len(values)
    return Measured(min(1.0, max(0.0, mean)), len(values))


class TransitionSmoothness(FeatureScorer):
    """Smoothness of pixels, structure, features and motion around each cut."""

    def __init__(
        self, dimension: Dimension, models: Models, cache: FeatureCache, settings: VisualSettings
    ) -> None:
        super().__init__(dimension, models, cache, settings.transition_pictures)
        self._cuts, self._transitions = settings.cuts, settings.transitions
        self._flow = optical_flow(settings.transitions.flow, models)

    def settings(self) -> dict[str, Any]:
        """Return the models and the constants."""
        return {
            **super().settings(),
            "cuts": self._cuts.model_dump(mode="json"),
            "transitions": self._transitions.model_dump(mode="json", exclude={"flow"}),
            "flow": self._flow.settings(),
        }

    def check(self) -> None:
        """Check that the models are present.

        Raises
        ------
        PrerequisiteError
            If not, with the remedy.
        """
        super().check()
        self._flow.check()

    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the mean over cuts; a video without one has no score."""
        side, feature = video.video, PictureRow(self._pictures)

        def features_of(indices: Sequence[int]) -> Features:
            rows = list(feature_rows(self._cache, side, indices, feature))
            return np.concatenate(rows).astype(np.float64)

        at_cuts = transitions(side, find_cuts(side, self._cuts), features_of, self._flow, self._transitions)
        cuts = [{"frame": one.frame, "smoothness": one.smoothness} for one in at_cuts[:_MAX_CUTS]]
        details = {"cuts": cuts, "flow": self._flow.details()}
        return Measurement(transition_smoothness(at_cuts), details, self._pictures.name)


def visual_scorer(dimension: Dimension, setup: Setup, settings: Locot2vSettings) -> Scorer:
    """Return the scorer of a dimension; nothing is loaded yet.

    Raises
    ------
    UserInputError
        If it is not a visual dimension.
    PrerequisiteError
        If the profile does not name a model's server.
    """
    visual = settings.visual
    if dimension.name in PIXEL_DIMENSIONS:
        flow = optical_flow(visual.pixels.flow, setup.models)
        make = LoadedPixelScorer if flow.hardware == "gpu" else PixelScorer
        return make(dimension, setup.cache, visual.pixels, flow, visual.worst_warping)
    if dimension.name in KINDS:
        return EventConsistency(dimension, setup, settings, visual)
    models, cache = setup.models, setup.cache
    if dimension.name == "aesthetic_quality":
        scored = RAW_AESTHETICS if visual.aesthetics.upper_bound is None else dimension
        return AestheticQuality(scored, models, cache, visual.aesthetics)
    if dimension.name == "technical_quality":
        return TechnicalQuality(dimension, models, visual.technical)
    if dimension.name == "semantic_consistency":
        return SemanticConsistency(dimension, models, cache, visual.semantic_pictures)
    if dimension.name == "transition_smoothness":
        return TransitionSmoothness(dimension, models, cache, visual)
    raise UserInputError(f"{dimension.name} is not a dimension of pixels and features")
