"""Whether a file ends before its own structure says it does, told from a few bytes of its outermost boxes."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_EBML, _SEGMENT = 0x1A45DFA3, 0x18538067


def looks_like_mp4(path: Path) -> bool:
    """Whether the first box of the file is one that an MP4 or QuickTime file starts with."""
    with path.open("rb") as file:
        return file.read(8)[4:] in {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"}


def is_cut_off(path: Path) -> bool:
    """Whether an MP4, Matroska or RIFF (AVI) file is shorter than it says; False for other formats."""
    end = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        if head[:4] == b"RIFF":
            return _riff_end(file, end) > end
        if int.from_bytes(head[:4], "big") == _EBML:
            return _matroska_end(file, end) > end
    return looks_like_mp4(path) and _mp4_end(path, end) > end


def _mp4_end(path: Path, end: int) -> int:
    """Where the last box at the top level of an MP4 file ends."""
    with path.open("rb") as file:
        position = 0
        while position < end:
            file.seek(position)
            head = file.read(16)
            if len(head) < 8:
                return end + 1 if any(head) else end
            size = int.from_bytes(head[:4], "big")
            if size == 0:  # reaches to the end of the file, however long that is
                return end
            if size == 1:
                size = int.from_bytes(head[8:16], "big")
            if size < 8:  # trailing rubbish, which players ignore too
                return end
            position += size
    return position


def _riff_end(file: BinaryIO, end: int) -> int:
    """Where the last RIFF chunk ends; long AVI files have several."""
    position = 0
    while position < end:
        file.seek(position)
        head = file.read(8)
        size = int.from_bytes(head[4:], "little")
        if head[:4] != b"RIFF" or size in (0, 0xFFFFFFFF):
            return end
        if position + 8 + size == end:  # the last chunk often goes without its padding byte
            return end
        position += 8 + size + size % 2
    return position


def _matroska_end(file: BinaryIO, end: int) -> int:
    """Where the segment ends, if its size is known (it is not in a live recording)."""
    position = 0
    while position < end:
        file.seek(position)
        head = file.read(12)
        id_length = _vint_length(head[0])
        size_length = _vint_length(head[id_length]) if len(head) > id_length else 0
        if not id_length or not size_length or len(head) < id_length + size_length:
            return end
        id_ = int.from_bytes(head[:id_length], "big")
        mask = (1 << (7 * size_length)) - 1
        size = int.from_bytes(head[id_length : id_length + size_length], "big") & mask
        if size == mask:
            return end
        position += id_length + size_length + size
        if id_ == _SEGMENT:
            return position
    return end


def _vint_length(first: int) -> int:
    """Bytes of an EBML number that starts with this byte, 0 if there is none."""
    return 9 - first.bit_length() if first else 0
