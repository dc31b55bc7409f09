"""Make the two videos of a pair alike in everything but their pictures.

What a browser sees of a video before anybody answers must not tell the sides apart: the size of the file,
that of each frame, where the key frames are, and tags. A side that recurred with the same sizes in another
pair of its source would be the high one. So each pair has two files of its own, in which

- each frame is padded to the size of the other side's frame at its place, by a message that players skip;
- a frame is a key frame in the index only if both sides have one there;
- IDR pictures are numbered by their order, so that no repeated number tells where encoded clips were joined;
- the smaller file ends with unused bytes.

Two sides with different numbers of frames, as after a removal, differ in length anyway. They have equal file
sizes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from storage_schemas.errors import IntegrityError
from tasks.media.bitstream import InvalidBitstream
from tasks.media.h264_slices import IdrNumbers

if TYPE_CHECKING:
    VideoPacket: TypeAlias = "av.Packet[Any]"

#: NAL unit types (H.264, table 7-1). An encoder names itself in supplemental information; that marks where
#: encoding began, which in a low side is the first degraded clip.
_SUPPLEMENTAL, _DELIMITER = 6, 9
#: A message that players skip (H.264, D.2.7), under an identifier without zero bytes.
_UNREGISTERED, _IDENTIFIER = 5, bytes(range(0x31, 0x41))
#: Bytes of the shortest such message: length, two types, size, identifier, end.
_LEAST = 24
#: Bytes of the head of an MP4 box.
_BOX = 8


@dataclass(frozen=True)
class _Frames:
    """Bytes of each frame without the encoder's marks, and which are key frames."""

    sizes: list[int]
    keys: list[bool]


def write_alike(sides: tuple[Path, Path], targets: tuple[Path, Path]) -> None:
    """Write both sides of a pair as MP4 files that differ only in their pictures.

    The index precedes the frames, so that a browser can play a file while it loads.

    Parameters
    ----------
    sides
        Videos of :mod:`tasks.media.encode`, with the same parameter sets.
    targets
        Where the files go; existing ones are overwritten.

    Raises
    ------
    IntegrityError
        If a side cannot be read.
    """
    first, second = (_frames(side) for side in sides)
    if len(first.sizes) == len(second.sizes):
        sizes = [_padded(pair) for pair in zip(first.sizes, second.sizes, strict=True)]
        keys = [all(pair) for pair in zip(first.keys, second.keys, strict=True)]
        first, second = _Frames(sizes, keys), _Frames(sizes, keys)
    for side, target, wanted in zip(sides, targets, (first, second), strict=True):
        _write(side, target, wanted)
    _end_alike(targets)


def _frames(side: Path) -> _Frames:
    sizes, keys = [], []
    with _opened(side) as origin:
        for packet, units in _packets(origin):
            sizes.append(sum(map(len, units)))
            keys.append(packet.is_keyframe)
    return _Frames(sizes, keys)


def _write(side: Path, target: Path, wanted: _Frames) -> None:
    # the box with the bit rate would have that of the side before it was padded
    options = {"movflags": "+faststart", "fflags": "+bitexact", "write_btrt": "0"}
    with _opened(side) as origin, av.open(str(target), "w", format="mp4", options=options) as file:
        stream = file.add_stream_from_template(origin.streams.video[0])
        stream.metadata.clear()
        for (packet, units), size, key in zip(_packets(origin), wanted.sizes, wanted.keys, strict=True):
            file.mux(_copied(packet, units, stream, size, key))


def _opened(side: Path) -> InputContainer:
    try:
        return av.open(str(side), options={"protocol_whitelist": "file"})
    except av.FFmpegError as problem:
        raise IntegrityError(f"{side} is not a video: remove it and run this again ({problem})") from problem


def _packets(origin: InputContainer) -> Iterator[tuple[VideoPacket, list[bytes]]]:
    """Yield each frame with its NAL units and their lengths, without the encoder's marks and numbers."""
    stream = origin.streams.video[0]
    try:
        numbers = IdrNumbers(stream.codec_context.extradata or b"")
        for packet in origin.demux(stream):
            if packet.size:
                units = numbers.renumbered(_units(bytes(packet)))
                yield packet, [len(unit).to_bytes(4) + unit for unit in units]
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


def _copied(
    packet: VideoPacket, units: list[bytes], stream: VideoStream, size: int, key: bool
) -> VideoPacket:
    """Return the same coded frame, padded to `size` bytes."""
    missing = size - sum(map(len, units))
    if missing:
        # a delimiter comes first in a frame (H.264, 7.4.1.2.3)
        units.insert(1 if units[0][4] & 31 == _DELIMITER else 0, _message(missing))
    copy: VideoPacket = av.Packet(b"".join(units))
    copy.time_base = packet.time_base
    copy.pts, copy.dts, copy.duration = packet.pts, packet.dts, packet.duration
    copy.is_keyframe = key
    copy.stream = stream
    return copy


def _padded(sizes: tuple[int, int]) -> int:
    """Return the smallest size to which frames of both sizes can be padded."""
    size = max(sizes) + _LEAST
    while any(_payload(size - one) is None for one in sizes):
        size += 1
    return size


def _payload(length: int) -> int | None:
    """Return the bytes that a message of `length` bytes carries; None if none has this length.

    The size is written as a byte 255 for each 255 bytes, and one more byte.
    """
    carried = (length - _LEAST + 16) * 255 // 256
    for payload in (carried, carried + 1):
        if payload >= len(_IDENTIFIER) and 8 + payload + payload // 255 == length:
            return payload
    return None


def _message(length: int) -> bytes:
    """Return a NAL unit of `length` bytes that players skip."""
    payload = _payload(length)
    if payload is None:
        raise ValueError(f"no message has {length} bytes")
    size = b"\xff" * (payload // 255) + bytes([payload % 255])
    filling = b"\xff" * (payload - len(_IDENTIFIER))
    body = bytes([_SUPPLEMENTAL, _UNREGISTERED]) + size + _IDENTIFIER + filling + b"\x80"
    return len(body).to_bytes(4, "big") + body


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
