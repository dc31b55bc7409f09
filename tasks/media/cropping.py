"""The part of each picture that the container specifies for display.

FFmpeg's libraries read this, but PyAV does not pass it on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

from av.video.frame import VideoFrame

# Matroska's elements: the segment, its tracks, and their fields
_SEGMENT, _TRACKS, _TRACK, _TRACK_TYPE, _VIDEO = 0x18538067, 0x1654AE6B, 0xAE, 0x83, 0xE0
_PIXEL_CROP = {0x54CC: "left", 0x54DD: "right", 0x54BB: "top", 0x54AA: "bottom"}
_VIDEO_TRACK = 1
#: Bytes of an MP4 video entry before its boxes, and the position of width and height.
_ENTRY_FIELDS, _ENTRY_SIZE = 78, 24

_Part = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Crop:
    """Columns and rows of the decoded picture that are not shown."""

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0

    @property
    def arguments(self) -> str:
        """The arguments of FFmpeg's filter ``crop``, which keeps whole samples of chroma."""
        return f"iw-{self.left}-{self.right}:ih-{self.top}-{self.bottom}:{self.left}:{self.top}"

    def size(self, frame: VideoFrame) -> tuple[int, int]:
        """Return width and height of a frame after that filter."""
        width, height = frame.width - self.left - self.right, frame.height - self.top - self.bottom
        step, step_down = 4 // frame.format.chroma_width(4), 4 // frame.format.chroma_height(4)
        return width - width % step, height - height % step_down


def matroska_crop(path: Path, index: int) -> Crop | None:
    """Return the crop of a Matroska file's video track; video tracks are counted from 0."""
    with path.open("rb") as file:
        for segment in _elements(file, (0, path.stat().st_size), _SEGMENT):
            for tracks in _elements(file, segment, _TRACKS):
                videos = [t for t in _elements(file, tracks, _TRACK) if _is_video(file, t)]
                for video in _elements(file, videos[index], _VIDEO) if index < len(videos) else ():
                    sides = {
                        name: next((_number(file, part) for part in _elements(file, video, id_)), 0)
                        for id_, name in _PIXEL_CROP.items()
                    }
                    return Crop(**sides) if any(sides.values()) else None
    return None


def _is_video(file: BinaryIO, track: _Part) -> bool:
    return any(_number(file, part) == _VIDEO_TRACK for part in _elements(file, track, _TRACK_TYPE))


def _number(file: BinaryIO, part: _Part) -> int:
    file.seek(part[0])
    return int.from_bytes(file.read(min(part[1] - part[0], 8)), "big")


def vint_length(first: int) -> int:
    """Return the length in bytes of an EBML number that starts with this byte, 0 if not valid."""
    return 9 - first.bit_length() if first else 0


def _elements(file: BinaryIO, parent: _Part, wanted: int) -> Iterator[_Part]:
    """Yield where the content of elements with this id begins and ends."""
    position, end = parent
    while position < end:
        file.seek(position)
        head = file.read(12)
        id_length = vint_length(head[0]) if head else 0
        size_length = vint_length(head[id_length]) if len(head) > id_length else 0
        start = position + id_length + size_length
        if not id_length or not size_length or len(head) < id_length + size_length:
            return
        mask = (1 << (7 * size_length)) - 1
        size = int.from_bytes(head[id_length : id_length + size_length], "big") & mask
        position = end if size == mask else min(start + size, end)
        if int.from_bytes(head[:id_length], "big") == wanted:
            yield start, position


def clean_aperture(path: Path, track_id: int) -> Crop | None:
    """Return the crop of a track in MP4 or QuickTime."""
    with path.open("rb") as file:
        for movie in _boxes(file, (0, path.stat().st_size), b"moov"):
            for track in _boxes(file, movie, b"trak"):
                if _track_id(file, track) != track_id:
                    continue
                for entries in _boxes(file, track, b"mdia", b"minf", b"stbl", b"stsd"):
                    for entry in _boxes(file, (entries[0] + 8, entries[1]), b""):
                        return _clean_aperture(file, entry)
    return None


def _track_id(file: BinaryIO, track: _Part) -> int:
    for start, _ in _boxes(file, track, b"tkhd"):
        file.seek(start)
        head = file.read(24).ljust(24, b"\0")
        return int.from_bytes(head[20:24] if head[0] else head[12:16], "big")
    return 0


def _clean_aperture(file: BinaryIO, entry: _Part) -> Crop | None:
    for start, _ in _boxes(file, (entry[0] + _ENTRY_FIELDS, entry[1]), b"clap"):
        file.seek(entry[0] + _ENTRY_SIZE)
        size = struct.unpack(">2H", file.read(4))
        file.seek(start)
        data = file.read(32)
        if len(data) < 32:
            return None
        numbers = struct.unpack(">8i", data)
        if min(numbers[1::2]) <= 0:
            return None
        wide, high, right, down = (Fraction(*numbers[i : i + 2]) for i in range(0, 8, 2))
        sides = []
        for whole, shown, offset in ((size[0], wide, right), (size[1], high, down)):
            before = (whole - shown) / 2 + offset
            after = whole - 1 - int(before + shown - 1)
            if before < 0 or after < 0 or shown < 1:
                return None
            sides += [int(before), after]
        return Crop(*sides) if any(sides) else None
    return None


def _boxes(file: BinaryIO, parent: _Part, *kinds: bytes) -> Iterator[_Part]:
    """Yield where the content of boxes begins and ends: each kind inside the previous; ``b""``: any."""
    position, end = parent
    while position + 8 <= end:
        file.seek(position)
        head = file.read(16)
        size, kind, length = int.from_bytes(head[:4], "big"), head[4:8], 8
        if size == 1:
            size, length = int.from_bytes(head[8:16], "big"), 16
        size = size or end - position
        if size < length:
            return
        part = position + length, min(position + size, end)
        position += size
        if kinds[0] in (b"", kind):
            if len(kinds) == 1:
                yield part
            else:
                yield from _boxes(file, part, *kinds[1:])
