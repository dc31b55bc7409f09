"""Frame arrays that tests write in one go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from storage_schemas.frames import ColorSpec, FrameWriter, Planes, WrittenFrames


def write_frames(
    path: Path, frames: Iterable[Planes], pts_s: Iterable[float], color: ColorSpec
) -> WrittenFrames:
    """Write frames of one size, ``(H·3/2, W)`` each, as a frame array and return what it holds."""
    writer: FrameWriter | None = None
    for planes, pts in zip(frames, pts_s, strict=True):
        if writer is None:
            writer = FrameWriter(path, planes.shape[1], planes.shape[0] * 2 // 3, color)
        writer.append(planes, pts)
    if writer is None:
        raise ValueError("a frame array needs at least one frame")
    return writer.finish()
