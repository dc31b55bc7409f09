"""Determine which packets must be decoded for the frames at ``fps``, with a proof from the packets.

The proof shows packet by packet that the others can be skipped. The codec modules (``h264_syntax`` and its
siblings) interpret a packet's headers; the rest is the same for all codecs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path

import numpy as np
from av.packet import Packet
from av.video.stream import VideoStream
from numpy.typing import NDArray

from storage_schemas.source import DamageRule
from tasks.media.av1_syntax import Av1Reader
from tasks.media.bitstream import InvalidBitstream, NotProvable, PictureReader
from tasks.media.clock import PicturesEnd, length_of
from tasks.media.frame_rule import AbsurdTime, Chooser
from tasks.media.h264_syntax import H264Reader
from tasks.media.hevc_syntax import HevcReader
from tasks.media.probe import FirstFrame, VideoInfo, describe, may_claim
from tasks.media.source_file import OpenVideo, open_video
from tasks.media.vp9_syntax import Vp9Reader

#: What reads the packets of each codec, given the stream's extradata and its decoder's depth of reordering.
_READERS: dict[str, Callable[[bytes, int], PictureReader]] = {
    "h264": H264Reader,
    "vp9": Vp9Reader,
    "av1": Av1Reader,
    "hevc": HevcReader,
}


#: All coded frames of a packet; each has a bit.
ALL_FRAMES = 255


class _Section:
    """The coded frames from an entry to the next one, and from which others each is decoded.

    Parameters
    ----------
    start
        Index of the entry's packet.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self._frames, self._ends, self._needs = array("i", [0]), array("i", [0]), array("i")

    def __len__(self) -> int:
        """Return the number of packets."""
        return len(self._frames) - 1

    def add(self, needs: Iterable[tuple[int, ...]]) -> None:
        """Add a packet: for each of its frames the numbers of those that it needs."""
        for of_frame in needs:
            self._needs.extend(of_frame)
            self._ends.append(len(self._needs))
        self._frames.append(len(self._ends) - 1)

    def needed(self, pictures: Iterable[int]) -> bytearray:
        """Return for each packet which of its frames must be decoded so that these packets' pictures are."""
        frames, ends, needs = self._frames, self._ends, self._needs
        marked = bytearray(frames[-1])
        for packet in pictures:
            marked[frames[packet - self.start + 1] - 1] = 1
        for frame in range(len(marked) - 1, -1, -1):
            if marked[frame]:
                for other in needs[ends[frame] : ends[frame + 1]]:
                    marked[other] = 1
        found = bytearray(len(self))
        for index, (begin, end) in enumerate(pairwise(frames)):
            part = marked[begin:end]
            found[index] = ALL_FRAMES if all(part) else sum(mark << bit for bit, mark in enumerate(part))
        return found


class Proof:
    """Checks the packets in decode order and raises at the first that violates a condition.

    Attributes
    ----------
    chooser
        Frames at ``fps`` so far, by index of their packet.
    pts
        Time stamps of all packets in decode order.
    entry
        For each packet, 1 if nothing from it on depends on an earlier one.
    needed
        For each packet, a bit for each of its coded frames without which a frame at ``fps`` is decoded
        otherwise, the lowest for the first; ``ALL_FRAMES`` for all.
    seek_to
        Seek target of each entry: decode time in MP4, ``pts`` in Matroska.

    Raises
    ------
    NotProvable, InvalidBitstream
        On construction, if the proof does not apply to this kind of stream.
    """

    def __init__(self, video: OpenVideo, fps: Fraction) -> None:
        stream = video.stream
        codec = stream.codec_context.codec.canonical_name
        if codec not in _READERS:
            raise NotProvable(f"the codec is {codec}, not one of {', '.join(_READERS)}")
        names = set(video.container.format.name.split(","))
        if not names & {"mp4", "matroska"}:
            raise NotProvable(f"packets of the container {video.container.format.name} are cut by guessing")
        self._video = video
        self._reader = _READERS[codec](
            stream.codec_context.extradata or b"", stream.codec_context.reorder_depth
        )
        self.chooser = Chooser(fps * video.time_base)
        self.pts, self.seek_to = array("q"), array("q")
        self.entry, self.needed, self._key = bytearray(), bytearray(), bytearray()
        self._section, self._ended = _Section(0), _Section(0)  # since the last entry, and before it
        self._settled = 0  # how many of the chosen frames `needed` covers
        self._order = array("q")  # for the pictures since then
        self._keys: list[int] = []  # key frames since then that are not entries, counted from there
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
            self._last_end_pts, self._last_end = pts, pts + length_of(self._video, packet.duration)
        self._picture(memoryview(packet), packet.is_keyframe)
        if self.entry[-1]:
            self.seek_to.append(packet.dts if self._indexed and packet.dts is not None else pts)
        self.pts.append(pts)
        self._key.append(packet.is_keyframe)

    def _picture(self, data: memoryview, is_key: bool) -> None:
        picture = self._reader.read(data)
        if is_key != picture.key:
            raise NotProvable("the index names other key frames than the pictures do")
        if not self.entry and not picture.entry:
            raise NotProvable("the first picture depends on others")
        if picture.entry:
            self._check_section()
            self._section, self._keys = _Section(len(self.entry)), []
        elif picture.key:
            self._keys.append(len(self._section))
        self._order.append(picture.order)
        self._section.add(picture.needs)
        self.entry.append(picture.entry)

    def _check_section(self) -> None:
        """Check that order counts and time stamps agree and that the decoder reorders enough pictures."""
        start = self._section.start
        pts, order = np.array(self.pts[start:], dtype=np.int64), np.array(self._order, dtype=np.int64)
        self._order = array("q")
        if not len(pts):
            return
        shown = np.argsort(order, kind="stable")
        if (np.diff(order[shown]) <= 0).any() or (np.diff(pts[shown]) <= 0).any():
            raise NotProvable("time stamps do not follow the order in which pictures are shown")
        if shown[0] != 0 or pts[0] <= self._shown_until:
            raise NotProvable("a picture is shown before the entry that it follows")
        self._shown_until = int(pts[shown[-1]])
        # Such a key frame is harmless as a plain reference picture, but decoders may differ in how they treat
        # leading pictures, which are shown before it and sent after it.
        keys = self._keys
        if not self._reader.leading and (np.minimum.accumulate(pts[::-1])[::-1][keys] < pts[keys]).any():
            raise NotProvable("a picture is shown before the key frame that it follows (open GOP)")
        index = np.empty(len(shown), dtype=np.int64)
        index[shown] = np.arange(len(shown))
        if not sorted_by_buffer(index, self._reader.reorder):
            raise NotProvable("pictures are reordered further than the stream says")
        self.chooser.add(pts[shown] + self._video.offset, shown + start)
        # Only now is it known how long the last picture of the previous section is shown.
        self._settle(self._ended, start)
        self._ended = self._section

    def _settle(self, section: _Section, end: int) -> None:
        """Find what the chosen pictures of a section, which ends before packet `end`, need."""
        chosen, first = self.chooser.ids, self._settled
        while self._settled < len(chosen) and chosen[self._settled] < end:
            self._settled += 1
        self.needed += section.needed(set(chosen[first : self._settled]))

    def finish(self) -> None:
        """Check the conditions on the whole file, after the last packet."""
        self._check_section()
        if not self.pts:
            raise NotProvable("no packets")
        if self._indexed:
            # The index may list key frames, must list entries and no other pictures.
            index = bytearray(entry.is_keyframe for entry in self._video.stream.index_entries)
            listed = zip(self.entry, index, self._key, strict=False)
            if len(index) != len(self._key) or not all(e <= x <= k for e, x, k in listed):
                raise NotProvable("the index does not agree with the packets")
        self.chooser.finish(self._last_end + self._video.offset)
        self._settle(self._ended, len(self.pts))


def sorted_by_buffer(index: NDArray[np.int64], size: int) -> bool:
    """Return whether a reorder buffer of ``size`` pictures sorts them, as the decoder's output does."""
    held: list[int] = []
    following = 0
    for p in index.tolist():
        heappush(held, p)
        if len(held) > size:
            if heappop(held) != following:
                return False
            following += 1
    return True


@dataclass(frozen=True, slots=True)
class Unsafe:
    """The reason why the file must be decoded in full."""

    reason: str


@dataclass(frozen=True, slots=True)
class PacketPlan:
    """The frames at ``fps`` and the packets that contain them.

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
    needed
        For each packet, a bit for each of its coded frames that must be decoded, the lowest for the first;
        ``ALL_FRAMES`` for all, 0 if the packet can be left out; (p,), uint8.
    entry
        Whether nothing from the packet on depends on an earlier one, as at an IDR picture; (p,), bool.
    seek_to
        Seek target of each entry, in the unit of ``pts``, int64.
    """

    first: int
    chosen: NDArray[np.int64]
    times_s: NDArray[np.float64]
    pts: NDArray[np.int64]
    needed: NDArray[np.uint8]
    entry: NDArray[np.bool_]
    seek_to: NDArray[np.int64]

    def packets(self, low: int, high: int) -> range:
        """Return the packets that contain all that the frames ``first + low`` to ``first + high`` need."""
        chosen = self.chosen[low:high]
        entries = np.flatnonzero(self.entry)
        start = entries[np.searchsorted(entries, chosen.min(), side="right") - 1]
        return range(int(start), int(chosen.max()) + 1)

    def parts(self, low: int, high: int, least: int) -> list[range]:
        """Split the frames ``first + low`` to ``first + high``; no packet is decoded for two parts.

        Parameters
        ----------
        least
            Frames of each part but the last, if there are that many before an entry.
        """
        period = np.searchsorted(np.flatnonzero(self.entry), self.chosen[low:high], side="right")
        starts = [low]
        for k in (np.flatnonzero(np.diff(period)) + low + 1).tolist():
            if k - starts[-1] >= least:
                starts.append(k)
        return [range(*ends) for ends in pairwise([*starts, high])]

    def seek_before(self, packet: int) -> int:
        """Return the seek target for the entry that a packet depends on."""
        return int(self.seek_to[int(self.entry[: packet + 1].sum()) - 1])


def probe_and_plan(
    path: Path, fps: Fraction, damaged: DamageRule = "refuse"
) -> tuple[VideoInfo, PacketPlan | Unsafe]:
    """Probe a file as :func:`tasks.media.probe.probe` does and plan it, in one pass over its packets.

    A damaged file has no plan: how its pictures are concealed may depend on any picture before them.

    Raises
    ------
    SetAside
        The file cannot be used; see :func:`tasks.media.probe.probe`.
    """
    with open_video(path, damaged) as video:
        first = FirstFrame(video)
        proof: Proof | None = None
        refusal = ""
        try:
            if damaged == "conceal":
                raise NotProvable("damaged pictures are concealed, for which everything is decoded")
            if video.cut_off:
                raise NotProvable("the file was cut off")
            proof = Proof(video, fps)
        except (NotProvable, InvalidBitstream, AbsurdTime) as error:
            refusal = str(error)
        end, to_the_end = PicturesEnd(video), may_claim(video)
        for packet in video.packets():
            end.add(packet)
            first.offer(packet)
            if proof:
                try:
                    proof.add(packet)
                except (NotProvable, InvalidBitstream, AbsurdTime) as error:
                    proof, refusal = None, str(error)
            if first.complete and not (proof or to_the_end):
                info = describe(video, first.frame())
                break
        else:
            info = describe(video, first.frame(), end)
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
        needed=np.frombuffer(proof.needed, dtype=np.uint8),
        entry=np.frombuffer(proof.entry, dtype=np.bool_),
        seek_to=np.frombuffer(proof.seek_to, dtype=np.int64),
    )
