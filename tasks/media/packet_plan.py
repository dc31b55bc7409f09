"""Which packets of a file must be decoded for the frames at ``fps``, proved from the packets themselves.

A picture that no other picture refers to (``nal_ref_idc`` 0) can be left out without a trace, and so can
everything between the last wanted picture and the next IDR picture. Both hold for H.264 under conditions that
:func:`plan_packets` checks for each file, packet by packet. Where one fails the answer is :class:`Unsafe`,
and every frame has to be decoded.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
from av.packet import Packet
from av.video.stream import VideoStream
from numpy.typing import NDArray

from tasks.media.nal import (
    Avcc,
    Picture,
    Sps,
    Unreadable,
    parse_avcc,
    parse_pps,
    parse_slice,
    parse_sps,
    unescape,
)
from tasks.media.source_file import OpenVideo, open_video
from tasks.media.timeline import choose

_SLICE_BYTES = 40  # more than a slice header needs up to pic_order_cnt_lsb
_SEI_RECOVERY_POINT = 6


@dataclass(frozen=True, slots=True)
class Unsafe:
    """Why the file has to be decoded in full."""

    reason: str


@dataclass(frozen=True, slots=True)
class PacketPlan:
    """The frames at ``fps`` and the packets behind them.

    Attributes
    ----------
    first
        Number k of the first frame.
    chosen
        Index of the packet that holds frame ``first + i``, shape (n,), int64.
    times_s
        Time of the image chosen for each frame, seconds, shape (n,), float64.
    pts
        Time stamps of all packets in decode order as the container has them, shape (p,), int64.
    seek_to
        Where to seek to for each packet: by decode time in MP4, by ``pts`` in Matroska, (p,), int64.
    reference, idr
        Whether other pictures may refer to the packet's picture; whether it is an IDR picture, (p,), bool.
    """

    first: int
    chosen: NDArray[np.int64]
    times_s: NDArray[np.float64]
    pts: NDArray[np.int64]
    seek_to: NDArray[np.int64]
    reference: NDArray[np.bool_]
    idr: NDArray[np.bool_]

    def needed(self, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which packets must be decoded to see the pictures ``chosen``; shape (p,), bool.

        The pictures themselves, and before each of them the reference pictures back to the IDR picture.
        """
        wanted = np.zeros(len(self.pts), dtype=bool)
        wanted[chosen] = True
        index = np.arange(len(self.pts))
        starts = np.flatnonzero(self.idr)
        last_wanted = np.maximum.reduceat(np.where(wanted, index, -1), starts)
        period = np.cumsum(self.idr) - 1
        result: NDArray[np.bool_] = wanted | (self.reference & (index <= last_wanted[period]))
        return result


class _Refused(Exception):
    """A condition of the proof fails; the text says which."""


def plan_packets(path: Path, fps: Fraction) -> PacketPlan | Unsafe:
    """Read all packets of a file and plan the decoding of its frames at ``fps``.

    Raises
    ------
    SetAside
        The file cannot be opened or read.
    """
    with open_video(path) as video:
        return plan_open_video(video, fps)


def plan_open_video(video: OpenVideo, fps: Fraction) -> PacketPlan | Unsafe:
    """Like :func:`plan_packets`, for a file that is open and of which no packet was read yet."""
    try:
        proof = _Proof(video)
        for packet in video.packets():
            proof.add(packet)
        return proof.plan(fps)
    except (_Refused, Unreadable) as refusal:
        return Unsafe(str(refusal))


@dataclass
class _Period:
    """Pictures from one IDR picture to the next.

    Attributes
    ----------
    start
        Index of the IDR picture's packet.
    entries
        Offsets from there of key frames that are no IDR pictures (recovery points).
    frame_num, poc_msb, poc_lsb
        ``PrevRefFrameNum``, ``prevPicOrderCntMsb`` and ``prevPicOrderCntLsb`` of the standard.
    """

    start: int = 0
    entries: list[int] = field(default_factory=list)
    frame_num: int = 0
    poc_msb: int = 0
    poc_lsb: int = 0


class _Proof:
    """Collects the packets and refuses at the first one that breaks a condition."""

    def __init__(self, video: OpenVideo) -> None:
        stream = video.stream
        if stream.codec_context.name != "h264":
            raise _Refused(f"the codec is {stream.codec_context.name}, not h264")
        names = set(video.container.format.name.split(","))
        if not names & {"mp4", "matroska"}:
            raise _Refused(f"packets of the container {video.container.format.name} are cut by guessing")
        self._video = video
        self._avcc: Avcc = parse_avcc(stream.codec_context.extradata or b"")
        if len(self._avcc.sps) != 1:
            raise _Refused(f"{len(self._avcc.sps)} sequence parameter sets")
        self._sps: Sps = parse_sps(self._avcc.sps[0])
        if not self._sps.frames_only:
            raise _Refused("pictures may be fields (interlaced)")
        if self._sps.gaps_allowed:
            raise _Refused("gaps in frame_num are allowed")
        if self._sps.poc_type == 1:
            raise _Refused("picture order count type 1")
        self._reorder = stream.codec_context.reorder_depth
        if self._sps.num_reorder_frames is not None:
            self._reorder = max(self._reorder, self._sps.num_reorder_frames)
        self._bottom_delta = dict(parse_pps(pps) for pps in self._avcc.pps)
        self._pts, self._seek_to, self._poc = array("q"), array("q"), array("q")
        self._reference, self._idr, self._key = bytearray(), bytearray(), bytearray()
        self._period = _Period()
        self._shown_until = -(2**62)
        self._last_end = -(2**62)
        self._last_end_pts = -(2**62)
        self._position = -1
        self._last_dts = -(2**62)
        self._indexed = "mp4" in names  # its index lists every packet, by decode time

    def add(self, packet: Packet[VideoStream]) -> None:
        """Check one packet, in decode order."""
        pts, position = packet.pts, packet.pos
        if pts is None or position is None:
            raise _Refused("a packet without time stamp or position")
        if packet.is_discard:
            raise _Refused("an edit list hides decoded pictures")
        if packet.is_corrupt:
            raise _Refused("a packet is marked as damaged")
        if packet.has_sidedata("new_extradata") or packet.has_sidedata("param_change"):
            raise _Refused("parameters change in mid-stream")
        if position <= self._position:
            raise _Refused("packets do not lie in the file in decode order (edit list)")
        self._position = position
        if packet.dts is not None:
            if packet.dts <= self._last_dts:
                raise _Refused("decode time stamps do not increase")
            self._last_dts = packet.dts
        elif self._indexed:
            raise _Refused("a packet without decode time stamp")
        if pts > self._last_end_pts:
            if not packet.duration or packet.duration < 0:
                raise _Refused("a packet without duration")
            self._last_end_pts, self._last_end = pts, pts + packet.duration
        self._picture(memoryview(packet), packet.is_keyframe)
        self._pts.append(pts)
        self._seek_to.append(packet.dts if self._indexed and packet.dts is not None else pts)
        self._key.append(packet.is_keyframe)

    def _picture(self, data: memoryview, is_key: bool) -> None:
        size_bytes = self._avcc.length_size
        position, end = 0, len(data)
        picture = None
        recovery = False
        while position < end:
            start = position + size_bytes
            size = int.from_bytes(data[position:start], "big")
            position = start + size
            if size < 2 or position > end:
                raise _Refused("a packet is not a sequence of NAL units")
            kind = data[start] & 31
            if kind in (1, 5):
                reference = bool(data[start] & 0x60)
                if picture is None:
                    first_mb, picture = parse_slice(
                        bytes(data[start : start + min(size, _SLICE_BYTES)]), self._sps, self._bottom_delta
                    )
                    if first_mb:
                        raise _Refused("a picture does not begin with its first macroblock")
                elif data[start + 1] & 0x80:
                    raise _Refused("several pictures in one packet")
                elif picture.reference != reference or picture.idr != (kind == 5):
                    raise _Refused("slices of one picture differ in kind")
            elif kind == 6:
                recovery = recovery or _has_recovery_point(bytes(data[start + 1 : position]))
            elif kind == 7 and bytes(data[start:position]) not in self._avcc.sps:
                raise _Refused("the sequence parameter set changes in mid-stream")
            elif kind == 8 and bytes(data[start:position]) not in self._avcc.pps:
                raise _Refused("the picture parameter set changes in mid-stream")
            elif kind not in (7, 8, 9, 10, 11, 12):
                raise _Refused(f"NAL unit type {kind}")
        if picture is None:
            raise _Refused("a packet without picture")
        if is_key != (picture.idr or recovery):
            raise _Refused("the index names other key frames than the pictures do")
        if not self._idr and not picture.idr:
            raise _Refused("the first picture is no IDR picture")
        if picture.idr:
            if not picture.reference:
                raise _Refused("an IDR picture that is no reference")
            self._check_period()
            self._period = _Period(start=len(self._idr))
        elif is_key:
            self._period.entries.append(len(self._idr) - self._period.start)
        self._poc.append(self._order_count(picture))
        self._reference.append(picture.reference)
        self._idr.append(picture.idr)

    def _order_count(self, picture: Picture) -> int:
        """Check ``frame_num`` and work out the picture order count (H.264, 7.4.3 and 8.2.1)."""
        period = self._period
        expected = 0 if picture.idr else (period.frame_num + 1) % (1 << self._sps.log2_max_frame_num)
        if picture.frame_num != expected:
            raise _Refused("frame_num jumps: a reference picture is missing or memory was reset")
        if picture.reference:
            period.frame_num = picture.frame_num
        if self._sps.poc_type == 2:
            return len(self._idr) - period.start
        limit, lsb, msb = 1 << self._sps.log2_max_poc_lsb, picture.poc_lsb, period.poc_msb
        if lsb < period.poc_lsb and period.poc_lsb - lsb >= limit // 2:
            msb += limit
        elif lsb > period.poc_lsb and lsb - period.poc_lsb > limit // 2:
            msb -= limit
        if picture.reference:
            period.poc_msb, period.poc_lsb = msb, lsb
        return msb + lsb + picture.poc_delta

    def _check_period(self) -> None:
        """Order counts and time stamps must agree, and the decoder must hold back enough pictures."""
        start = self._period.start
        pts, poc = np.array(self._pts[start:]), np.array(self._poc[start:])
        if not len(pts):
            return
        shown = np.argsort(poc, kind="stable")
        if (np.diff(poc[shown]) <= 0).any() or (np.diff(pts[shown]) <= 0).any():
            raise _Refused("time stamps do not follow the order in which pictures are shown")
        if shown[0] != 0 or pts[0] <= self._shown_until:
            raise _Refused("a picture is shown before the IDR picture that it follows")
        self._shown_until = int(pts[shown[-1]])
        # As a plain reference picture such a key frame does no harm; leading pictures, shown before it but
        # sent after it, are what decoders treat in different ways.
        entries = self._period.entries
        if (np.minimum.accumulate(pts[::-1])[::-1][entries] < pts[entries]).any():
            raise _Refused("a picture is shown before the key frame that it follows (open GOP)")
        place = np.empty(len(shown), dtype=np.int64)
        place[shown] = np.arange(len(shown))
        if not _sorted_by_buffer(place, self._reorder):
            raise _Refused("pictures are reordered further than the stream says")

    def plan(self, fps: Fraction) -> PacketPlan:
        """The plan, after the last packet."""
        self._check_period()
        video = self._video
        if not self._pts:
            raise _Refused("no packets")
        if self._indexed:
            index = bytes(entry.is_keyframe for entry in video.stream.index_entries)
            # Recovery points may stand in the index or not; IDR pictures must, other pictures must not.
            listed = zip(self._idr, index, self._key, strict=False)
            if len(index) != len(self._key) or not all(i <= x <= k for i, x, k in listed):
                raise _Refused("the index does not agree with the packets")
        pts = np.frombuffer(self._pts, dtype=np.int64)
        order = np.argsort(pts, kind="stable")
        shown = pts[order] + video.offset
        if (np.diff(shown) <= 0).any():
            raise _Refused("two pictures have the same time stamp")
        first, chosen = choose(shown, self._last_end + video.offset, fps * video.time_base)
        return PacketPlan(
            first=first,
            chosen=order[chosen],
            times_s=np.array([float(p * video.time_base) for p in shown[chosen].tolist()]),
            pts=pts,
            seek_to=np.frombuffer(self._seek_to, dtype=np.int64),
            reference=np.frombuffer(self._reference, dtype=np.uint8).astype(bool),
            idr=np.frombuffer(self._idr, dtype=np.uint8).astype(bool),
        )


def _sorted_by_buffer(place: NDArray[np.int64], size: int) -> bool:
    """Whether holding back ``size`` pictures brings them into order, as the decoder's output does."""
    held: list[int] = []
    following = 0
    for p in place.tolist():
        heappush(held, p)
        if len(held) > size:
            if heappop(held) != following:
                return False
            following += 1
    return True


def _has_recovery_point(sei: bytes) -> bool:
    """Whether an SEI unit's payload (header byte left out) holds a recovery point message."""
    data = unescape(sei)
    position = 0
    while position + 2 <= len(data) and data[position] != 0x80:
        numbers = []
        for _ in range(2):
            number = 0
            while position < len(data) and data[position] == 255:
                number, position = number + 255, position + 1
            if position >= len(data):
                raise Unreadable("an SEI message ends early")
            numbers.append(number + data[position])
            position += 1
        if numbers[0] == _SEI_RECOVERY_POINT:
            return True
        position += numbers[1]
    return False
