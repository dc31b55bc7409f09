"""Trivial baselines: a single number per video, or a coin.

If one of them is right (or wrong) far more often than a coin, the aspect's pairs can be distinguished without
understanding
their content. All get the same frames as any other evaluator. Sums are exact, so the same frames in another
order, or
flipped, have exactly the same score and are a tie.
"""

from __future__ import annotations

import io
import math
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import PIL
from PIL import Image

from storage_schemas.judgements import Failure
from storage_schemas.rng import derived_seed
from tasks.llm.usage import NotJudged, Usage
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, JudgeAnswer, PairwiseJudge, PointwiseScorer, Score, Sight
from tasks.scoring.features import FeatureCache, Features, FrameFeature, Rows
from tasks.scoring.judges.scenes import THRESHOLD, find_scenes, luma_changes, scene_settings

JPEG_QUALITY = 90


class FrameMeasures(FrameFeature):
    """Per frame: standard deviation of luma, variance of luma's Laplacian, bytes as JPEG.

    The Laplacian has the 3×3 kernel of four neighbours, borders mirrored. The JPEG holds the frame's planes
    one below the other as one grey image.
    """

    name = "frame-measures"
    dtype = "float64"
    width = 3
    CONTRAST, SHARPNESS, BYTES = range(3)

    def settings(self) -> dict[str, Any]:
        """Return what the numbers depend on; the encoder may change with Pillow."""
        return {"version": 1, "jpeg_quality": JPEG_QUALITY, "pillow": PIL.__version__}

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the three numbers of frames, shape (n, 3)."""
        return np.array([self._measure(frame, side.height) for frame in side.planes(indices)])

    @staticmethod
    def _measure(frame: np.ndarray[Any, np.dtype[np.uint8]], height: int) -> tuple[float, float, int]:
        luma = np.ascontiguousarray(frame[:height])
        around = np.pad(luma.astype(np.int16), 1, "reflect")
        neighbours = around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]
        encoded = io.BytesIO()
        try:
            Image.fromarray(frame).save(encoded, "JPEG", quality=JPEG_QUALITY)
        except OSError as problem:
            why = f"a frame of {frame.shape} cannot be encoded as JPEG: {problem}"
            raise NotJudged(Failure.VIDEO_UNREADABLE, why) from problem
        return (
            math.sqrt(variance(luma)),
            variance(neighbours - 4 * around[1:-1, 1:-1]),
            encoded.tell(),
        )


def variance(values: np.ndarray[Any, np.dtype[Any]]) -> float:
    """Return the variance of integers; the sums are exact, so that their order does not matter."""
    total, squares = int(values.sum(dtype=np.int64)), int(np.square(values, dtype=np.int64).sum())
    return (values.size * squares - total**2) / values.size**2


class _Baseline(PointwiseScorer):
    """Base of the baselines.

    Parameters
    ----------
    cache
        Cache of the frames' values; without it they are computed for this object alone.
    """

    measures: ClassVar[str]
    sees: ClassVar[tuple[Sight, ...]] = ("frames",)

    def __init__(self, cache: FeatureCache | None = None) -> None:
        self.cache = cache or FeatureCache()

    def settings(self) -> dict[str, Any]:
        """Return the definition of the score."""
        return {"measures": self.measures}

    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        """Return the video's number, whatever the prompt and the aspect.

        Raises
        ------
        NotJudged
            `video_unreadable` for a video without frames.
        """
        start = time.perf_counter()
        if not len(video):
            raise NotJudged(Failure.VIDEO_UNREADABLE, "the video has no frames")
        value, details = self.measure(video)
        return Score(
            value, usage=Usage(frames=len(video), seconds=time.perf_counter() - start), details=details
        )

    @abstractmethod
    def measure(self, video: Side) -> tuple[float, dict[str, Any]]:
        """Return the number of a video that has frames, and details."""

    def _mean(self, video: Side, column: int) -> tuple[float, dict[str, Any]]:
        measures = self._frames(video)
        return math.fsum(measures.rows[:, column]) / len(video), {"features": measures.counts()}

    def _frames(self, video: Side) -> Features:
        return self.cache.compute_missing(video, range(len(video)), FrameMeasures())


class Duration(_Baseline):
    """The longer video is better."""

    name = "duration"
    measures = "seconds: frames over their rate"
    sees: ClassVar[tuple[Sight, ...]] = ("length",)

    def measure(self, video: Side) -> tuple[float, dict[str, Any]]:
        """Return the duration in seconds."""
        return len(video) / video.fps, {}


class Size(_Baseline):
    """The video with more bytes is better.

    A pair's videos are frames in a store, not files. Their size is the total of their frames as JPEG: it
    grows with length and detail, but unlike a video codec JPEG ignores the similarity of neighbouring frames.
    """

    name = "size"
    measures = "bytes of all frames, each as a grey JPEG of its planes"

    def settings(self) -> dict[str, Any]:
        """Return the definition of the score."""
        return {**super().settings(), "jpeg_quality": JPEG_QUALITY}

    def measure(self, video: Side) -> tuple[float, dict[str, Any]]:
        """Return the bytes."""
        measures = self._frames(video)
        return math.fsum(measures.rows[:, FrameMeasures.BYTES]), {"features": measures.counts()}


class Contrast(_Baseline):
    """The video with more contrast is better."""

    name = "contrast"
    measures = "mean over frames of the standard deviation of luma, in 8-bit steps"

    def measure(self, video: Side) -> tuple[float, dict[str, Any]]:
        """Return the mean contrast."""
        return self._mean(video, FrameMeasures.CONTRAST)


class Sharpness(_Baseline):
    """The sharper video is better."""

    name = "sharpness"
    measures = "mean over frames of the variance of the Laplacian of luma"

    def measure(self, video: Side) -> tuple[float, dict[str, Any]]:
        """Return the mean variance of the Laplacian."""
        return self._mean(video, FrameMeasures.SHARPNESS)


class Motion(_Baseline):
    """The video in which more changes is better."""

    name = "motion"
    measures = "mean over neighbouring frames of the mean absolute difference of luma, in 8-bit steps"

    def measure(self, video: Side) -> tuple[float, dict[str, Any]]:
        """Return the mean difference of neighbours; 0 for a single frame, in which nothing moves."""
        changes = luma_changes(video, self.cache)
        if not len(changes.rows):
            return 0.0, {"features": changes.counts()}
        samples = video.width * video.height * len(changes.rows)
        return math.fsum(changes.rows[:, 0]) / samples, {"features": changes.counts()}


class SceneCount(_Baseline):
    """The video with more scenes is better.

    Parameters
    ----------
    cache
        Cache of the frames' values; without it they are computed for this object alone.
    threshold
        What FFmpeg's scene score must exceed at a cut.
    """

    name = "scenes"
    measures = "number of scenes"

    def __init__(self, cache: FeatureCache | None = None, threshold: float = THRESHOLD) -> None:
        super().__init__(cache)
        self.threshold = threshold

    def settings(self) -> dict[str, Any]:
        """Return the definition of the score."""
        return {**super().settings(), **scene_settings(self.threshold)}

    def measure(self, video: Side) -> tuple[float, dict[str, Any]]:
        """Return the number of scenes: 1 for a video without a cut."""
        scenes = find_scenes(video, self.cache, self.threshold)
        return float(len(scenes)), {"scenes": scenes.details(), "features": scenes.changes}


class Coin(PairwiseJudge):
    """Says one of the two at random: the same one for the same two videos and aspect, in either order.

    Parameters
    ----------
    seed
        Another seed is another coin.
    """

    name = "coin"
    both_orders = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def settings(self) -> dict[str, Any]:
        """Return what the answer depends on."""
        return {"seed": self.seed}

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return the coin's answer; two videos that are the same to the frame are a tie."""
        start = time.perf_counter()
        one, other = first.identity(), second.identity()
        usage = Usage(seconds=time.perf_counter() - start)
        if one == other:
            return JudgeAnswer("tie", usage=usage)
        winner = sorted((one, other))[derived_seed("coin", self.seed, aspect.name, *sorted((one, other))) & 1]
        return JudgeAnswer("first" if winner == one else "second", usage=usage)
