"""Technical quality: DOVER++ on pieces of a video (LoCoT2V-Bench, method, static quality)."""

from __future__ import annotations

import math
from typing import Any

from storage_schemas.ids import digest_text
from tasks.aspects.base import Models
from tasks.models.dover import Dover
from tasks.suites.base import Dimension, SuitePrompt, SuiteVideo
from tasks.suites.locot2v.arithmetic import Measurement, SeenScorer
from tasks.suites.locot2v.dover_views import pieces, views
from tasks.suites.locot2v.pixel_metrics import Measured
from tasks.suites.locot2v.seen_models import SeenModel
from tasks.suites.locot2v.seen_settings import TechnicalSettings


class TechnicalQuality(SeenScorer):
    """DOVER++ on pieces under 10 s, the mean over pieces; on a CPU, by onnxruntime."""

    def __init__(self, dimension: Dimension, models: Models, settings: TechnicalSettings) -> None:
        super().__init__(dimension)
        self._settings = settings
        self._model = SeenModel(models, settings.model, ("dover",), libraries=("onnxruntime",), gpu=False)

    def settings(self) -> dict[str, Any]:
        """Return the model and the constants."""
        return {
            **self._model.settings(),
            **self._settings.model_dump(mode="json", exclude={"model"}),
            "version": 2,
        }

    def check(self) -> None:
        """Check that the model is there.

        Raises
        ------
        PrerequisiteError
            If not, with what to do.
        """
        self._model.check()

    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the mean over pieces."""
        settings, side = self._settings, video.video
        scores: list[float] = []
        raw: list[list[float]] = []
        for number, piece in enumerate(pieces(len(side), side.fps, settings.piece_s)):
            model: Dover = self._model.loaded()
            # from the video's content, not from its name
            seed = int(digest_text(f"{video.digest}\n{number}")[:16], 16)
            beauty, technique = model.scores(*views(side, piece, model.clips or settings.clips, seed))
            scores.append(technical_score(beauty, technique, settings))
            raw.append([beauty, technique])
        found = Measured(math.fsum(scores) / len(scores), len(scores))
        details = {"pieces": scores, "aesthetic_and_technical": raw}
        return Measurement(found, details, self._model.name)


def technical_score(beauty: float, technique: float, settings: TechnicalSettings) -> float:
    """Return a piece's score from 0 to 1 from the raw numbers of both branches."""
    technical = (technique - settings.technical_mean) / settings.technical_deviation
    if settings.score == "technical":
        return logistic(technical)
    aesthetic = (beauty - settings.aesthetic_mean) / settings.aesthetic_deviation
    share = settings.technical_weight
    return logistic(share * technical + (1 - share) * aesthetic)


def logistic(value: float) -> float:
    """Return 1 / (1 + e^−x), without overflow."""
    return 0.5 * (1 + math.tanh(value / 2))
