"""Decode the images of an open video (all, or only those that a plan needs) with their times.

Missing, wrong or restarting time stamps are corrected as the ffmpeg command corrects them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import av
import numpy as np
from av.codec.context import Flags
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from storage_schemas.errors import Reason, SetAside
from tasks.media.av1_syntax import with_frames
from tasks.media.clock import BestEffort, Continuity, frame_s, length_of
from tasks.media.packet_plan import ALL_FRAMES, PacketPlan
from tasks.media.source_file import CONCEAL_REMEDY, TRUNCATE_REMEDY, OpenVideo, open_video

if TYPE_CHECKING:
    _Packets = Iterator[Packet[VideoStream] | None]


def all_images(video: OpenVideo) -> Iterator[tuple[int, VideoFrame]]:
    """Yield all images with the ffmpeg command's time stamps, in decoder output order.

    Raises
    ------
    SetAside
        ``TRUNCATED_VIDEO`` where damage lies at the very end, ``UNDECODABLE_VIDEO`` where it does not, unless
        the video was opened with a rule that accepts it; `video.damage` then records it.
    """
    clock = Continuity(video.time_base, frame_s(video)) if video.may_jump else None

    def packets() -> _Packets:
        partial: Packet[VideoStream] | None = None
        for packet in video.packets():
            if partial is not None and video.damaged == "truncate":  # not the last image
                yield partial
            # a container also marks complete packets next to a gap: only the decoder can judge them
            partial, packet.is_corrupt = packet if packet.is_corrupt else None, False
            if clock:
                clock.correct(packet)
            if partial is None or video.damaged != "truncate":
                yield packet
        if partial is not None:
            _end_at(video, "the last packet", partial.pts)
        yield None

    stamps = BestEffort()
    following = -video.offset
    for image in _decoded(video, packets()):
        pts = stamps.of(image)
        if pts is None:  # a raw stream has no clock of its own: images are consecutive
            pts = following
        following = pts + duration_of(video, image)
        yield pts + video.offset, image


def planned_images(video: OpenVideo, plan: PacketPlan, part: range) -> Iterator[tuple[int, VideoFrame]]:
    """Yield the images of needed packets with the container's time stamps, in output order.

    Parameters
    ----------
    part
        The packets to read; see :meth:`PacketPlan.packets`.

    Raises
    ------
    SetAside
        ``UNDECODABLE_VIDEO``, or ``VIDEO_CHANGED`` if the file differs from the one that the plan was made
        for.
    """

    def packets() -> _Packets:
        for index, packet in _numbered(video, plan, part.start):
            if index >= len(plan.pts) or packet.pts != plan.pts[index]:
                raise SetAside(
                    Reason.VIDEO_CHANGED, f"{video.path}: the file changed while it was read; start again"
                )
            if frames := int(plan.needed[index]):
                yield packet if frames == ALL_FRAMES else _with_frames(packet, frames)
            if index >= part.stop - 1:
                break
        yield None

    for image in _decoded(video, packets(), planned=True):
        if image.pts is not None:
            yield image.pts, image


def _with_frames(packet: Packet[VideoStream], frames: int) -> Packet[VideoStream]:
    """Return a packet with some of its coded frames; only AV1 packets can be split."""
    part = cast("Packet[VideoStream]", Packet(with_frames(memoryview(packet), frames)))
    part.time_base, part.duration = packet.time_base, packet.duration
    part.pts, part.dts, part.is_keyframe = packet.pts, packet.dts, packet.is_keyframe
    return part


def duration_of(video: OpenVideo, image: VideoFrame) -> int:
    """Return the duration of an image without a successor, in units of its time stamp."""
    return length_of(video, image.duration)


def _numbered(video: OpenVideo, plan: PacketPlan, first: int) -> Iterator[tuple[int, Packet[VideoStream]]]:
    """Yield packets with their index in the file, starting at ``first`` or before it."""
    if first == 0:
        yield from enumerate(video.packets())
        return
    video.container.seek(plan.seek_before(first), stream=video.stream)
    index = -1
    for packet in video.packets():
        index = int(np.argmax(plan.pts == packet.pts)) if index < 0 else index + 1
        if index > first:  # the seek went too far: read from the start
            break
        yield index, packet
        if index == first:
            yield from enumerate(video.packets(), first + 1)
            return
    with open_video(video.path) as again:
        yield from enumerate(again.packets())


def _decoded(video: OpenVideo, packets: _Packets, planned: bool = False) -> Iterator[VideoFrame]:
    """Decode; damage before the first image is a late key frame, after it the video's rule applies.

    An H.265 picture that lacks a reference picture is silently left out, as the command does, unless it is
    requested; then it is marked as damaged. A plan omits pictures that stay in memory unnecessarily.

    ``planned``: the file is known not to be cut off, and to lack no picture that another refers to.
    """
    codec = video.stream.codec_context
    is_hevc = codec.codec.canonical_name == "hevc"
    seen = False
    if planned and is_hevc:
        codec.flags |= Flags.output_corrupt
    for packet in packets:
        try:
            images = video.decode(packet)
        except av.FFmpegError:
            if not seen:
                continue
            _pass(video, packet.pts if packet else None, packets, planned)
            # the pictures that the decoder still holds, if this is the end
            images = video.decode(None) if packet and video.cut_at is not None else []
        for image in images:
            if image.is_corrupt and not (planned and is_hevc):
                if seen:
                    _pass(video, image.pts, packets, planned)
                    if video.damaged == "truncate":
                        return
                if is_hevc:
                    continue
            if video.cut_at is not None and image.pts is not None and image.pts >= video.cut_at:
                continue
            if is_hevc and not seen:
                codec.flags |= Flags.output_corrupt
            seen = True
            yield image


def _pass(video: OpenVideo, pts: int | None, rest: _Packets, planned: bool) -> None:
    """Accept damage if the video's rule allows it; damage at the very end means a truncated file.

    Raises
    ------
    SetAside
        If the rule does not allow it.
    """
    if video.damaged == "conceal":
        video.damage = "concealed"
        return
    where = "" if pts is None else f" at {float((pts + video.offset) * video.time_base):.3f} s"
    if video.cut_at is None and (planned or next(rest, None) is not None):
        raise SetAside(
            Reason.UNDECODABLE_VIDEO, f"{video.path}: the picture{where} is damaged; {CONCEAL_REMEDY}"
        )
    _end_at(video, f"the last picture{where}", pts)


def _end_at(video: OpenVideo, what: str, pts: int | None) -> None:
    """Let the video end at an incomplete picture, if its rule allows that."""
    if video.damaged == "refuse":
        raise SetAside(Reason.TRUNCATED_VIDEO, f"{video.path}: {what} is not whole; {TRUNCATE_REMEDY}")
    video.damage = "truncated" if video.damaged == "truncate" else "concealed"
    video.cut_off = True
    if video.damaged == "truncate" and pts is not None:
        video.cut_at = pts if video.cut_at is None else min(pts, video.cut_at)
