"""The rule of FFmpeg's ``fps`` filter (``round=near``): second k shows the last image with t < k + 0.5.

Implemented twice: :func:`choose` for a complete list of time stamps, :class:`FrameRule` for a stream.
"""

from __future__ import annotations

from array import array
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

#: More output frames between two images (115 days at 1 fps) indicate a broken clock.
MAX_FRAMES = 10_000_000


class AbsurdTime(ValueError):
    """Time stamps are implausibly far apart."""


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
    """Return which image each output frame shows.

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
    shown
        Index into ``pts`` of the image shown at ``first``, ``first + 1``, …, shape (m,), int64.

    Raises
    ------
    AbsurdTime
        There would be more than :data:`MAX_FRAMES` frames.
    """
    if not len(pts):
        return 0, np.empty(0, dtype=np.int64)
    ticks = ticks_of(pts, tick)
    first = max(int(ticks[0]), 0)
    stop = max(round_half_away(end * tick), first)
    if stop - first > MAX_FRAMES:
        raise AbsurdTime(f"{stop - first} frames")
    shown = np.searchsorted(ticks, np.arange(first, stop), side="right") - 1
    return first, shown.astype(np.int64)


class Chooser:
    """:func:`choose` for time stamps that arrive in ascending batches.

    Attributes
    ----------
    first
        Number of the first output frame.
    ids, pts
        Id and time stamp of the image shown by ``first``, ``first + 1``, …
    """

    def __init__(self, tick: Fraction) -> None:
        self._tick = tick
        self._last: tuple[int, int] | None = None
        self.first = 0
        self.ids, self.pts = array("q"), array("q")

    def add(self, pts: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
        """Add the next batch, in ascending order; its last image is shown until the next batch begins."""
        if self._last:
            pts, ids = np.insert(pts, 0, self._last[0]), np.insert(ids, 0, self._last[1])
        self._choose(pts, ids, int(pts[-1]))
        self._last = int(pts[-1]), int(ids[-1])

    def finish(self, end: int) -> None:
        """Show the last image until ``end``."""
        if self._last:
            self._choose(np.array(self._last[:1]), np.array(self._last[1:]), end)

    def _choose(self, pts: NDArray[np.int64], ids: NDArray[np.int64], end: int) -> None:
        first, chosen = choose(pts, end, self._tick)
        if not self.ids:
            self.first = first
        self.ids.frombytes(ids[chosen].tobytes())
        self.pts.frombytes(pts[chosen].tobytes())


class FrameRule:
    """The same rule, one image at a time, for images in decoder output order.

    Repeated or decreasing time stamps are handled as in the filter: the later image wins.
    """

    def __init__(self, tick: Fraction) -> None:
        self._num, self._den = tick.numerator, tick.denominator
        self._next: int | None = None

    def push(self, pts: int) -> range:
        """Return the numbers of the output frames that show the previous image, which is then complete.

        At the end of the stream, push the end time of the last image.
        """
        nearest = (2 * abs(pts) * self._num + self._den) // (2 * self._den)
        tick = nearest if pts >= 0 else -nearest
        if self._next is None:
            self._next = tick
        start, self._next = self._next, max(self._next, tick)
        if self._next - start > MAX_FRAMES:
            raise AbsurdTime(f"{self._next - start} frames")
        return range(start, self._next)
