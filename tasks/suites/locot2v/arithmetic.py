"""Scorers of the dimensions that are arithmetic on pixels."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from storage_schemas.judgement import Failure
from tasks.evaluators.base import NotJudged, Usage
from tasks.evaluators.features import FeatureCache
from tasks.pairs.view import Side
from tasks.suites.base import Dimension, Scored, Scorer, SuitePrompt, SuiteVideo
from tasks.suites.locot2v.flow_steps import KeptSteps
from tasks.suites.locot2v.pixel_metrics import (
    Measured,
    PixelSettings,
    motion_smoothness,
    moving_share,
    warping_score,
)


class Measurement:
    """A value with details, or why there is none; what scorers of videos give."""

    def __init__(self, found: Measured, details: Mapping[str, Any] | None = None, model: str = "") -> None:
        self.found, self.details, self.model = found, dict(details or {}), model

    def scored(self, frames: int, seconds: float) -> Scored | NotJudged:
        """Return it as a suite keeps it."""
        usage = Usage(frames=frames, seconds=seconds)
        if self.found.value is None:
            return NotJudged(Failure.NO_ANSWER, self.found.why, usage=usage)
        details = {"rests_on": self.found.steps, **self.details}
        return Scored(self.found.value, usage=usage, model=self.model, details=details)


class SeenScorer(Scorer):
    """Scores each video by itself, from what is seen in it."""

    @abstractmethod
    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the value of one video."""

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[Scored | NotJudged]:
        """Return the values of videos; a video without frames has none."""
        return [self._one(prompt, video) for video in videos]

    def _one(self, prompt: SuitePrompt, video: SuiteVideo) -> Scored | NotJudged:
        start = time.perf_counter()
        frames = len(video.video)
        if not frames:
            return NotJudged(Failure.VIDEO_UNREADABLE, "the video has no frames")
        return self.measure(prompt, video).scored(frames, time.perf_counter() - start)


class PixelScorer(SeenScorer):
    """Flicker, dynamic degree, motion smoothness, warping error: OpenCV on one core, nothing is loaded."""

    def __init__(
        self, dimension: Dimension, cache: FeatureCache, pixels: PixelSettings, worst_warping: float
    ) -> None:
        super().__init__(dimension)
        self._pixels, self._worst = pixels, worst_warping
        self._steps = KeptSteps(cache, pixels)

    def settings(self) -> dict[str, Any]:
        """Return the constants."""
        worst = {"worst_warping": self._worst} if self.dimension.name == "warping_error" else {}
        return {"pixels": self._pixels.model_dump(mode="json"), **worst, "version": 1}

    def check(self) -> None:
        """Nothing is needed."""

    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the value of one video."""
        return _METRICS[self.dimension.name](self, video.video)

    def _flicker(self, video: Side) -> Measurement:
        return Measurement(self._steps.flicker(video), {"frames": len(video)})

    def _dynamic(self, video: Side) -> Measurement:
        share = moving_share(video, self._pixels)
        if share.value is None:
            return Measurement(share)
        moves = float(share.value >= self._pixels.moving_share)
        return Measurement(Measured(moves, share.steps), {"moving_share": share.value})

    def _smoothness(self, video: Side) -> Measurement:
        return Measurement(motion_smoothness(video, self._pixels))

    def _warping(self, video: Side) -> Measurement:
        error = self._steps.warping(video)
        if error.value is None:
            return Measurement(error)
        score = warping_score(error.value, self._worst)
        return Measurement(Measured(score, error.steps), {"error": error.value})


_METRICS: Mapping[str, Callable[[PixelScorer, Side], Measurement]] = {
    "temporal_flickering": PixelScorer._flicker,
    "dynamic_degree": PixelScorer._dynamic,
    "motion_smoothness": PixelScorer._smoothness,
    "warping_error": PixelScorer._warping,
}
#: Dimensions that a :class:`PixelScorer` scores.
PIXEL_DIMENSIONS = tuple(_METRICS)
