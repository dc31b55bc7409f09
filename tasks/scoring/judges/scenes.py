"""Scenes of a video: the segments between cuts, detected by FFmpeg's scene score on the video's own frames.

The score is that of FFmpeg's filter ``select`` (``get_scene_score`` in ``libavfilter/f_select.c``): luma's
mean absolute difference to the frame before, in 8-bit steps, or how much that differs from the same number
one frame earlier, whichever is smaller, over 100 and at most 1. It is computed here from the frames'
planes, with the command's results; a cut is where ``gt(scene,threshold)``.

FFmpeg 5.1.9 and 9.0.2 compute the same score. For pictures narrower than a vector register of the processor
(seen below 32 px with AVX2) both are wrong; without their vector code (`-cpuflags 0`) they agree with ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.ids import digest_text
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache, Features, FrameFeature, Rows

#: The paper names FFmpeg's scene filter but no threshold; 0.3 is our choice.
THRESHOLD = 0.3
#: The versions of FFmpeg whose score ours was compared with.
SCORE = "as in FFmpeg 5.1.9 and 9.0.2"


class LumaChange(FrameFeature):
    """Sum of absolute luma differences of a frame and the one before it, in 8-bit steps; exact."""

    name = "luma-change"
    dtype = "float64"
    width = 1

    def settings(self) -> dict[str, Any]:
        """Return what the numbers depend on."""
        return {"version": 1}

    def ids(self, side: Side, indices: Sequence[int]) -> list[str]:
        """Return the identity of each frame together with the previous one."""
        frames = side.frame_ids(indices)
        before = side.frame_ids([index - 1 for index in indices])
        return [digest_text(f"{a}\n{b}")[:32] for a, b in zip(before, frames, strict=True)]

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the sums at indices of 1 and more, shape (n, 1)."""
        wanted = sorted({*indices, *(index - 1 for index in indices)})
        luma = dict(zip(wanted, side.planes(wanted)[:, : side.height], strict=True))
        return np.array([[_l1(luma[at - 1], luma[at])] for at in indices], np.float64)


def _l1(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> int:
    # the larger less the smaller stays in 8 bits
    return int((np.maximum(first, second) - np.minimum(first, second)).sum(dtype=np.int64))


@dataclass(frozen=True)
class Scenes:
    """The scenes of a video.

    Parameters
    ----------
    starts
        First frame of each scene; the first is 0. Empty for a video without frames.
    frames
        How many frames the video has.
    fps
        Their rate: the cuts depend on it.
    threshold
        Score above which a cut is detected.
    changes
        Counts of :class:`LumaChange` needed and computed.
    """

    starts: tuple[int, ...]
    frames: int
    fps: float
    threshold: float
    changes: dict[str, int]

    def __len__(self) -> int:
        """Return the number of scenes."""
        return len(self.starts)

    @property
    def clips(self) -> tuple[range, ...]:
        """The frames of each scene."""
        ends = (*self.starts[1:], self.frames)
        # a video without frames has no scene
        return tuple(range(start, end) for start, end in zip(self.starts, ends, strict=False))

    @property
    def centres(self) -> tuple[int, ...]:
        """The centre frame of each scene: frame ``n // 2`` of its n."""
        return tuple(clip[len(clip) // 2] for clip in self.clips)

    def details(self) -> dict[str, Any]:
        """Return settings and counts, JSON-compatible."""
        return {**scene_settings(self.threshold), "fps": self.fps, "frames": self.frames, "clips": len(self)}


def scene_settings(threshold: float = THRESHOLD) -> dict[str, Any]:
    """Return the settings that scenes depend on, JSON-compatible."""
    return {"filter": f"select=gt(scene,{threshold:g})", "score": SCORE, "on": "the video's own frames"}


def luma_changes(side: Side, cache: FeatureCache) -> Features:
    """Return the :class:`LumaChange` of every frame but the first, shape (n - 1, 1)."""
    return cache.compute_missing(side, range(1, len(side)), LumaChange())


def scene_scores(sums: NDArray[np.float64], pixels: int) -> NDArray[np.float64]:
    """Return FFmpeg's scene score of each frame, shape (n,).

    The first frame has 0. The second has no earlier change to compare with: FFmpeg uses 0 for it.

    Parameters
    ----------
    sums
        Sums of absolute luma differences to the frame before, of every frame but the first, shape (n - 1,).
    pixels
        Luma samples of a frame.
    """
    change = sums / pixels
    jump = np.abs(np.diff(change, prepend=0.0))
    # FFmpeg clips in single precision
    score = np.clip((np.minimum(change, jump) / 100).astype(np.float32), 0, 1)
    return np.concatenate([np.zeros(1), score.astype(np.float64)])


def find_scenes(side: Side, cache: FeatureCache, threshold: float = THRESHOLD) -> Scenes:
    """Return the scenes of a video; a video without cuts is one scene.

    Memory grows only by a few bytes per frame. What the videos of a pair, or all aspects of a source, have in
    common is computed once.

    Parameters
    ----------
    side
        The video.
    cache
        Cache of the changes between frames.
    threshold
        What the score must exceed, from 0 to 1.
    """
    if not len(side):
        return Scenes((), 0, side.fps, threshold, {"needed": 0, "computed": 0})
    changes = luma_changes(side, cache)
    cuts = np.flatnonzero(scene_scores(changes.rows[:, 0], side.width * side.height) > threshold)
    return Scenes((0, *map(int, cuts)), len(side), side.fps, threshold, changes.counts())
