"""Aesthetic quality: Aesthetic Predictor V2.5 against an upper bound (LoCoT2V-Bench, appendix B.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from storage_schemas.errors import PrerequisiteError
from storage_schemas.placement import Hardware
from tasks.extras.locot2v.picture_models import PictureRow, Pictures, VisualModel, feature_rows
from tasks.extras.locot2v.pixel_metrics import Measured
from tasks.extras.locot2v.pixel_scorers import Measurement, VisualScorer
from tasks.extras.locot2v.visual_settings import AestheticSettings
from tasks.models.aesthetic_head import AestheticHead
from tasks.models.base import Models
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache
from tasks.scoring.suites.base import Dimension, SuitePrompt, SuiteVideo


class AestheticQuality(VisualScorer):
    """The mean score at one frame per second, as a share of the upper bound; raw without a bound."""

    hardware: ClassVar[Hardware] = "gpu"

    def __init__(
        self, dimension: Dimension, models: Models, cache: FeatureCache, settings: AestheticSettings
    ) -> None:
        super().__init__(dimension)
        self._settings, self._cache = settings, cache
        self._pictures = Pictures(models, settings.pictures)
        self._head = VisualModel(models, settings.head, ("aesthetic-head",), libraries=("torch",), gpu=False)

    def settings(self) -> dict[str, Any]:
        """Return both models, the rate and the bound."""
        return {
            "pictures": self._pictures.settings(),
            "head": self._head.settings(),
            "fps": self._settings.fps,
            "upper_bound": self._settings.upper_bound,
            "version": 1,
        }

    def check(self) -> None:
        """Check that both models are present.

        Raises
        ------
        PrerequisiteError
            If not, with the remedy.
        """
        self._pictures.check()
        self._head.check()

    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the mean at one frame per second."""
        indices = indices_at(video.video, self._settings.fps)
        head: AestheticHead = self._head.loaded()
        scores: list[float] = []
        for rows in feature_rows(self._cache, video.video, indices, PictureRow(self._pictures)):
            if rows.shape[1] != head.width:
                raise PrerequisiteError(
                    f"{self._head.name} was made for features of {head.width} numbers, {self._pictures.name} "
                    f"gives {rows.shape[1]}: name the SigLIP that belongs to it in visual.aesthetics.pictures"
                )
            scores += head.scores(rows).tolist()
        mean = math.fsum(scores) / len(scores)
        bound = self._settings.upper_bound
        value = share_of_bound(mean, 1.0 if bound is None else bound, self.dimension.high)
        measured = Measured(value, len(scores))
        details = {"mean": mean, "lowest": min(scores), "highest": max(scores), "upper_bound": bound}
        return Measurement(measured, details, self._head.name)


def indices_at(video: Side, fps: float) -> list[int]:
    """Return the indices of frames at a rate, from the first one on; all frames of a slower video."""
    step = max(1.0, video.fps / fps)
    count = math.ceil(len(video) / step)
    return [min(len(video) - 1, round(n * step)) for n in range(count)]


def share_of_bound(score: float, bound: float, most: float = 1.0) -> float:
    """Return a score as a share of the bound, at least 0 and at most `most`."""
    return float(np.clip(score / bound, 0, most))


def upper_bound(scores: Sequence[float]) -> float:
    """Return the mean of the best tenth, of at least one score (appendix B.5).

    Examples
    --------
    >>> upper_bound(range(20))
    18.5
    """
    best = sorted(scores, reverse=True)[: max(1, round(len(scores) / 10))]
    return math.fsum(best) / len(best)
