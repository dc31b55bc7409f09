"""What flicker and the warping error take of each step, computed together: both need the same flow.

Whichever of the two dimensions comes first computes both numbers of every step and keeps them in the store
like features of frames; the other one, in this process or in another, reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np

from tasks.evaluators.features import FeatureCache, FrameFeature, Rows
from tasks.pairs.view import Side
from tasks.suites.locot2v import seen_models
from tasks.suites.locot2v.flow import Bytes, grey, optical_flow, reduced
from tasks.suites.locot2v.pixel_metrics import (
    Measured,
    PixelSettings,
    flicker_of,
    still_difference,
    temporal_flicker,
    warped_difference,
    warping_error,
    warping_of,
)
from tasks.suites.locot2v.seen_models import feature_rows

_FLICKER, _WARPING = 0, 1


class FlowSteps(FrameFeature):
    """Of a frame and the one before it: their difference if they are static, and their warping error.

    A number that a step does not have is NaN.
    """

    name = "flow-steps"
    dtype = "float64"
    width = 2

    def __init__(self, pixels: PixelSettings) -> None:
        self._pixels = pixels

    def settings(self) -> dict[str, Any]:
        """Return the constants that the numbers depend on, and OpenCV's version."""
        used = {"long_side", "static_px", "strongest", "flow"}
        return {**self._pixels.model_dump(mode="json", include=used), "opencv": cv2.__version__, "version": 1}

    def ids(self, side: Side, places: Sequence[int]) -> list[str]:
        """Return the identity of each frame together with the one before it."""
        before = side.frame_ids([place - 1 for place in places])
        return [f"{a}\n{b}" for a, b in zip(before, side.frame_ids(places), strict=True)]

    def compute(self, side: Side, places: Sequence[int]) -> Rows:
        """Return the numbers at places of 1 and more, shape (n, 2)."""
        return np.array([self._row(first, second) for first, second in self._frames(side, places)])

    def _frames(self, side: Side, places: Sequence[int]) -> Iterator[tuple[Bytes, Bytes]]:
        last, frame = -1, None
        for place in places:
            before = frame if frame is not None and last == place - 1 else self._frame(side, place - 1)
            last, frame = place, self._frame(side, place)
            yield before, frame

    def _frame(self, side: Side, place: int) -> Bytes:
        return reduced(side.rgb(place), self._pixels.long_side)

    def _row(self, first: Bytes, second: Bytes) -> tuple[float, float]:
        forward = optical_flow(grey(first), grey(second), self._pixels.flow)
        return (
            still_difference(first, second, forward, self._pixels),
            warped_difference(first, second, forward, self._pixels),
        )


class KeptSteps:
    """Flicker and warping error of videos, by steps that are kept."""

    def __init__(self, cache: FeatureCache, pixels: PixelSettings) -> None:
        self._cache, self._pixels, self._feature = cache, pixels, FlowSteps(pixels)

    def flicker(self, video: Side) -> Measured:
        """Return what :func:`~tasks.suites.locot2v.pixel_metrics.temporal_flicker` does."""
        if not _kept(video):
            return temporal_flicker(video, self._pixels)
        return flicker_of(self._column(video, _FLICKER))

    def warping(self, video: Side) -> Measured:
        """Return what :func:`~tasks.suites.locot2v.pixel_metrics.warping_error` does."""
        if not _kept(video):
            return warping_error(video, self._pixels)
        return warping_of(self._column(video, _WARPING))

    def _column(self, video: Side, which: int) -> Iterator[float]:
        for rows in feature_rows(self._cache, video, range(1, len(video)), self._feature):
            yield from rows[:, which].tolist()


def _kept(video: Side) -> bool:
    """Return whether the steps of a video are kept; of others each dimension computes only its own number."""
    return len(video) - 1 <= seen_models.MOST_KEPT
