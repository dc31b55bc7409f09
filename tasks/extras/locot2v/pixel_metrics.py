"""Temporal metrics that are arithmetic on pixels: flicker, dynamic degree, motion smoothness, warping error.

Flicker, dynamic degree and motion smoothness follow VBench, the warping error EvalCrafter, as in the paper
(LoCoT2V-Bench, method, temporal quality). Each reads a video's frames once and holds a few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from storage_schemas.model import Frozen
from tasks.extras.locot2v.flow import (
    Bytes,
    Floats,
    Flow,
    FlowSettings,
    neighbours,
    reduced,
    visible,
    warp,
)
from tasks.pairs.view import Side

#: Rows of features, ``(n, dimensions)`` float64.
Features = NDArray[np.float64]


class PixelSettings(Frozen):
    """Constants of the pixel metrics.

    Parameters
    ----------
    long_side
        Longer side to which frames are reduced, in pixels (not from the paper: that of the suite's frames);
        flow is in such pixels.
    static_px
        Two neighbouring frames are static if the strongest 5 % of the flow average less than this number of
        pixels (not from the paper; VBench excludes moving videos by a threshold of its dynamic degree).
    moving_px
        Flow at which a step counts as moving, in pixels at 256 pixels of the shorter side (VBench: 6).
    moving_share
        Share of moving steps that makes a video dynamic (VBench: 4 of 16).
    step_s
        Seconds between the frames that dynamic degree compares (VBench: 8 frames per second).
    strongest
        Share of the flow's pixels that counts (VBench: the strongest 5 %).
    flow
        How flow is found.
    interpolation
        How motion smoothness predicts a frame: ``flow-warp`` moves the neighbours along the flow. A stand-in
        for VBench's network AMT.
    """

    long_side: int = Field(default=512, ge=16)
    static_px: float = Field(default=1.0, gt=0)
    moving_px: float = Field(default=6.0, ge=0)
    moving_share: float = Field(default=0.25, ge=0, le=1)
    step_s: float = Field(default=0.125, gt=0)
    strongest: float = Field(default=0.05, gt=0, le=1)
    flow: FlowSettings = FlowSettings()
    interpolation: Literal["flow-warp"] = "flow-warp"


DEFAULTS = PixelSettings()
_ALONE = "a video of one frame has no neighbours"


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric's value with its number of steps; None if the video has nothing to measure.

    Parameters
    ----------
    value
        Between 0 and 1, greater is better.
    steps
        Pairs of frames that were compared.
    why
        Why there is no value.
    """

    value: float | None
    steps: int
    why: str = ""


def strongest_flow(flow: Floats, share: float) -> float:
    """Return the mean length of the flow's strongest pixels, as in VBench's dynamic degree."""
    lengths = np.sqrt((flow.astype(np.float64) ** 2).sum(-1)).ravel()
    count = max(1, int(share * lengths.size))
    return float(np.partition(lengths, lengths.size - count)[-count:].mean())


def temporal_flicker(video: Side, flow: Flow, settings: PixelSettings = DEFAULTS) -> Measured:
    """Return 1 less the mean absolute difference of neighbouring static frames, over 255.

    Moving steps are ignored: their differences are not flicker.
    """
    return flicker_of(
        still_difference(first, second, flow(first, second), settings)
        for _before, _after, first, second in neighbours(video, range(len(video)), settings.long_side)
    )


def still_difference(first: Bytes, second: Bytes, forward: Floats, settings: PixelSettings) -> float:
    """Return the mean absolute difference of two neighbouring frames, NaN if they move."""
    if strongest_flow(forward, settings.strongest) >= settings.static_px:
        return math.nan
    return float(np.abs(first.astype(np.int16) - second).mean())


def flicker_of(differences: Iterable[float]) -> Measured:
    """Return flicker by the difference of each step, see :func:`still_difference`."""
    steps = list(differences)
    static = [step for step in steps if not math.isnan(step)]
    if not steps:
        return Measured(None, 0, _ALONE)
    if not static:
        return Measured(None, 0, "no two neighbouring frames are static")
    return Measured(1 - math.fsum(static) / len(static) / 255, len(static))


def sampled(video: Side, step_s: float) -> list[int]:
    """Return the indices of frames at least `step_s` apart, from the first one on."""
    stride = max(1, round(step_s * video.fps))
    return list(range(0, len(video), stride))


def moving_share(video: Side, flow: Flow, settings: PixelSettings = DEFAULTS) -> Measured:
    """Return the share of steps whose strongest flow passes the threshold."""
    indices = sampled(video, settings.step_s)
    moving = steps = 0
    for _before, _after, first, second in neighbours(video, indices, settings.long_side):
        limit = settings.moving_px * min(first.shape[:2]) / 256
        moving += strongest_flow(flow(first, second), settings.strongest) > limit
        steps += 1
    if not steps:
        why = "a video of one frame cannot move"
        return Measured(None, 0, why if len(video) < 2 else f"no two frames lie {settings.step_s:g} s apart")
    return Measured(moving / steps, steps)


def motion_smoothness(video: Side, flow: Flow, settings: PixelSettings = DEFAULTS) -> Measured:
    """Return how well every second frame is predicted from its two neighbours, 1 less the error over 255.

    VBench interpolates with the network AMT, which has no maintained package. Here, by the name
    ``flow-warp``, both neighbours are moved half of the way along the flow between them and averaged, so
    values differ from VBench's.
    """
    errors = []
    for middle in range(1, len(video) - 1, 2):
        before, now, after = (
            reduced(video.rgb(index), settings.long_side) for index in (middle - 1, middle, middle + 1)
        )
        guess = interpolated(before, after, flow)
        errors.append(float(np.abs(guess - now).mean()))
    if not errors:
        return Measured(None, 0, "smoothness needs three frames")
    return Measured(1 - math.fsum(errors) / len(errors) / 255, len(errors))


def interpolated(before: Bytes, after: Bytes, flow: Flow) -> Floats:
    """Return the frame half way between two, ``(H, W, 3)`` float32."""
    forward, backward = flow(before, after), flow(after, before)
    # what is at x in the middle came from x − f/2 and goes to x − b/2
    first = warp(before.astype(np.float32), forward * np.float32(-0.5))
    second = warp(after.astype(np.float32), backward * np.float32(-0.5))
    middle: Floats = ((first + second) / 2).astype(np.float32)
    return middle


def warping_error(video: Side, flow: Flow, settings: PixelSettings = DEFAULTS) -> Measured:
    """Return the mean squared difference of each frame and the next one warped onto it; smaller is better.

    Pixels are in 0 … 1; those hidden in either frame are ignored. In
    :attr:`Measured.value` it is the error itself; :func:`warping_score` makes a score of it.
    """
    return warping_of(
        warped_difference(first, second, flow)
        for _before, _after, first, second in neighbours(video, range(len(video)), settings.long_side)
    )


def warped_difference(first: Bytes, second: Bytes, flow: Flow, forward: Floats | None = None) -> float:
    """Return the mean squared difference of a frame and the next one warped onto it, NaN if every pixel is
    hidden.

    Parameters
    ----------
    forward
        The flow from the first to the second, if it is known.
    """
    forward = flow(first, second) if forward is None else forward
    backward = flow(second, first)
    in_both = visible(forward, backward)
    if not in_both.any():
        return math.nan
    warped = warp(second.astype(np.float32) / 255, forward)
    return float(((warped - first.astype(np.float32) / 255) ** 2)[in_both].mean())


def warping_of(differences: Iterable[float]) -> Measured:
    """Return the warping error by the difference of each step, see :func:`warped_difference`."""
    steps = list(differences)
    errors = [step for step in steps if not math.isnan(step)]
    if not steps:
        return Measured(None, 0, _ALONE)
    if not errors:
        return Measured(None, 0, "no two neighbouring frames share what they show")
    return Measured(math.fsum(errors) / len(errors), len(errors))


def warping_score(error: float, worst: float = 0.05) -> float:
    """Return a warping error as a score from 0 to 1; greater is better.

    Parameters
    ----------
    worst
        Error that counts as 0 (not from the paper, which prints per cent without saying how).
    """
    return 1 - min(1.0, error / worst)


def cosines(features: Features) -> Features:
    """Return the cosine of each row and the next, ``(n − 1,)``."""
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    products: Features = (unit[:-1] * unit[1:]).sum(1)
    return products
