"""Cuts of a video, and the smoothness of its transitions (LoCoT2V-Bench, appendix B.6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from storage_schemas.extras import lazy_package
from storage_schemas.model import Frozen
from tasks.extras.locot2v.flow import Bytes, Floats, Flow, FlowSettings, grey, reduced
from tasks.extras.locot2v.pixel_metrics import Features, Measured, cosines
from tasks.pairs.view import Side

cv2 = lazy_package("cv2")

#: Gives the features of frames by index, ``(n, dimensions)``.
FeaturesOf = Callable[[Sequence[int]], Features]


class TransitionSettings(Frozen):
    """Constants of transition smoothness (not from the paper, except for the four similarities).

    Parameters
    ----------
    window_s
        Seconds around a cut, half of them before it.
    pixels, structure, features, motion
        Weights of the four similarities; not all may be 0.
    long_side
        Longer side to which frames are reduced, in pixels.
    flow
        How motion is found.
    """

    window_s: float = Field(default=1.0, gt=0, le=60)
    pixels: float = Field(default=0.25, ge=0)
    structure: float = Field(default=0.25, ge=0)
    features: float = Field(default=0.25, ge=0)
    motion: float = Field(default=0.25, ge=0)
    long_side: int = Field(default=512, ge=16)
    flow: FlowSettings = FlowSettings()

    @model_validator(mode="after")
    def _weighs(self) -> Self:
        if not self.pixels + self.structure + self.features + self.motion:
            raise ValueError("pixels, structure, features and motion are all 0: give one a weight")
        return self


@dataclass(frozen=True, slots=True)
class Transition:
    """One cut, with its smoothness."""

    frame: int
    similarities: tuple[float, ...]
    smoothness: float


def window_of(cut: int, count: int, fps: float, window_s: float) -> range:
    """Return the frames around a cut, at least two on each side if the video has them.

    Parameters
    ----------
    cut
        Index of the first frame after the cut.
    """
    half = max(2, round(window_s * fps / 2))
    return range(max(0, cut - half), min(count, cut + half))


def pixel_similarity(first: Bytes, second: Bytes) -> float:
    """Return 1 less the mean absolute difference over 255."""
    return 1 - float(np.abs(first.astype(np.int16) - second).mean()) / 255


def structural_similarity(first: Bytes, second: Bytes) -> float:
    """Return the SSIM of two grey frames, at least 0 (Wang and others, 2004; OpenCV's, a Gaussian of 1.5)."""
    ssim = cv2.quality.QualitySSIM.create(first).compute(second)
    return max(0.0, float(ssim[0]))


def motion_similarity(first: Floats, second: Floats) -> float:
    """Return the similarity of two flows: 1 less the length of their difference over the sum of their
    lengths.

    Two still steps are equal; numerator and denominator are averaged over pixels separately, and a hundredth
    of a pixel is added to both lengths, so that noise in still frames does not count as motion.
    """
    apart = np.sqrt(((first.astype(np.float64) - second) ** 2).sum(-1)).mean()
    lengths = sum(np.sqrt((flow.astype(np.float64) ** 2).sum(-1)).mean() + 0.01 for flow in (first, second))
    return 1 - min(1.0, float(apart / lengths))


def smoothness(similarities: Sequence[float] | NDArray[np.float64]) -> float:
    """Return 1 less the variance of similarities, as a share of that of a hard cut, at least 0.

    A hard cut is one step of 0 among steps of 1: of n steps its variance is (n − 1)/n².

    Examples
    --------
    >>> smoothness([1, 1, 0, 1]), smoothness([0.5, 0.5, 0.5])
    (0.0, 1.0)
    """
    values = np.asarray(similarities, dtype=np.float64)
    n = len(values)
    if n < 2:
        return 1.0
    return 1 - min(1.0, float(values.var() / ((n - 1) / n**2)))


def step_similarities(
    video: Side, indices: Sequence[int], features_of: FeaturesOf, flow: Flow, settings: TransitionSettings
) -> list[float]:
    """Return the weighted similarity of each frame and the next; the window's frames are held at once."""
    frames = [reduced(video.rgb(index), settings.long_side) for index in indices]
    greys = [grey(frame) for frame in frames]
    flows = [flow(a, b) for a, b in pairwise(frames)]
    alike = np.clip(cosines(features_of(indices)), 0, 1)
    weights = settings.pixels + settings.structure + settings.features + settings.motion
    values_by_frame = []
    for step in range(len(frames) - 1):
        motion = [
            motion_similarity(flows[step], flows[other])
            for other in (step - 1, step + 1)
            if 0 <= other < len(flows)
        ]
        total = settings.pixels * pixel_similarity(frames[step], frames[step + 1])
        total += settings.structure * structural_similarity(greys[step], greys[step + 1])
        total += settings.features * float(alike[step])
        total += settings.motion * (math.fsum(motion) / len(motion) if motion else 1.0)
        values_by_frame.append(total / weights)
    return values_by_frame


def transitions(
    video: Side,
    cuts: Sequence[int],
    features_of: FeaturesOf,
    flow: Flow,
    settings: TransitionSettings | None = None,
) -> list[Transition]:
    """Return the smoothness of each cut.

    Parameters
    ----------
    cuts
        Places of the first frame after each cut.
    features_of
        Features of frames, SigLIP's in the paper.
    flow
        Finds the motion, by RAFT in the paper.
    """
    constants = settings or TransitionSettings()
    measured = []
    for cut in cuts:
        indices = window_of(cut, len(video), video.fps, constants.window_s)
        if len(indices) > 1:
            values = step_similarities(video, indices, features_of, flow, constants)
            measured.append(Transition(cut, tuple(values), smoothness(values)))
    return measured


def transition_smoothness(transitions: Sequence[Transition]) -> Measured:
    """Return the mean over cuts; None for a video without cuts."""
    if not transitions:
        return Measured(None, 0, "the video has no cut")
    return Measured(math.fsum(one.smoothness for one in transitions) / len(transitions), len(transitions))


class CutSettings(Frozen):
    """Settings of cut detection; the paper names only PySceneDetect. Not from the paper: its own defaults.

    Parameters
    ----------
    threshold
        Change of hue, saturation and value between two frames that counts as a cut, 0 to 255.
    shortest_s
        Minimum length of a scene, seconds.
    long_side
        Longer side to which frames are reduced first, in pixels (about PySceneDetect's own).
    """

    threshold: float = Field(default=27.0, gt=0)
    shortest_s: float = Field(default=0.6, ge=0)
    long_side: int = Field(default=256, ge=16)


def find_cuts(video: Side, settings: CutSettings | None = None) -> list[int]:
    """Return the index of the first frame after each cut.

    One frame is held at a time, besides the detector's state.
    """
    # slow to import, so only when cuts are needed
    import cv2
    from scenedetect.detectors.content_detector import ContentDetector

    constants = settings or CutSettings()
    shortest = max(1, round(constants.shortest_s * video.fps))
    detector = ContentDetector(threshold=constants.threshold, min_scene_len=shortest)
    cuts: list[int] = []
    for index in range(len(video)):
        small = reduced(video.rgb(index), constants.long_side)
        cuts += detector.process_frame(index, cv2.cvtColor(small, cv2.COLOR_RGB2BGR))
    cuts += detector.post_process(len(video) - 1)
    # scenes without frames do not count
    return sorted({int(index) for index in cuts if 0 < index < len(video)})
