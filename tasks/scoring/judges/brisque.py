"""BRISQUE as an evaluator: the video whose frames have the more natural statistics is better.

A baseline with a fitted model, for aspects of quality: it sees blur, noise and block edges in single
pictures, and neither content nor order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from storage_schemas.extras import lazy_package
from storage_schemas.judgements import Failure
from tasks.llm.usage import NotJudged, Usage
from tasks.models.base import Models
from tasks.models.hub import consumed_model
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, Need, PointwiseScorer, Score, Sight
from tasks.scoring.features import FeatureCache, FrameFeature, Rows

cv2 = lazy_package("cv2")


class BrisqueOfFrames(FrameFeature):
    """BRISQUE of each frame's luma; NaN for a frame of one colour.

    Parameters
    ----------
    models
        Where the model is.
    model
        Its name.
    """

    name = "brisque"
    dtype = "float64"
    width = 1

    def __init__(self, models: Models, model: str) -> None:
        self._models, self._model = models, model

    def settings(self) -> dict[str, Any]:
        """Return what the number depends on."""
        return {"version": 1, "model": consumed_model(self._models, self._model), "opencv": cv2.__version__}

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the scores of frames, shape (n, 1)."""
        model = self._models.get(self._model)
        return np.array(
            [[model.score(np.ascontiguousarray(frame[: side.height]))] for frame in side.planes(indices)]
        )


class BrisqueScore(PointwiseScorer):
    """The mean over a video's frames of BRISQUE, negated: higher is better.

    Parameters
    ----------
    models
        Where the model is.
    cache
        Cache of the frames' values; without it they are computed for this object alone.
    model
        A model of the kind ``brisque``.
    """

    name = "brisque"
    by_aspect = False
    sees: ClassVar[tuple[Sight, ...]] = ("frames",)
    needs: ClassVar[tuple[Need, ...]] = ("weights",)

    def __init__(self, models: Models, cache: FeatureCache | None = None, model: str = "brisque") -> None:
        self.cache = cache or FeatureCache()
        self._feature = BrisqueOfFrames(models, model)

    def settings(self) -> dict[str, Any]:
        """Return the definition of the score."""
        return {"measures": "mean over frames of BRISQUE of luma, negated", **self._feature.settings()}

    def check(self) -> None:
        """Check that the model is present; raises PrerequisiteError with the command that fetches it."""
        self._feature.settings()

    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        """Return the negated mean, whatever the prompt and the aspect.

        Raises
        ------
        NotJudged
            `video_unreadable` for a video without frames, or with frames of one colour only.
        """
        start = time.perf_counter()
        features = self.cache.compute_missing(video, range(len(video)), self._feature)
        scores = features.rows[:, 0][~np.isnan(features.rows[:, 0])] if len(video) else ()
        if not len(scores):
            raise NotJudged(Failure.VIDEO_UNREADABLE, "the video has no frame with more than one colour")
        return Score(
            -math.fsum(scores) / len(scores),
            usage=Usage(frames=len(video), seconds=time.perf_counter() - start),
            details={"features": features.counts(), "frames_of_one_colour": len(video) - len(scores)},
        )
