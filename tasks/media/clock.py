"""Time stamps as the ffmpeg command has them, where a file's own are missing, wrong or start again."""

from __future__ import annotations

from fractions import Fraction

from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from tasks.media.timeline import round_half_away

# The command's defaults: -dts_delta_threshold, and the slack before a step back counts.
_JUMP_S = Fraction(10)
_STEP_BACK_S = Fraction(1, 10)


class BestEffort:
    """A decoded image's time: presentation time, unless those go wrong more often than decode times."""

    def __init__(self) -> None:
        self._faulty_pts = self._faulty_dts = 0
        self._last_pts = self._last_dts = -(2**63)

    def of(self, image: VideoFrame) -> int | None:
        """Time stamp of the next image, None where the file has none."""
        pts, dts = image.pts, image.dts
        if dts is not None:
            self._faulty_dts += dts <= self._last_dts
            self._last_dts = dts
        elif pts is not None:
            self._last_dts = pts
        if pts is not None:
            self._faulty_pts += pts <= self._last_pts
            self._last_pts = pts
        elif dts is not None:
            self._last_pts = dts
        if pts is not None and (self._faulty_pts <= self._faulty_dts or dts is None):
            return pts
        return dts


class Continuity:
    """Joins a clock that jumps, as in transport streams put one after the other.

    Parameters
    ----------
    time_base
        Seconds per unit of the time stamps.
    frame_s
        How long a picture lasts where its packet does not say, seconds.
    """

    def __init__(self, time_base: Fraction, frame_s: Fraction) -> None:
        self._jump, self._step_back = _JUMP_S / time_base, _STEP_BACK_S / time_base
        self._frame = round_half_away(frame_s / time_base)
        self._shift = 0
        self._last: int | None = None
        self._next = 0

    def correct(self, packet: Packet[VideoStream]) -> None:
        """Shift the time stamps of the next packet in decode order."""
        if packet.dts is None:
            if packet.pts is not None:
                packet.pts += self._shift
            return
        dts = packet.dts + self._shift
        if self._last is not None:
            delta = dts - self._next
            if abs(delta) > self._jump or dts + self._step_back < self._last:
                self._shift -= delta
                dts = self._next
        packet.dts = dts
        if packet.pts is not None:
            packet.pts += self._shift
        self._last, self._next = dts, dts + (packet.duration or self._frame)
