"""The rule of FFmpeg's ``fps`` filter (round near): second k shows the last image with t < k + 0.5.

Written twice: :func:`choose` for a whole list of time stamps, :class:`FrameRule` for a stream of frames.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def round_half_away(value: Fraction | int) -> int:
    """Nearest integer, halves away from zero, as ``av_rescale_q`` with ``AV_ROUND_NEAR_INF``."""
    numerator, denominator = abs(value.numerator), value.denominator
    nearest = (2 * numerator + denominator) // (2 * denominator)
    return nearest if value >= 0 else -nearest


def ticks_of(pts: NDArray[np.int64], tick: Fraction) -> NDArray[np.int64]:
    """Output frame number (fps × t, rounded) of each time stamp.

    Parameters
    ----------
    pts
        Time stamps, shape (n,), int64.
    tick
        Output frames per unit of ``pts``: fps × time base.
    """
    num, den = tick.numerator, tick.denominator
    largest = int(np.abs(pts).max(initial=0))
    if (2 * largest * num + den) >= 2**62:
        return np.array([round_half_away(int(p) * tick) for p in pts], dtype=np.int64)
    nearest = (2 * np.abs(pts) * num + den) // (2 * den)
    return np.where(pts < 0, -nearest, nearest)


def choose(pts: NDArray[np.int64], end: int, tick: Fraction) -> tuple[int, NDArray[np.int64]]:
    """Which image each output frame shows.

    Parameters
    ----------
    pts
        Time stamps in ascending order, shape (n,), int64.
    end
        Where the last image ends, in units of ``pts``.
    tick
        Output frames per unit of ``pts``: fps × time base.

    Returns
    -------
    first
        Number of the first output frame, never below 0.
    chosen
        Index into ``pts`` of the image shown at ``first``, ``first + 1``, …, shape (m,), int64.
    """
    if not len(pts):
        return 0, np.empty(0, dtype=np.int64)
    ticks = ticks_of(pts, tick)
    first = max(int(ticks[0]), 0)
    stop = max(round_half_away(end * tick), first)
    chosen = np.searchsorted(ticks, np.arange(first, stop), side="right") - 1
    return first, chosen.astype(np.int64)


class FrameRule:
    """The same choice, one image at a time, for images in the order in which a decoder gives them.

    Time stamps that repeat or go back are treated as the filter treats them: the later image wins.
    """

    def __init__(self, tick: Fraction) -> None:
        self._num, self._den = tick.numerator, tick.denominator
        self._next: int | None = None

    def push(self, pts: int) -> range:
        """Numbers of the output frames that show the image before this one; that image is done with.

        At the end of the stream, push the time stamp at which the last image ends.
        """
        nearest = (2 * abs(pts) * self._num + self._den) // (2 * self._den)
        tick = nearest if pts >= 0 else -nearest
        if self._next is None:
            self._next = tick
        start, self._next = self._next, max(self._next, tick)
        return range(start, self._next)
