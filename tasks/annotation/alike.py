"""Make the two videos of a pair alike in everything but their pictures.

What a browser receives before an answer must not reveal the sides: the size of the file,
that of each frame, where the key frames are, and tags. A side that recurred with the same sizes in another
pair of its source would be the high one. So each pair has two files of its own, in which

- frames at the same place have the same size: the coded data of a frame are followed, inside their unit, by
  drawn bytes. A decoder stops where the data say so, in their arithmetic code. Only a program that decodes
  this code, macroblock by macroblock, can tell where they end. The size is that of the largest of four
  frames, two of them the same pictures at a finer quantiser than any that is drawn: the larger of two frames
  alone would depend on the quantiser of the side with more to code;
- a frame is a key frame in the index only if both sides have one there;
- IDR pictures are numbered by their order, so that no repeated number reveals where clips were joined;
- the smaller file ends with unused bytes.

Two sides with different numbers of frames, as after a removal, differ in length anyway. They have equal file
sizes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

from storage_schemas.errors import IntegrityError
from storage_schemas.rng import keyed_rng
from tasks.media.bitstream import InvalidBitstream
from tasks.media.h264_slices import IdrNumbers, escaped

if TYPE_CHECKING:
    VideoPacket: TypeAlias = "av.Packet[Any]"

#: NAL unit types (H.264, table 7-1). An encoder names itself in supplemental information; that marks where
#: encoding began, which in a low side is the first degraded clip.
_SUPPLEMENTAL = 6
#: Bytes that follow the coded data of the larger of two frames.
_MIN_BYTES = 2
#: Frames whose slices together say how often each byte occurs: an arithmetic code is not quite uniform.
_GROUP = 40
#: Number of bytes within which the header of a slice always ends.
_HEADER = 12
#: The bits of each byte, and the one before each of them, behind a byte that ends with 0 or 1.
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(int)
_BEFORE = np.stack([np.column_stack([np.full(256, last), _BITS[:, :-1]]) for last in (0, 1)])
#: Bytes of the head of an MP4 box.
_BOX = 8


@dataclass(frozen=True)
class _Frames:
    """Bytes of each frame without the encoder's marks, and which are key frames.

    `counts` says how often each byte occurs in the data of slices, behind one that ends with 0 or 1, for each
    `_GROUP` frames, of IDR and other ones.
    """

    sizes: list[int]
    keys: list[bool]
    counts: NDArray[np.int64]


def write_alike(
    sides: tuple[Path, Path], targets: tuple[Path, Path], key: str, finest: Sequence[Path] = ()
) -> None:
    """Write both sides of a pair as MP4 files that differ only in their pictures.

    The index precedes the frames, so that a browser can play a file while it loads.

    Parameters
    ----------
    sides
        Videos of :mod:`tasks.media.encode`, with the same parameter sets.
    targets
        Where the files go; existing ones are overwritten.
    key
        Determines the drawn bytes; anyone who knows it can find them.
    finest
        The same videos with the finest quantiser of all, for the sizes of their frames.

    Raises
    ------
    IntegrityError
        If a side cannot be read.
    """
    first, second = (_frames(side) for side in sides)
    if len(first.sizes) == len(second.sizes):
        more = [_frames(path).sizes for path in finest]
        rows = zip(first.sizes, second.sizes, *more, strict=True)
        sizes = [max(row) + (_MIN_BYTES if len(set(row)) > 1 else 0) for row in rows]
        keys = [all(pair) for pair in zip(first.keys, second.keys, strict=True)]
        first = second = _Frames(sizes, keys, first.counts + second.counts)
    for side, target, wanted, name in zip(sides, targets, (first, second), ("high", "low"), strict=True):
        _write(side, target, wanted, (key, name))
    _end_alike(targets)


def _frames(side: Path) -> _Frames:
    sizes: list[int] = []
    keys: list[bool] = []
    counts: list[NDArray[np.int64]] = []
    with _opened(side) as origin:
        for packet, units in _packets(origin):
            if len(sizes) % _GROUP == 0:
                counts.append(np.zeros((2, 2, 256), np.int64))
            sizes.append(sum(map(len, units)))
            keys.append(packet.is_keyframe)
            data = np.frombuffer(units[-1][_HEADER:], np.uint8).astype(np.int64)
            pairs = np.bincount(256 * (data[:-1] & 1) + data[1:], minlength=512)
            counts[-1][int(packet.is_keyframe)] += pairs.reshape(2, 256)
    return _Frames(sizes, keys, np.array(counts))


def _write(side: Path, target: Path, wanted: _Frames, key: tuple[str, str]) -> None:
    # the box with the bit rate would have that of the side before its frames grew
    options = {"movflags": "+faststart", "fflags": "+bitexact", "write_btrt": "0"}
    with _opened(side) as origin, av.open(str(target), "w", format="mp4", options=options) as file:
        stream = file.add_stream_from_template(origin.streams.video[0])
        stream.metadata.clear()
        frames = zip(_packets(origin), wanted.sizes, wanted.keys, strict=True)
        for index, ((packet, units), size, is_key) in enumerate(frames):
            missing = size - sum(map(len, units))
            if missing:
                shares = _shares(wanted.counts[index // _GROUP, int(packet.is_keyframe)])
                units[-1] += _drawn(missing, shares, keyed_rng(*key, "after coded data", index))
            file.mux(_copied(packet, units, stream, is_key))


def _opened(side: Path) -> InputContainer:
    try:
        return av.open(str(side), options={"protocol_whitelist": "file"})
    except av.FFmpegError as problem:
        raise IntegrityError(f"{side} is not a video: remove it and run this again ({problem})") from problem


def _packets(origin: InputContainer) -> Iterator[tuple[VideoPacket, list[bytes]]]:
    """Yield each frame with its NAL units, the last a slice, without the encoder's marks and numbers."""
    stream = origin.streams.video[0]
    try:
        numbers = IdrNumbers(stream.codec_context.extradata or b"")
        if not numbers.arithmetic:
            raise InvalidBitstream("its slices have no arithmetic code")
        for packet in origin.demux(stream):
            if packet.size:
                yield packet, list(numbers.renumbered(_units(bytes(packet))))
    except InvalidBitstream as problem:
        raise IntegrityError(
            f"{origin.name} is not a stream of this encoder ({problem}): remove it and run this again"
        ) from problem


def _units(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4])
        if data[at + 4] & 31 != _SUPPLEMENTAL:
            yield data[at + 4 : end]
        at = end


def _copied(packet: VideoPacket, units: list[bytes], stream: VideoStream, is_key: bool) -> VideoPacket:
    copy: VideoPacket = av.Packet(b"".join(len(unit).to_bytes(4) + unit for unit in units))
    copy.time_base = packet.time_base
    copy.pts, copy.dts, copy.duration = packet.pts, packet.dts, packet.duration
    copy.is_keyframe = is_key
    copy.stream = stream
    return copy


def _drawn(count: int, shares: NDArray[np.float64], rng: np.random.Generator) -> bytes:
    """Return bytes with given shares, which end as a slice does: with a one and zeros.

    Parameters
    ----------
    shares
        ``(2, 256)``: of each byte, behind one that ends with 0 and behind one that ends with 1.
    """
    both = np.stack([rng.choice(256, count, p=row) for row in shares]).astype(np.uint8)
    both[1, 0] = both[0, 0]
    # the last bit of each byte: known where both have the same, else that of the byte before, or its opposite
    last = (both & 1).astype(int)
    turns = np.cumsum(last[0] > last[1])
    known = np.maximum.accumulate(np.where(last[0] == last[1], np.arange(count), 0))
    ends = (last[0, known] + turns - turns[known]) & 1
    data = both[np.append(0, ends[:-1]), np.arange(count)]
    zeros = int(rng.integers(8))
    data[-1] = (int(data[-1]) >> zeros | 1) << zeros
    # with as many emulation prevention bytes as coded data have; what precedes never ends with a zero
    return escaped(data.tobytes())[-count:]


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how likely each byte is in coded data that have given bytes, both ``(2, 256)`` as for `_drawn`.

    Counts are used as far as they exceed chance; the rest is as the shares of ones and of changes
    between neighbouring bits say.
    """
    total = counts.sum()
    if not total:
        return np.full(counts.shape, 1 / 256)
    # a few bytes may suggest impossible probabilities
    ones = np.clip((counts @ _BITS.sum(1)).sum() / (8 * total), 0.01, 0.99)
    changes = (counts * (_BEFORE != _BITS).sum(2)).sum() / (8 * total)
    up, down = np.clip([changes / 2 / (1 - ones), changes / 2 / ones], 0.01, 0.99)
    plain = np.array([[1 - up, up], [down, 1 - down]])[_BEFORE, _BITS].prod(2)
    rows = np.maximum(counts.sum(1, keepdims=True), 1)
    surprise = ((counts - rows * plain) ** 2 / (rows * plain)).sum()
    trust = max(0.0, 1 - (plain.size - 2) / surprise)
    shares: NDArray[np.float64] = trust * counts / rows + (1 - trust) * plain
    shares /= shares.sum(1, keepdims=True)
    return shares


def _end_alike(targets: tuple[Path, Path]) -> None:
    """Append an unused box to the smaller file, or to both if it would be smaller than its head."""
    sizes = [target.stat().st_size for target in targets]
    if sizes[0] == sizes[1]:
        return
    wanted = max(sizes) + (_BOX if abs(sizes[0] - sizes[1]) < _BOX else 0)
    for target, size in zip(targets, sizes, strict=True):
        if size < wanted:
            with target.open("r+b") as file:
                file.seek(size)
                file.write((wanted - size).to_bytes(4, "big") + b"free")
                file.truncate(wanted)
