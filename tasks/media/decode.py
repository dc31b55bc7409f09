"""Frames of a video at ``fps``, scaled and packed as they are stored, without decoding more than needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import numpy as np
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from storage_schemas.errors import Reason, SetAside, UserInputError
from tasks.media.clock import BestEffort, Continuity
from tasks.media.packet_plan import PacketPlan, Unsafe, plan_packets
from tasks.media.probe import VideoInfo, probe, target_size
from tasks.media.scaling import Scaler
from tasks.media.source_file import OpenVideo, open_video
from tasks.media.timeline import FrameRule

Mode = Literal["packet_plan", "filter_graph"]


@dataclass(frozen=True, slots=True)
class SampledFrame:
    """One frame as it is stored.

    Attributes
    ----------
    index
        Its number k: the frame that FFmpeg's ``fps`` filter puts at k / fps seconds.
    pts_s
        Time of the image in seconds, on the clock of the ffmpeg command.
    planes
        Packed I420, shape (H·3/2, W), uint8, read-only; shared by frames that show the same image.
    """

    index: int
    pts_s: float
    planes: NDArray[np.uint8]


class FrameSampler:
    """The frames of one video file, in order, as often as wanted.

    Parameters
    ----------
    path
        The video file.
    fps
        Frames per second of the result.
    long_side
        Longer side of the result in pixels, a multiple of 4.
    mode
        ``auto`` decodes only what is needed where that is proved to be safe; ``full`` decodes everything.

    Attributes
    ----------
    info
        What :func:`tasks.media.probe.probe` says about the file.
    size
        (width, height) of the frames.
    mode
        ``packet_plan`` or ``filter_graph``: the way that was chosen.
    fallback_reason
        Why everything is decoded, None if it is not.
    first_index, frame_count, times_s
        Number of the first frame, count of frames, and time of each frame's image in seconds; None where
        only decoding can tell.

    Raises
    ------
    SetAside
        The file cannot be used; see :func:`tasks.media.probe.probe`.
    UserInputError
        ``fps`` or ``long_side`` make no sense.
    """

    def __init__(
        self,
        path: Path,
        *,
        fps: Fraction = Fraction(1),
        long_side: int = 512,
        mode: Literal["auto", "full"] = "auto",
    ) -> None:
        if fps <= 0:
            raise UserInputError(f"fps is {fps}; give a number above 0")
        self.path = path
        self.fps = fps
        self.info: VideoInfo = probe(path)
        self.size: tuple[int, int] = target_size(self.info, long_side)
        plan = plan_packets(path, fps) if mode == "auto" else Unsafe("full decoding was asked for")
        self._plan: PacketPlan | None = None
        self.mode: Mode = "filter_graph"
        self.fallback_reason: str | None = None
        self.first_index: int | None = None
        self.frame_count: int | None = None
        self.times_s: NDArray[np.float64] | None = None
        if isinstance(plan, Unsafe):
            self.fallback_reason = plan.reason
        else:
            self._plan = plan
            self.mode = "packet_plan"
            self.first_index = plan.first
            self.frame_count = len(plan.chosen)
            self.times_s = plan.times_s

    def __iter__(self) -> Iterator[SampledFrame]:
        return self.frames()

    def frames(self, start: int = 0, stop: int | None = None) -> Iterator[SampledFrame]:
        """Frames with ``start`` ≤ index < ``stop``, decoded as they are asked for.

        Raises
        ------
        SetAside
            ``TRUNCATED_VIDEO``, ``UNDECODABLE_VIDEO`` or ``NO_FRAMES``.
        """
        if start < 0:
            raise UserInputError(f"start is {start}; give 0 or more")
        if self._plan is None:
            return self._from_all_packets(start, stop)
        return self._from_planned_packets(self._plan, start, stop)

    def _from_all_packets(self, start: int, stop: int | None) -> Iterator[SampledFrame]:
        with open_video(self.path) as video:
            scaler = Scaler(*self.size)
            rule = FrameRule(self.fps * video.time_base)
            found = False
            waiting: tuple[int, VideoFrame] | None = None
            for pts, frame in _decoded(video):
                numbers = rule.push(pts)
                if waiting and numbers.stop > 0 and len(numbers):
                    found = True
                    yield from self._filled(video, scaler, waiting, numbers, start, stop)
                    if stop is not None and numbers.stop >= stop:
                        return
                waiting = pts, frame
            if waiting:
                numbers = rule.push(waiting[0] + _duration(video, waiting[1]))
                if numbers.stop > 0 and len(numbers):
                    found = True
                    yield from self._filled(video, scaler, waiting, numbers, start, stop)
            if not found:
                raise _no_frames(self.path)

    @staticmethod
    def _filled(
        video: OpenVideo,
        scaler: Scaler,
        image: tuple[int, VideoFrame],
        numbers: range,
        start: int,
        stop: int | None,
    ) -> Iterator[SampledFrame]:
        low, high = max(numbers.start, start), numbers.stop if stop is None else min(numbers.stop, stop)
        if low < high:
            pts, frame = image
            planes = scaler.planes(frame)
            for k in range(low, high):
                yield SampledFrame(k, float(pts * video.time_base), planes)

    def _from_planned_packets(self, plan: PacketPlan, start: int, stop: int | None) -> Iterator[SampledFrame]:
        if not len(plan.chosen):
            raise _no_frames(self.path)
        low = max(start - plan.first, 0)
        high = len(plan.chosen) if stop is None else min(stop - plan.first, len(plan.chosen))
        if low >= high:
            return
        chosen = plan.chosen[low:high]
        needed = plan.needed(chosen)
        k = low
        with open_video(self.path) as video:
            scaler = Scaler(*self.size)
            for frame in _planned(video, plan, needed):
                if frame.pts != plan.pts[plan.chosen[k]]:
                    continue
                planes = scaler.planes(frame)
                while k < high and frame.pts == plan.pts[plan.chosen[k]]:
                    yield SampledFrame(plan.first + k, float(plan.times_s[k]), planes)
                    k += 1
                if k == high:
                    return
        raise SetAside(
            Reason.UNDECODABLE_VIDEO,
            f"{self.path}: the image at {plan.times_s[k]:.3f} s cannot be decoded; convert or replace it",
        )


def sample_frames(
    path: Path,
    *,
    fps: Fraction = Fraction(1),
    long_side: int = 512,
    mode: Literal["auto", "full"] = "auto",
    start: int = 0,
    stop: int | None = None,
) -> Iterator[SampledFrame]:
    """Frames of a video file at ``fps``; see :class:`FrameSampler`."""
    return FrameSampler(path, fps=fps, long_side=long_side, mode=mode).frames(start, stop)


def _no_frames(path: Path) -> SetAside:
    return SetAside(
        Reason.NO_FRAMES, f"{path}: too short for one frame at this rate; use a longer video or a higher fps"
    )


def _duration(video: OpenVideo, frame: VideoFrame) -> int:
    """How long the last image is shown, in units of its time stamp."""
    if frame.duration > 0:
        return frame.duration
    return max(1, round(_frame_s(video) / video.time_base))


def _frame_s(video: OpenVideo) -> Fraction:
    """How long a picture lasts on average, seconds."""
    rate = video.stream.average_rate or video.stream.base_rate
    return 1 / rate if rate else video.time_base


def _images(video: OpenVideo, packets: Iterator[Packet[VideoStream] | None]) -> Iterator[VideoFrame]:
    """Decoded images; damage before the first one is a late key frame, after it the file is refused."""
    seen = False
    for packet in packets:
        try:
            images = video.decode(packet)
        except av.FFmpegError as error:
            if seen:
                raise _broken(video, packet.pts if packet else None, packets) from error
            continue
        for image in images:
            if image.is_corrupt and seen:
                raise _broken(video, image.pts, packets)
            seen = True
            yield image


def _broken(video: OpenVideo, pts: int | None, rest: Iterator[Packet[VideoStream] | None]) -> SetAside:
    """Damage at the very end is what a file looks like that was cut off."""
    where = "" if pts is None else f" at {float((pts + video.offset) * video.time_base):.3f} s"
    if next(rest, None) is None:
        return SetAside(
            Reason.TRUNCATED_VIDEO, f"{video.path}: the last picture{where} is not whole; get the whole file"
        )
    return SetAside(
        Reason.UNDECODABLE_VIDEO,
        f"{video.path}: the picture{where} is damaged; get an undamaged copy or convert it",
    )


def _decoded(video: OpenVideo) -> Iterator[tuple[int, VideoFrame]]:
    """All images with the time stamps that the ffmpeg command gives them."""

    clock = Continuity(video.time_base, _frame_s(video)) if video.may_jump else None

    def packets() -> Iterator[Packet[VideoStream] | None]:
        partial = False
        for packet in video.packets():
            # A container marks packets beside a gap, whole ones too: whether it hurts, the decoder tells.
            partial, packet.is_corrupt = packet.is_corrupt, False
            if clock:
                clock.correct(packet)
            yield packet
        if partial:
            raise SetAside(
                Reason.TRUNCATED_VIDEO, f"{video.path}: the last packet is not whole; get the whole file"
            )
        yield None

    stamps = BestEffort()
    following = -video.offset
    for image in _images(video, packets()):
        pts = stamps.of(image)
        if pts is None:  # a raw stream has no clock of its own: images follow each other
            pts = following
        following = pts + _duration(video, image)
        yield pts + video.offset, image


def _planned(video: OpenVideo, plan: PacketPlan, needed: NDArray[np.bool_]) -> Iterator[VideoFrame]:
    """Images of the needed packets, in the order in which they are shown."""
    first, last = int(np.argmax(needed)), int(len(needed) - 1 - np.argmax(needed[::-1]))

    def packets() -> Iterator[Packet[VideoStream] | None]:
        index = -1
        if first > 0:
            video.container.seek(int(plan.seek_to[first]), stream=video.stream)
        for packet in video.packets():
            if index < 0:
                index = int(np.argmax(plan.pts == packet.pts)) if first > 0 else 0
            if index >= len(plan.pts) or packet.pts != plan.pts[index]:
                raise SetAside(
                    Reason.VIDEO_CHANGED, f"{video.path}: the file changed while it was read; start again"
                )
            if needed[index]:
                yield packet
            index += 1
            if index > last:
                break
        yield None

    return _images(video, packets())
