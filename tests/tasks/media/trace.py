"""Every field of H.264's slice headers, as FFmpeg's own parser reads them."""

from __future__ import annotations

import re
from pathlib import Path

import av
from av.bitstream import BitStreamFilterContext

_FIELD = re.compile(r"^\d+\s+(\S+)\s+[01]*\s*= (-?\d+)$")
_HEADS = ("Access Unit Delimiter", "Slice Header")
_SUPPLEMENTAL = 6


def headers(path: Path) -> list[list[dict[str, int]]]:
    """Return the fields of each delimiter and slice of each frame of an MP4, and the bytes of each."""
    pictures = []
    before = av.logging.get_level()
    av.logging.set_level(av.logging.INFO)
    try:
        with av.open(str(path)) as file:
            stream = file.streams.video[0]
            reader = BitStreamFilterContext("trace_headers", stream)
            for packet in file.demux(stream):
                if packet.size:
                    units = nal_units(bytes(packet))
                    whole = av.Packet(b"".join(len(unit).to_bytes(4) + unit for unit in units))
                    with av.logging.Capture() as lines:
                        reader.filter(whole)
                    fields = _fields([line.strip() for _, _, line in lines])
                    pictures.append(
                        [one | {"bytes": len(unit)} for one, unit in zip(fields, units, strict=True)]
                    )
    finally:
        av.logging.set_level(before)
    return pictures


def slices(path: Path) -> list[bytes]:
    """Return the slice of each frame of an MP4."""
    with av.open(str(path)) as file:
        return [nal_units(bytes(packet))[-1] for packet in file.demux(video=0) if packet.size]


def nal_units(data: bytes) -> list[bytes]:
    """Return the NAL units of a frame but for messages, which players skip."""
    units, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4])
        if data[at + 4] & 31 != _SUPPLEMENTAL:
            units.append(data[at + 4 : end])
        at = end
    return units


def _fields(lines: list[str]) -> list[dict[str, int]]:
    units: list[dict[str, int]] = []
    for line in lines:
        if line in _HEADS:
            units.append({})
        elif (field := _FIELD.match(line)) and units:
            units[-1][field[1]] = int(field[2])
    return units


def idr_numbers(path: Path) -> list[int]:
    """Return ``idr_pic_id`` of each IDR slice."""
    return [unit["idr_pic_id"] for units in headers(path) for unit in units if "idr_pic_id" in unit]
