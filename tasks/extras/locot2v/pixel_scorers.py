"""Scorers of the dimensions that are arithmetic on pixels.

Flicker and the warping error need the same flow. Whichever of the two comes first computes both numbers of
every step and stores them like features of frames; the other one reads them, also in another process.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from storage_schemas.judgements import Failure
from storage_schemas.placement import Hardware
from tasks.extras.locot2v import picture_models
from tasks.extras.locot2v.flow import Bytes, reduced
from tasks.extras.locot2v.optical_flow import DisFlow
from tasks.extras.locot2v.picture_models import feature_rows
from tasks.extras.locot2v.pixel_metrics import (
    Measured,
    PixelSettings,
    flicker_of,
    motion_smoothness,
    moving_share,
    still_difference,
    temporal_flicker,
    warped_difference,
    warping_error,
    warping_of,
    warping_score,
)
from tasks.llm.usage import NotJudged, Usage
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache, FrameFeature, Rows
from tasks.scoring.suites.base import Dimension, ScoredVideo, SuitePrompt, SuiteVideo, VideoScorer

_FLICKER, _WARPING = 0, 1


class FlowSteps(FrameFeature):
    """Features of a frame and the previous one: their difference if they are static, and their warping error.

    Missing numbers are NaN.
    """

    name = "flow-steps"
    dtype = "float64"
    width = 2

    def __init__(self, pixels: PixelSettings, flow: DisFlow) -> None:
        self._pixels, self._flow = pixels, flow

    def settings(self) -> dict[str, Any]:
        """Return the constants that the numbers depend on, the flow and its libraries."""
        return {
            **self._pixels.model_dump(mode="json", include={"long_side", "static_px", "strongest"}),
            "flow": self._flow.settings(),
            "libraries": self._flow.libraries(),
            "version": 1,
        }

    def ids(self, side: Side, indices: Sequence[int]) -> list[str]:
        """Return the identity of each frame together with the one before it."""
        before = side.frame_ids([index - 1 for index in indices])
        return [f"{a}\n{b}" for a, b in zip(before, side.frame_ids(indices), strict=True)]

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the numbers at indices of 1 and more, shape (n, 2)."""
        return np.array([self._row(first, second) for first, second in self._frames(side, indices)])

    def _frames(self, side: Side, indices: Sequence[int]) -> Iterator[tuple[Bytes, Bytes]]:
        last, frame = -1, None
        for index in indices:
            before = frame if frame is not None and last == index - 1 else self._frame(side, index - 1)
            last, frame = index, self._frame(side, index)
            yield before, frame

    def _frame(self, side: Side, index: int) -> Bytes:
        return reduced(side.rgb(index), self._pixels.long_side)

    def _row(self, first: Bytes, second: Bytes) -> tuple[float, float]:
        forward = self._flow(first, second)
        return (
            still_difference(first, second, forward, self._pixels),
            warped_difference(first, second, self._flow, forward),
        )


class KeptSteps:
    """Flicker and warping error of videos from stored steps."""

    def __init__(self, cache: FeatureCache, pixels: PixelSettings, flow: DisFlow) -> None:
        self._cache, self._pixels, self._flow = cache, pixels, flow
        self._feature = FlowSteps(pixels, flow)

    def flicker(self, video: Side) -> Measured:
        """Return what :func:`~tasks.extras.locot2v.pixel_metrics.temporal_flicker` does."""
        if not _kept(video):
            return temporal_flicker(video, self._flow, self._pixels)
        return flicker_of(self._column(video, _FLICKER))

    def warping(self, video: Side) -> Measured:
        """Return what :func:`~tasks.extras.locot2v.pixel_metrics.warping_error` does."""
        if not _kept(video):
            return warping_error(video, self._flow, self._pixels)
        return warping_of(self._column(video, _WARPING))

    def _column(self, video: Side, which: int) -> Iterator[float]:
        for rows in feature_rows(self._cache, video, range(1, len(video)), self._feature):
            yield from rows[:, which].tolist()


def _kept(video: Side) -> bool:
    """Return whether the steps of a video are stored; for longer videos each dimension computes its own
    number."""
    return len(video) - 1 <= picture_models.MAX_KEPT


class Measurement:
    """The value of a video with details, or the reason for a missing value."""

    def __init__(self, measured: Measured, details: Mapping[str, Any] | None = None, model: str = "") -> None:
        self.measured, self.details, self.model = measured, dict(details or {}), model

    def scored(self, frames: int, seconds: float) -> ScoredVideo | NotJudged:
        """Return it as a score of a suite."""
        usage = Usage(frames=frames, seconds=seconds)
        if self.measured.value is None:
            return NotJudged(Failure.NO_ANSWER, self.measured.why, usage=usage)
        details = {"rests_on": self.measured.steps, **self.details}
        return ScoredVideo(self.measured.value, usage=usage, model=self.model, details=details)


class VisualScorer(VideoScorer):
    """Scores each video by its pixels or features."""

    @abstractmethod
    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the value of one video."""

    def score_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> ScoredVideo | NotJudged:
        """Return the value of one video; a video without frames has none."""
        start = time.perf_counter()
        frames = len(video.video)
        if not frames:
            return NotJudged(Failure.VIDEO_UNREADABLE, "the video has no frames")
        return self.measure(prompt, video).scored(frames, time.perf_counter() - start)


class PixelScorer(VisualScorer):
    """Flicker, dynamic degree, motion smoothness, warping error, on flow that needs no model."""

    def __init__(
        self,
        dimension: Dimension,
        cache: FeatureCache,
        pixels: PixelSettings,
        flow: DisFlow,
        worst_warping: float,
    ) -> None:
        super().__init__(dimension)
        self._pixels, self._flow, self._worst = pixels, flow, worst_warping
        self._steps = KeptSteps(cache, pixels, flow)

    def settings(self) -> dict[str, Any]:
        """Return the constants and the flow.

        Raises
        ------
        PrerequisiteError
            If the flow's model is missing.
        """
        worst = {"worst_warping": self._worst} if self.dimension.name == "warping_error" else {}
        pixels = self._pixels.model_dump(mode="json", exclude={"flow"})
        return {"pixels": pixels, "flow": self._flow.settings(), **worst, "version": 1}

    def check(self) -> None:
        """Check that the flow's model is present, if it needs one.

        Raises
        ------
        PrerequisiteError
            If not, with the remedy.
        """
        self._flow.check()

    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the value of one video, with the flow that it rests on."""
        measurement = _METRICS[self.dimension.name](self, video.video)
        measurement.details["flow"] = self._flow.details()
        return measurement

    def _flicker(self, video: Side) -> Measurement:
        return Measurement(self._steps.flicker(video), {"frames": len(video)})

    def _dynamic(self, video: Side) -> Measurement:
        share = moving_share(video, self._flow, self._pixels)
        if share.value is None:
            return Measurement(share)
        moves = float(share.value >= self._pixels.moving_share)
        return Measurement(Measured(moves, share.steps), {"moving_share": share.value})

    def _smoothness(self, video: Side) -> Measurement:
        smooth = motion_smoothness(video, self._flow, self._pixels)
        return Measurement(smooth, {"interpolation": self._pixels.interpolation})

    def _warping(self, video: Side) -> Measurement:
        error = self._steps.warping(video)
        if error.value is None:
            return Measurement(error)
        score = warping_score(error.value, self._worst)
        return Measurement(Measured(score, error.steps), {"error": error.value})


class LoadedPixelScorer(PixelScorer):
    """The same on flow by a loaded model."""

    hardware: ClassVar[Hardware] = "gpu"


_METRICS: Mapping[str, Callable[[PixelScorer, Side], Measurement]] = {
    "temporal_flickering": PixelScorer._flicker,
    "dynamic_degree": PixelScorer._dynamic,
    "motion_smoothness": PixelScorer._smoothness,
    "warping_error": PixelScorer._warping,
}
#: Dimensions that a :class:`PixelScorer` scores.
PIXEL_DIMENSIONS = tuple(_METRICS)
