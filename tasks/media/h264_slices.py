"""Numbers of H.264's IDR pictures, changed without decoding (ITU-T H.264, 7.3.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tasks.media.bitstream import Bits, InvalidBitstream, unescape
from tasks.media.h264_syntax import Sps, parse_avcc, parse_sps

_IDR_SLICE = 5
#: Bytes of the longest header read here: a few numbers of up to 65 bits.
_HEADER_BYTES = 64
_TO_ESCAPE = re.compile(rb"\0\0(?=[\0-\3]|\Z)")


@dataclass(frozen=True)
class _Pps:
    """The fields of a picture parameter set that determine which fields a slice header has."""

    cabac: bool
    bottom_delta: bool
    deblocking: bool
    redundant: bool


def _parse_pps(nal: bytes) -> tuple[int, _Pps]:
    bits = Bits(unescape(nal[1:]))
    id_ = bits.ue()
    bits.ue()
    cabac, bottom_delta = bool(bits.u(1)), bool(bits.u(1))
    if bits.ue():
        raise InvalidBitstream("slice groups")
    bits.ue()
    bits.ue()
    bits.u(3)  # weighted prediction
    for _ in range(3):
        bits.se()
    deblocking, _, redundant = bool(bits.u(1)), bits.u(1), bool(bits.u(1))
    return id_, _Pps(cabac, bottom_delta, deblocking, redundant)


class IdrNumbers:
    """Numbers the IDR pictures of a stream 0, 1, 0, 1 … in order.

    The encoder's own numbers repeat where units of several streams were joined, which would reveal the joins.

    Parameters
    ----------
    extradata
        The stream's ``avcC`` record.

    Raises
    ------
    InvalidBitstream
        If the stream has fields, slice groups or a rare picture order.
    """

    def __init__(self, extradata: bytes) -> None:
        record = parse_avcc(extradata)
        self._sps: dict[int, Sps] = {sps.id: sps for sps in map(parse_sps, record.sps)}
        self._pps = dict(map(_parse_pps, record.pps))
        if len(self._sps) != 1 or any(not sps.frames_only or sps.poc_type == 1 for sps in self._sps.values()):
            raise InvalidBitstream("several parameter sets, fields, or picture order of type 1")
        self._number = 1

    @property
    def arithmetic(self) -> bool:
        """Whether slices are coded with CABAC, whose own code marks where they end."""
        return all(pps.cabac for pps in self._pps.values())

    def renumbered(self, units: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the NAL units of one picture with its number."""
        begun = False
        for unit in units:
            if unit[0] & 31 != _IDR_SLICE:
                yield unit
                continue
            if not begun:
                self._number, begun = 1 - self._number, True
            yield self._slice(unit, self._number)

    def _slice(self, unit: bytes, number: int) -> bytes:
        (sps,) = self._sps.values()
        # an escape may straddle the end of this part: the last bytes are never read
        bits = Bits(unescape(unit[1:_HEADER_BYTES]))
        bits.ue()
        bits.ue()
        pps_id = bits.ue()
        if pps_id not in self._pps:
            raise InvalidBitstream("a slice names an unknown picture parameter set")
        pps = self._pps[pps_id]
        bits.u((2 if sps.separate_planes else 0) + sps.log2_max_frame_num)
        first = bits.position
        old = bits.ue()
        after = bits.position
        if old == number:
            return unit
        _skip_rest(bits, sps, pps)
        data = unescape(unit[1:])
        return unit[:1] + escaped(_replaced(data, first, after, bits.position, number, pps.cabac))


def _skip_rest(bits: Bits, sps: Sps, pps: _Pps) -> None:
    """Read an IDR slice's header from the end of the picture's number to the end of the header."""
    if sps.poc_type == 0:
        bits.u(sps.log2_max_poc_lsb)
        if pps.bottom_delta:
            bits.se()
    if pps.redundant:
        bits.ue()
    bits.u(2)  # dec_ref_pic_marking of an IDR picture
    bits.se()  # slice_qp_delta
    if pps.deblocking and bits.ue() != 1:
        bits.se()
        bits.se()


def _replaced(data: bytes, first: int, after: int, end: int, number: int, cabac: bool) -> bytes:
    """Return a slice with `number` written between two of its bits; its header ends at bit `end`."""
    new = f"{number + 1:b}"
    new = "0" * (len(new) - 1) + new
    # CABAC data begins at a byte, CAVLC data where the header ends
    tail = -(-end // 8) if cabac else len(data)
    value, size = int.from_bytes(data[:tail]), 8 * tail
    kept = end if cabac else size - ((value & -value).bit_length() - 1)
    header = value >> (size - kept)
    head, rest = header >> (kept - first), header & ((1 << (kept - after)) - 1)
    bits = ((head << len(new) | number + 1) << (kept - after)) | rest
    count = first + len(new) + kept - after
    missing = -count % 8
    filling = (1 << missing) - 1 if cabac else 0
    return (bits << missing | filling).to_bytes((count + missing) // 8) + data[tail:]


def escaped(data: bytes) -> bytes:
    """Return a payload with emulation prevention bytes (00 00 03)."""
    return _TO_ESCAPE.sub(b"\0\0\3", data)
