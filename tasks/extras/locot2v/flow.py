"""Settings of optical flow, OpenCV's DIS, warped frames and visibility."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from storage_schemas.extras import lazy_package
from storage_schemas.model import Frozen
from tasks.pairs.view import Side

cv2 = lazy_package("cv2")

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
#: Gives the position of each pixel of the first RGB frame in the second, ``(H, W, 2)`` float32, x before y.
Flow = Callable[[Bytes, Bytes], Floats]


class FlowSettings(Frozen):
    """Settings of optical flow.

    Parameters
    ----------
    method
        ``raft`` as in the paper, or ``dis``: OpenCV's on a CPU, which needs no weights.
    model, dtype
        A RAFT in a model folder, of kind ``optical-flow``, and the dtype of its computation. VBench and
        EvalCrafter take the weights of FlyingChairs and FlyingThings3D.
    updates
        Refinements of RAFT's flow (VBench: 20).
    preset
        DIS's: ``fast`` or ``medium``; ``ultrafast`` for a first look.
    """

    method: Literal["raft", "dis"] = "raft"
    model: str = "raft-large"
    dtype: Literal["bfloat16", "float16", "float32"] = "float32"
    updates: int = Field(default=20, ge=1, le=100)
    preset: Literal["ultrafast", "fast", "medium"] = "medium"


def dis_flow(first: Bytes, second: Bytes, preset: str = "medium") -> Floats:
    """Return the flow between two frames by OpenCV's DIS; see :data:`Flow`.

    Parameters
    ----------
    first, second
        RGB frames ``(H, W, 3)`` uint8, at least 16 pixels wide and high.
    """
    # one per call: it has buffers, and threads may run this concurrently
    effort = getattr(cv2, f"DISOPTICAL_FLOW_PRESET_{preset.upper()}")
    finder = cv2.DISOpticalFlow.create(effort)
    start = np.zeros((*first.shape[:2], 2), np.float32)
    flow: Floats = finder.calc(grey(first), grey(second), start).astype(np.float32)
    return flow


def warp(frame: NDArray[Any], flow: Floats) -> NDArray[Any]:
    """Return a frame warped back along the flow: its value at each pixel's target, bilinear."""
    height, width = flow.shape[:2]
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    warped: NDArray[Any] = cv2.remap(
        frame, x + flow[..., 0], y + flow[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return warped


def visible(forward: Floats, backward: Floats) -> NDArray[np.bool_]:
    """Return which pixels of the first frame are also visible in the second, ``(H, W)`` bool.

    The flow there and back must end near the start: |f + b(f)|² < 0.01·(|f|² + |b|²) + 0.5 (Sundaram and
    others, ECCV 2010), and within the picture.
    """
    height, width = forward.shape[:2]
    back = warp(backward, forward)
    apart = ((forward + back) ** 2).sum(-1)
    allowed = 0.01 * ((forward**2).sum(-1) + (back**2).sum(-1)) + 0.5
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    to_x, to_y = x + forward[..., 0], y + forward[..., 1]
    inside = (to_x >= 0) & (to_x <= width - 1) & (to_y >= 0) & (to_y <= height - 1)
    consistent: NDArray[np.bool_] = (apart < allowed) & inside
    return consistent


def reduced(rgb: Bytes, long_side: int) -> Bytes:
    """Return a picture reduced so that its longer side is at most `long_side`; smaller ones stay."""
    height, width = rgb.shape[:2]
    scale = long_side / max(height, width)
    if scale >= 1:
        return rgb
    size = max(16, round(width * scale)), max(16, round(height * scale))
    small: Bytes = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA).astype(np.uint8)
    return small


def grey(rgb: Bytes) -> Bytes:
    """Return a picture's grey values, ``(H, W)`` uint8."""
    luma: Bytes = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.uint8)
    return luma


def neighbours(
    video: Side, indices: Sequence[int], long_side: int
) -> Iterator[tuple[int, int, Bytes, Bytes]]:
    """Yield each frame with the one before it, as indices and RGB; two frames are held at once."""
    before: tuple[int, Bytes] | None = None
    for index in indices:
        frame = reduced(video.rgb(index), long_side)
        if before is not None:
            yield before[0], index, before[1], frame
        before = index, frame
