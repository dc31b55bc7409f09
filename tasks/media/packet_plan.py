"""Determine which packets must be decoded for the frames at ``fps``, with a proof from the packets.

The proof shows packet by packet that the other pictures of an H.264 stream can be skipped.
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

from tasks.media.frame_rule import AbsurdTime, Chooser
from tasks.media.h264_syntax import (
    Avcc,
    InvalidBitstream,
    Picture,
    Sps,
    parse_avcc,
    parse_pps,
    parse_slice,
    parse_sps,
    unescape,
)
from tasks.media.probe import FirstFrame, VideoInfo, describe
from tasks.media.source_file import OpenVideo, open_video

_SLICE_BYTES = 40  # more than a slice header needs up to pic_order_cnt_lsb
_SEI_RECOVERY_POINT = 6


class NotProvable(Exception):
    """A condition of the proof does not hold; the message says which."""


@dataclass
class _Period:
    """Pictures from one IDR picture to the next.

    Attributes
    ----------
    start
        Index of the IDR picture's packet.
    entries
        Offsets from there of key frames that are not IDR pictures (recovery points).
    frame_num, poc_msb, poc_lsb
        ``PrevRefFrameNum``, ``prevPicOrderCntMsb`` and ``prevPicOrderCntLsb`` of the standard.
    """

    start: int = 0
    entries: list[int] = field(default_factory=list)
    frame_num: int = 0
    poc_msb: int = 0
    poc_lsb: int = 0


class Proof:
    """Checks the packets in decode order and raises at the first that violates a condition.

    Attributes
    ----------
    chooser
        Frames at ``fps`` so far, by index of their packet.
    pts
        Time stamps of all packets in decode order.
    reference, idr
        For each packet, 1 if other pictures may refer to its picture; 1 if it is an IDR picture.
    seek_to
        Seek target of each IDR picture: decode time in MP4, ``pts`` in Matroska.

    Raises
    ------
    Refused, Unreadable
        On construction, if the proof does not apply to this kind of stream.
    """

    def __init__(self, video: OpenVideo, fps: Fraction) -> None:
        stream = video.stream
        if stream.codec_context.name != "h264":
            raise NotProvable(f"the codec is {stream.codec_context.name}, not h264")
        names = set(video.container.format.name.split(","))
        if not names & {"mp4", "matroska"}:
            raise NotProvable(f"packets of the container {video.container.format.name} are cut by guessing")
        self._video = video
        self._avcc: Avcc = parse_avcc(stream.codec_context.extradata or b"")
        if len(self._avcc.sps) != 1:
            raise NotProvable(f"{len(self._avcc.sps)} sequence parameter sets")
        self._sps: Sps = parse_sps(self._avcc.sps[0])
        if not self._sps.frames_only:
            raise NotProvable("pictures may be fields (interlaced)")
        if self._sps.gaps_allowed:
            raise NotProvable("gaps in frame_num are allowed")
        if self._sps.poc_type == 1:
            raise NotProvable("picture order count type 1")
        self._reorder = stream.codec_context.reorder_depth
        if self._sps.num_reorder_frames is not None:
            self._reorder = max(self._reorder, self._sps.num_reorder_frames)
        self._bottom_delta = dict(parse_pps(pps) for pps in self._avcc.pps)
        self.chooser = Chooser(fps * video.time_base)
        self.pts, self.seek_to = array("q"), array("q")
        self.reference, self.idr, self._key = bytearray(), bytearray(), bytearray()
        self._poc = array("q")  # of the pictures since the last IDR picture
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
            raise NotProvable("a packet without time stamp or position")
        if packet.is_discard:
            raise NotProvable("an edit list hides decoded pictures")
        if packet.is_corrupt:
            raise NotProvable("a packet is marked as damaged")
        if packet.has_sidedata("new_extradata") or packet.has_sidedata("param_change"):
            raise NotProvable("parameters change in mid-stream")
        if position <= self._position:
            raise NotProvable("packets are not stored in decode order (edit list)")
        self._position = position
        if packet.dts is not None:
            if packet.dts <= self._last_dts:
                raise NotProvable("decode time stamps do not increase")
            self._last_dts = packet.dts
        elif self._indexed:
            raise NotProvable("a packet without decode time stamp")
        if pts > self._last_end_pts:
            if not packet.duration or packet.duration < 0:
                raise NotProvable("a packet without duration")
            self._last_end_pts, self._last_end = pts, pts + packet.duration
        self._picture(memoryview(packet), packet.is_keyframe)
        if self.idr[-1]:
            self.seek_to.append(packet.dts if self._indexed and packet.dts is not None else pts)
        self.pts.append(pts)
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
                raise NotProvable("a packet is not a sequence of NAL units")
            kind = data[start] & 31
            if kind in (1, 5):
                reference = bool(data[start] & 0x60)
                if picture is None:
                    first_mb, picture = parse_slice(
                        bytes(data[start : start + min(size, _SLICE_BYTES)]), self._sps, self._bottom_delta
                    )
                    if first_mb:
                        raise NotProvable("a picture does not begin with its first macroblock")
                elif data[start + 1] & 0x80:
                    raise NotProvable("several pictures in one packet")
                elif picture.reference != reference or picture.idr != (kind == 5):
                    raise NotProvable("slices of one picture differ in kind")
            elif kind == 6:
                recovery = recovery or has_recovery_point(bytes(data[start + 1 : position]))
            elif kind == 7 and bytes(data[start:position]) not in self._avcc.sps:
                raise NotProvable("the sequence parameter set changes in mid-stream")
            elif kind == 8 and bytes(data[start:position]) not in self._avcc.pps:
                raise NotProvable("the picture parameter set changes in mid-stream")
            elif kind not in (7, 8, 9, 10, 11, 12):
                raise NotProvable(f"NAL unit type {kind}")
        if picture is None:
            raise NotProvable("a packet without picture")
        if is_key != (picture.idr or recovery):
            raise NotProvable("the index names other key frames than the pictures do")
        if not self.idr and not picture.idr:
            raise NotProvable("the first picture is no IDR picture")
        if picture.idr:
            if not picture.reference:
                raise NotProvable("an IDR picture that is not a reference")
            self._check_period()
            self._period = _Period(start=len(self.idr))
        elif is_key:
            self._period.entries.append(len(self.idr) - self._period.start)
        self._poc.append(self._order_count(picture))
        self.reference.append(picture.reference)
        self.idr.append(picture.idr)

    def _order_count(self, picture: Picture) -> int:
        """Check ``frame_num`` and compute the picture order count (H.264, 7.4.3 and 8.2.1)."""
        period = self._period
        expected = 0 if picture.idr else (period.frame_num + 1) % (1 << self._sps.log2_max_frame_num)
        if picture.frame_num != expected:
            raise NotProvable("frame_num jumps: a reference picture is missing or memory was reset")
        if picture.reference:
            period.frame_num = picture.frame_num
        if self._sps.poc_type == 2:
            return len(self.idr) - period.start
        limit, lsb, msb = 1 << self._sps.log2_max_poc_lsb, picture.poc_lsb, period.poc_msb
        if lsb < period.poc_lsb and period.poc_lsb - lsb >= limit // 2:
            msb += limit
        elif lsb > period.poc_lsb and lsb - period.poc_lsb > limit // 2:
            msb -= limit
        if picture.reference:
            period.poc_msb, period.poc_lsb = msb, lsb
        return msb + lsb + picture.poc_delta

    def _check_period(self) -> None:
        """Check that order counts and time stamps agree and that the decoder reorders enough pictures."""
        start = self._period.start
        pts, poc = np.array(self.pts[start:], dtype=np.int64), np.array(self._poc, dtype=np.int64)
        self._poc = array("q")
        if not len(pts):
            return
        shown = np.argsort(poc, kind="stable")
        if (np.diff(poc[shown]) <= 0).any() or (np.diff(pts[shown]) <= 0).any():
            raise NotProvable("time stamps do not follow the order in which pictures are shown")
        if shown[0] != 0 or pts[0] <= self._shown_until:
            raise NotProvable("a picture is shown before the IDR picture that it follows")
        self._shown_until = int(pts[shown[-1]])
        # Such a key frame is harmless as a plain reference picture, but decoders differ in how they treat
        # leading pictures, which are shown before it and sent after it.
        entries = self._period.entries
        if (np.minimum.accumulate(pts[::-1])[::-1][entries] < pts[entries]).any():
            raise NotProvable("a picture is shown before the key frame that it follows (open GOP)")
        place = np.empty(len(shown), dtype=np.int64)
        place[shown] = np.arange(len(shown))
        if not sorted_by_buffer(place, self._reorder):
            raise NotProvable("pictures are reordered further than the stream says")
        self.chooser.add(pts[shown] + self._video.offset, shown + start)

    def finish(self) -> None:
        """Check the conditions on the whole file, after the last packet."""
        self._check_period()
        if not self.pts:
            raise NotProvable("no packets")
        if self._indexed:
            # The index may list recovery points, must list IDR pictures and no other pictures.
            index = bytearray(entry.is_keyframe for entry in self._video.stream.index_entries)
            listed = zip(self.idr, index, self._key, strict=False)
            if len(index) != len(self._key) or not all(i <= x <= k for i, x, k in listed):
                raise NotProvable("the index does not agree with the packets")
        self.chooser.finish(self._last_end + self._video.offset)


def sorted_by_buffer(place: NDArray[np.int64], size: int) -> bool:
    """Return whether a reorder buffer of ``size`` pictures sorts them, as the decoder's output does."""
    held: list[int] = []
    following = 0
    for p in place.tolist():
        heappush(held, p)
        if len(held) > size:
            if heappop(held) != following:
                return False
            following += 1
    return True


def has_recovery_point(sei: bytes) -> bool:
    """Return whether an SEI unit's payload (without header byte) holds a recovery point message."""
    data = unescape(sei)
    position = 0
    while position + 2 <= len(data) and data[position] != 0x80:
        numbers = []
        for _ in range(2):
            number = 0
            while position < len(data) and data[position] == 255:
                number, position = number + 255, position + 1
            if position >= len(data):
                raise InvalidBitstream("an SEI message ends early")
            numbers.append(number + data[position])
            position += 1
        if numbers[0] == _SEI_RECOVERY_POINT:
            return True
        position += numbers[1]
    return False


@dataclass(frozen=True, slots=True)
class Unsafe:
    """Why the file must be decoded in full."""

    reason: str


@dataclass(frozen=True, slots=True)
class PacketPlan:
    """The frames at ``fps`` and the packets that hold them.

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
    reference, idr
        Whether other pictures may refer to the packet's picture; whether it is an IDR picture, (p,), bool.
    seek_to
        Seek target of each IDR picture, in the unit of ``pts``, int64.
    """

    first: int
    chosen: NDArray[np.int64]
    times_s: NDArray[np.float64]
    pts: NDArray[np.int64]
    reference: NDArray[np.bool_]
    idr: NDArray[np.bool_]
    seek_to: NDArray[np.int64]

    def needed(self, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which packets must be decoded for the pictures ``chosen``; shape (p,), bool.

        These are the pictures themselves and all reference pictures from the preceding IDR picture on.
        """
        needed = np.zeros(len(self.pts), dtype=bool)
        starts = np.flatnonzero(self.idr)
        period = np.searchsorted(starts, chosen, side="right") - 1
        last = np.full(len(starts), -1, dtype=np.int64)
        np.maximum.at(last, period, chosen)
        for start, end in zip(starts, last + 1, strict=True):
            needed[start:end] = self.reference[start:end]
        needed[chosen] = True
        return needed

    def seek_before(self, packet: int) -> int:
        """Return the seek target for the IDR picture that a packet depends on."""
        return int(self.seek_to[int(self.idr[: packet + 1].sum()) - 1])


def probe_and_plan(path: Path, fps: Fraction) -> tuple[VideoInfo, PacketPlan | Unsafe]:
    """Probe a file as :func:`tasks.media.probe.probe` does and plan it, in one pass over its packets.

    Raises
    ------
    SetAside
        The file cannot be used; see :func:`tasks.media.probe.probe`.
    """
    with open_video(path) as video:
        first = FirstFrame(video)
        proof: Proof | None = None
        refusal = ""
        try:
            proof = Proof(video, fps)
        except (NotProvable, InvalidBitstream, AbsurdTime) as error:
            refusal = str(error)
        for packet in video.packets():
            first.offer(packet)
            if proof:
                try:
                    proof.add(packet)
                except (NotProvable, InvalidBitstream, AbsurdTime) as error:
                    proof, refusal = None, str(error)
            if first.complete and not proof:
                break
        info = describe(video, first.frame())
        if proof:
            try:
                proof.finish()
                return info, _plan(video, proof)
            except (NotProvable, InvalidBitstream, AbsurdTime) as error:
                refusal = str(error)
        return info, Unsafe(refusal)


def _plan(video: OpenVideo, proof: Proof) -> PacketPlan:
    chooser = proof.chooser
    return PacketPlan(
        first=chooser.first,
        chosen=np.frombuffer(chooser.ids, dtype=np.int64),
        times_s=np.fromiter((float(p * video.time_base) for p in chooser.pts), np.float64, len(chooser.pts)),
        pts=np.frombuffer(proof.pts, dtype=np.int64),
        reference=np.frombuffer(proof.reference, dtype=np.bool_),
        idr=np.frombuffer(proof.idr, dtype=np.bool_),
        seek_to=np.frombuffer(proof.seek_to, dtype=np.int64),
    )
