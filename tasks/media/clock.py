"""Times of packets and images, corrected as the ffmpeg command does, and where a video's pictures end."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from tasks.media.frame_rule import round_half_away
from tasks.media.source_file import OpenVideo

# The command's defaults: -dts_delta_threshold, and the tolerance for a step back.
_JUMP_S = Fraction(10)
_STEP_BACK_S = Fraction(1, 10)


class BestEffort:
    """Time of a decoded image: its presentation time, unless presentation times are wrong more often."""

    def __init__(self) -> None:
        self._faulty_pts = self._faulty_dts = 0
        self._last_pts = self._last_dts = -(2**63)

    def of(self, image: VideoFrame) -> int | None:
        """Return the time stamp of the next image, None if the file has none."""
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


@dataclass(slots=True)
class Stamps:
    """Time stamps and duration of a packet, which can be corrected without the packet."""

    pts: int | None
    dts: int | None
    duration: int | None


class Continuity:
    """Corrects a clock that jumps, as in concatenated transport streams.

    Parameters
    ----------
    time_base
        Seconds per unit of the time stamps.
    frame_s
        Duration of a picture in seconds if its packet has none.
    """

    def __init__(self, time_base: Fraction, frame_s: Fraction) -> None:
        self._jump, self._step_back = _JUMP_S / time_base, _STEP_BACK_S / time_base
        self._frame = round_half_away(frame_s / time_base)
        self._shift = 0
        self._last: int | None = None
        self._next = 0

    def correct(self, packet: Packet[VideoStream] | Stamps) -> None:
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


def frame_s(video: OpenVideo) -> Fraction:
    """Return the average duration of an image in seconds."""
    rate = video.stream.average_rate or video.stream.base_rate
    return 1 / rate if rate else video.time_base


def length_of(video: OpenVideo, stated: int | None) -> int:
    """Return the duration of a picture in units of its time stamp: the stated one, if any."""
    if stated and stated > 0:
        return stated
    return max(1, round(frame_s(video) / video.time_base))


class PicturesEnd:
    """Finds where the pictures of a video end: its actual length, whatever its header states.

    A container's duration may be that of the sound, the end of a clock that does not begin at 0, or the
    difference of the first and the last time stamp of a clock that starts again.
    """

    def __init__(self, video: OpenVideo) -> None:
        self._video, self._frame_s = video, frame_s(video)
        self._clock = Continuity(video.time_base, self._frame_s) if video.may_jump else None
        self._end, self._lengths = 0, 0
        self._last = -(2**63)

    def add(self, packet: Packet[VideoStream]) -> None:
        """Record the next packet."""
        if packet.is_corrupt or packet.is_discard:
            return
        stamps = Stamps(packet.pts, packet.dts, packet.duration)
        if self._clock is not None:
            self._clock.correct(stamps)
        self._lengths += packet.duration or 0
        # In MP4 the duration of a packet lasts until the next one is decoded, which may be shown far from it.
        if stamps.pts is not None and stamps.pts > self._last:
            self._last = stamps.pts
            self._end = stamps.pts + length_of(self._video, packet.duration) + self._video.offset

    @property
    def seconds(self) -> float:
        """End of the last picture so far, in seconds.

        The packets of a raw stream have no presentation times: they are consecutive.
        """
        return float((self._end or self._lengths) * self._video.time_base)
