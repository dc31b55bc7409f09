"""The part of H.265's syntax (ITU-T H.265, 7.3) that tells which pictures others may refer to."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.media.bitstream import (
    Bits,
    CodedPicture,
    InvalidBitstream,
    NotProvable,
    next_msb,
    sei_types,
    unescape,
)

_SLICE_BYTES = 40  # more than a slice header needs up to slice_pic_order_cnt_lsb
_LAST_SUB_LAYER_NON_REFERENCE = 8  # RASL_N; even types up to here are TRAIL_N, TSA_N, STSA_N, RADL_N
_LEADING = range(6, 10)
_IDR = (19, 20)
_CRA = 21
_VPS, _SPS, _PPS, _DELIMITER, _FILLER = 32, 33, 34, 35, 38
_SEI = (39, 40)
#: Messages that change pixels or turn pictures from some picture on: film grain, display orientation.
_SEI_OF_PICTURES = {19, 47}


@dataclass(frozen=True, slots=True)
class HevcSps:
    """The fields of a sequence parameter set on temporal layers and order."""

    highest_layer: int
    separate_planes: bool
    log2_max_poc_lsb: int
    num_reorder: int


def _skip_profile_tier_level(bits: Bits, highest_layer: int) -> None:
    bits.u(96)
    present = [(bits.u(1), bits.u(1)) for _ in range(highest_layer)]
    if highest_layer:
        bits.u(2 * (8 - highest_layer))
    for profile, level in present:
        bits.u(88 * profile + 8 * level)


def parse_sps(nal: bytes) -> HevcSps:
    """Read a sequence parameter set NAL unit, header bytes included."""
    bits = Bits(unescape(nal[2:]))
    bits.u(4)
    highest_layer = bits.u(3)
    bits.u(1)
    _skip_profile_tier_level(bits, highest_layer)
    bits.ue()  # id
    separate_planes = bits.ue() == 3 and bool(bits.u(1))
    bits.ue()
    bits.ue()
    if bits.u(1):  # conformance window
        for _ in range(4):
            bits.ue()
    bits.ue()
    bits.ue()
    log2_max_poc_lsb = bits.ue() + 4
    num_reorder = 0
    for _ in range(highest_layer + 1 if bits.u(1) else 1):
        bits.ue()
        num_reorder = bits.ue()
        bits.ue()
    if log2_max_poc_lsb > 16 or num_reorder > 16:
        raise InvalidBitstream("a sequence parameter set is out of range")
    return HevcSps(highest_layer, separate_planes, log2_max_poc_lsb, num_reorder)


def parse_pps(nal: bytes) -> tuple[int, int]:
    """Id of a picture parameter set and the number of extra bits in slice headers.

    Raises
    ------
    NotProvable
        Pictures may be hidden.
    """
    bits = Bits(unescape(nal[2:]))
    pps_id = bits.ue()
    bits.ue()
    bits.u(1)
    if bits.u(1):
        raise NotProvable("pictures may be hidden")
    return pps_id, bits.u(3)


@dataclass(frozen=True, slots=True)
class Hvcc:
    """The ``hvcC`` record of MP4 and Matroska: parameter sets by type and the size of length fields."""

    length_size: int
    sets: dict[int, tuple[bytes, ...]]


def parse_hvcc(extradata: bytes) -> Hvcc:
    """Read an ``hvcC`` record.

    Raises
    ------
    InvalidBitstream
        The data is not such a record, for example because the stream uses start codes.
    """
    if len(extradata) < 23 or extradata[0] != 1:
        raise InvalidBitstream("no hvcC record")
    sets: dict[int, tuple[bytes, ...]] = {}
    position = 23
    for _ in range(extradata[22]):
        kind = extradata[position] & 63 if position < len(extradata) else 0
        count = int.from_bytes(extradata[position + 1 : position + 3], "big")
        position += 3
        for _ in range(count):
            size = int.from_bytes(extradata[position : position + 2], "big")
            unit = extradata[position + 2 : position + 2 + size]
            if size < 3 or len(unit) < size:
                raise InvalidBitstream("hvcC record ends early")
            sets[kind] = (*sets.get(kind, ()), unit)
            position += 2 + size
    return Hvcc((extradata[21] & 3) + 1, sets)


class HevcReader:
    """Reads pictures of H.265.

    No picture refers to a sub-layer non-reference picture of the highest temporal layer. Sections begin at
    IDR pictures. CRA pictures and their leading pictures, which may refer to earlier ones, are like others.

    Attributes
    ----------
    reorder, leading
        See :class:`tasks.media.bitstream.PictureReader`.

    Raises
    ------
    NotProvable, InvalidBitstream
        On construction, if the proof does not apply to this kind of stream.
    """

    leading = True

    def __init__(self, extradata: bytes, reorder: int) -> None:
        self._hvcc = parse_hvcc(extradata)
        sps = self._hvcc.sets.get(_SPS, ())
        if len(sps) != 1:
            raise NotProvable(f"{len(sps)} sequence parameter sets")
        for kind in _SEI:
            for unit in self._hvcc.sets.get(kind, ()):
                _check_sei(unit)
        self._sps = parse_sps(sps[0])
        pps = self._hvcc.sets.get(_PPS, ())
        self._extra_bits = dict(map(parse_pps, pps))
        if len(self._extra_bits) != len(pps):
            raise NotProvable("two picture parameter sets have one id")
        self.reorder = self._sps.num_reorder
        self._poc_msb = self._poc_lsb = 0  # of the last picture in the lowest layer that others refer to

    def read(self, data: memoryview) -> CodedPicture:
        """Return what the packet says of its picture."""
        size_bytes = self._hvcc.length_size
        position, end = 0, len(data)
        picture: CodedPicture | None = None
        header = b""
        while position < end:
            start = position + size_bytes
            size = int.from_bytes(data[position:start], "big")
            position = start + size
            if size < 3 or position > end:
                raise NotProvable("a packet is not a sequence of NAL units")
            kind, layer = data[start] >> 1 & 63, (data[start] & 1) << 5 | data[start + 1] >> 3
            if data[start] & 0x80 or layer or not data[start + 1] & 7:
                raise NotProvable("the stream has layers")
            if kind <= 9 or kind in (*_IDR, _CRA):
                if picture is None:
                    header = bytes(data[start : start + 2])
                    picture = self._picture(kind, bytes(data[start : start + min(size, _SLICE_BYTES)]))
                elif data[start + 2] & 0x80:
                    raise NotProvable("several pictures in one packet")
                elif bytes(data[start : start + 2]) != header:
                    raise NotProvable("slices of one picture differ in kind")
            elif kind in _SEI:
                _check_sei(bytes(data[start:position]))
            elif kind in (_VPS, _SPS, _PPS):
                if bytes(data[start:position]) not in self._hvcc.sets.get(kind, ()):
                    raise NotProvable("a parameter set changes in mid-stream")
            elif kind not in (_DELIMITER, _FILLER):
                raise NotProvable(f"NAL unit type {kind}")
        if picture is None:
            raise NotProvable("a packet without picture")
        return picture

    def _picture(self, kind: int, head: bytes) -> CodedPicture:
        """Read the first slice of a picture and compute its order count (H.265, 8.3.1)."""
        layer = (head[1] & 7) - 1
        entry, random_access = kind in _IDR, kind >= min(_IDR)
        if layer > self._sps.highest_layer or (random_access and layer):
            raise InvalidBitstream("a temporal layer that the stream does not have")
        bits = Bits(unescape(head[2:]))
        if not bits.u(1):
            raise NotProvable("a picture does not begin with its first slice")
        if random_access and bits.u(1):
            raise NotProvable("a key frame discards pictures before it")
        pps_id = bits.ue()
        if pps_id not in self._extra_bits:
            raise InvalidBitstream("a slice names an unknown picture parameter set")
        bits.u(self._extra_bits[pps_id])
        bits.ue()  # slice_type
        if self._sps.separate_planes:
            bits.u(2)
        lsb = msb = 0
        if not entry:
            lsb = bits.u(self._sps.log2_max_poc_lsb)
            msb = next_msb(lsb, self._poc_msb, self._poc_lsb, self._sps.log2_max_poc_lsb)
        non_reference = kind <= _LAST_SUB_LAYER_NON_REFERENCE and not kind & 1
        if not layer and not non_reference and kind not in _LEADING:
            self._poc_msb, self._poc_lsb = msb, lsb
        reference = not (non_reference and layer == self._sps.highest_layer)
        return CodedPicture(entry, random_access, reference, msb + lsb)


def _check_sei(unit: bytes) -> None:
    if sei_types(unit[2:]) & _SEI_OF_PICTURES:
        raise NotProvable("messages change how pictures are shown")
