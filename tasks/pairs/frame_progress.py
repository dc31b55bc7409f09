"""How fast the frames of a clip are made, as lines of the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger("tasks.pairs.degrade")

#: Least time between two lines of one clip, in seconds.
EVERY_S = 30.0


class FrameProgress:
    """Writes a line about a clip at most every 30 s, and one at its end.

    A clip that took less has no line at all, unless `always` is set: most operations take milliseconds.

    Parameters
    ----------
    what
        Aspect and source, for the reader.
    clip, clips
        Which of the pair's clips this is, from 1, and how many there are.
    frames, frames_after
        Frames of this clip, and of the pair's clips that come after it.
    always
        Whether the end of each clip has a line.
    clock
        Seconds, monotonic.
    """

    def __init__(
        self,
        what: str,
        clip: int,
        clips: int,
        frames: int,
        frames_after: int,
        *,
        always: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._clip, self._clips = what, clip, clips
        self._frames, self._after, self._always, self._clock = frames, frames_after, always, clock
        self._began = self._said = clock()
        self._done = 0

    def add(self, frames: int) -> None:
        """Note that so many more frames are made."""
        self._done += frames
        now = self._clock()
        ended = self._done >= self._frames
        due = now - self._said >= EVERY_S
        if (ended and (self._always or now - self._began >= EVERY_S)) or (due and not ended):
            self._said = now
            log.info("%s", self._line(now - self._began))

    def _line(self, seconds: float) -> str:
        speed = self._done / max(seconds, 1e-6)
        left = self._frames - self._done + self._after
        rest = f"{left} frames of the pair left, about {_time(left / speed)}" if left else "the pair's last"
        return (
            f"{self._what}: clip {self._clip} of {self._clips}, {self._done} of {self._frames} frames, "
            f"{speed:.3g} frames/s, {rest}"
        )


def _time(seconds: float) -> str:
    """Return a time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
