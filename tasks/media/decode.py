"""Sample the frames of a video at ``fps``, scaled and packed for storage, decoding no more than needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

import numpy as np
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.frames import ColorSpec
from storage_schemas.source import Damage, DamageRule
from tasks.media.frame_rule import AbsurdTime, FrameRule
from tasks.media.images import all_images, duration_of, planned_images
from tasks.media.packet_plan import PacketPlan, Unsafe, probe_and_plan
from tasks.media.probe import DURATION_TOLERANCE_S, VideoInfo, probe, target_size
from tasks.media.scaling import Scaler
from tasks.media.source_file import OpenVideo, open_video

Mode = Literal["packet_plan", "filter_graph"]

#: Seconds without a picture after which some are assumed missing: recorders of cameras, browsers
#: and slides give one more often.
MAX_GAP_S = 60
#: Minimum frames that a thread decodes before it takes the next part of the video.
_MIN_FRAMES = 32
#: Maximum frames of a part held in memory; 57 MB at 512×288.
_MAX_FRAMES = 256


@dataclass(frozen=True, slots=True)
class SampledFrame:
    """One frame in stored form.

    Attributes
    ----------
    index
        Number k of the frame that FFmpeg's ``fps`` filter outputs at k / fps seconds.
    pts_s
        Time of the image in seconds, as the ffmpeg command counts it.
    planes
        Packed I420, shape (H·3/2, W), uint8, read-only; shared by frames that show the same image.
    """

    index: int
    pts_s: float
    planes: NDArray[np.uint8]


class FrameSampler:
    """The frames of one video file in order; can be iterated repeatedly.

    Parameters
    ----------
    path
        The video file.
    fps
        Output frames per second.
    long_side
        Longer side of the output in pixels, a multiple of 4.
    mode
        ``auto`` skips packets where this is proven safe; ``full`` decodes everything.
    damaged
        How a damaged file is handled; see :func:`tasks.media.source_file.open_video`.
    threads
        Threads that decode with a packet plan, each its own parts between closed groups of pictures; the
        frames are the same. The caller's thread, which takes them, is not counted.

    Attributes
    ----------
    info
        Result of :func:`tasks.media.probe.probe`.
    size
        (width, height) of the frames.
    mode
        Selected method: ``packet_plan`` or ``filter_graph``.
    fallback_reason
        Why everything is decoded; None with a packet plan.
    first_index, frame_count, times_s
        Number of the first frame, frame count, and time of each frame's image in seconds; None if only
        decoding can tell.
    damage
        How the frames of a damaged file are taken, empty if it is whole; known after the last frame.
    duration_s
        Duration in seconds: that of `info`, but up to the last picture where only decoding could find it.

    Raises
    ------
    SetAside
        The file cannot be used; see :func:`tasks.media.probe.probe`.
    UserInputError
        ``fps`` or ``long_side`` is not valid.
    """

    def __init__(
        self,
        path: Path,
        *,
        fps: Fraction = Fraction(1),
        long_side: int = 512,
        mode: Literal["auto", "full"] = "auto",
        damaged: DamageRule = "refuse",
        threads: int = 1,
    ) -> None:
        if fps <= 0:
            raise UserInputError(f"fps is {fps}; give a number above 0")
        self.path = path
        self.fps = fps
        self.info: VideoInfo
        plan: PacketPlan | Unsafe
        if mode == "auto":
            self.info, plan = probe_and_plan(path, fps, damaged)
        else:
            self.info, plan = probe(path, damaged), Unsafe("full decoding was requested")
        self._damaged, self._threads = damaged, threads
        self.damage: Damage = self.info.damage
        self.duration_s: float = self.info.duration_s
        self.size: tuple[int, int] = target_size(self.info, long_side)
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
        """Yield the frames with ``start`` ≤ index < ``stop``, decoding them lazily.

        Raises
        ------
        SetAside
            ``TRUNCATED_VIDEO``, ``UNDECODABLE_VIDEO``, ``NO_FRAMES`` or ``PICTURE_GAP``.
        """
        if start < 0:
            raise UserInputError(f"start is {start}; give 0 or more")
        plan = self._plan
        frames = (
            self._from_all_packets(start, stop)
            if plan is None
            else self._from_planned_packets(plan, start, stop)
        )
        return frames if self._damaged == "conceal" else self._without_gaps(frames)

    def _without_gaps(self, frames: Iterator[SampledFrame]) -> Iterator[SampledFrame]:
        """Reject a picture that is shown too long because none follows."""
        for frame in frames:
            if frame.index / self.fps - Fraction(frame.pts_s) > MAX_GAP_S + 1 / self.fps:
                raise SetAside(
                    Reason.PICTURE_GAP,
                    f"{self.path}: no picture follows the one at {frame.pts_s:.1f} s for over {MAX_GAP_S} s: "
                    "a part is missing. Get the whole recording, or cut it there; where the picture really "
                    "stands still, repeat it (ffmpeg -i IN -r 25 OUT), or build with --set damaged=conceal",
                )
            yield frame

    def _from_all_packets(self, start: int, stop: int | None) -> Iterator[SampledFrame]:
        with open_video(self.path, self._damaged) as video:
            scaler = self._scaler()
            rule = FrameRule(self.fps * video.time_base)
            any_image = False
            waiting: tuple[int, VideoFrame] | None = None
            for pts, frame in all_images(video):
                scaler.check_turn(frame)
                try:
                    numbers = rule.push(pts)
                except AbsurdTime as error:
                    raise SetAside(
                        Reason.UNDECODABLE_VIDEO, f"{self.path}: its clock leaps by {error}; convert the file"
                    ) from error
                if waiting and numbers.stop > 0 and len(numbers):
                    any_image = True
                    yield from self._filled(video, scaler, waiting, numbers, start, stop)
                    if stop is not None and numbers.stop >= stop:
                        return
                waiting = pts, frame
            if waiting:
                numbers = rule.push(waiting[0] + duration_of(video, waiting[1]))
                if numbers.stop > 0 and len(numbers):
                    any_image = True
                    yield from self._filled(video, scaler, waiting, numbers, start, stop)
            if waiting and not self.info.damage:
                end_s = float((waiting[0] + duration_of(video, waiting[1])) * video.time_base)
                if video.cut_off or abs(end_s - self.duration_s) > DURATION_TOLERANCE_S:
                    self.duration_s = end_s
            self.damage = video.damage
            if not any_image:
                raise _no_frames(self.path)

    def _scaler(self) -> Scaler:
        stored = ColorSpec(self.info.matrix, self.info.full_range)
        return Scaler(*self.size, self.path, stored, self.info.display_matrix, self.info.crop)

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
        parts = plan.parts(low, high, _MIN_FRAMES) if self._threads > 1 else []
        if len(parts) > 1 and max(map(len, parts)) <= _MAX_FRAMES:
            yield from self._from_parts(plan, parts)
            return
        with open_video(self.path) as video:
            yield from self._part(video, plan, range(low, high))

    def _from_parts(self, plan: PacketPlan, parts: Sequence[range]) -> Iterator[SampledFrame]:
        """Yield the frames of all parts in order; threads decode a limited number ahead, plus one."""
        videos: SimpleQueue[OpenVideo] = SimpleQueue()

        def decoded(part: range) -> list[SampledFrame]:
            video = videos.get()
            try:
                return list(self._part(video, plan, part))
            finally:
                videos.put(video)

        with ExitStack() as stack:
            for _ in range(self._threads):
                videos.put(stack.enter_context(open_video(self.path)))
            pool = stack.enter_context(ThreadPoolExecutor(self._threads, "decode"))
            stack.callback(pool.shutdown, cancel_futures=True)
            ahead: deque[Future[list[SampledFrame]]] = deque()
            rest = iter(parts)
            ahead.extend(pool.submit(decoded, part) for part in islice(rest, self._threads + 1))
            while ahead:
                frames = ahead.popleft().result()
                ahead.extend(pool.submit(decoded, part) for part in islice(rest, 1))
                yield from frames

    def _part(self, video: OpenVideo, plan: PacketPlan, part: range) -> Iterator[SampledFrame]:
        k, high = part.start, part.stop
        scaler = self._scaler()
        for pts, frame in planned_images(video, plan, plan.packets(k, high)):
            scaler.check_turn(frame)
            if pts != plan.pts[plan.chosen[k]]:
                continue
            planes = scaler.planes(frame)
            while k < high and pts == plan.pts[plan.chosen[k]]:
                yield SampledFrame(plan.first + k, float(plan.times_s[k]), planes)
                k += 1
            if k == high:
                return
        raise SetAside(
            Reason.UNDECODABLE_VIDEO,
            f"{self.path}: the image at {plan.times_s[k]:.3f} s cannot be decoded; convert or replace it",
        )


def _no_frames(path: Path) -> SetAside:
    return SetAside(
        Reason.NO_FRAMES, f"{path}: too short for one frame at this rate; use a longer video or a higher fps"
    )
