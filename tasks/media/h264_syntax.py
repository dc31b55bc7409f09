"""The part of H.264's syntax (ITU-T H.264, 7.3) that tells which pictures others may refer to."""

from __future__ import annotations

from dataclasses import dataclass


class InvalidBitstream(Exception):
    """The bytes are not H.264 syntax supported here."""


class Bits:
    """Reads bits, most significant first, from bytes without emulation prevention."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def u(self, count: int) -> int:
        """Unsigned integer of ``count`` bits."""
        if count > self._left:
            raise InvalidBitstream("syntax ends early")
        self._left -= count
        return (self._value >> self._left) & ((1 << count) - 1)

    def ue(self) -> int:
        """Unsigned Exp-Golomb number."""
        zeros = self._left - (self._value & ((1 << self._left) - 1)).bit_length()
        if zeros > 32:
            raise InvalidBitstream("Exp-Golomb number too long")
        return self.u(2 * zeros + 1) - 1

    def se(self) -> int:
        """Signed Exp-Golomb number."""
        number = self.ue()
        return (number + 1) // 2 if number & 1 else -(number // 2)


def unescape(data: bytes) -> bytes:
    """Payload without emulation prevention bytes (00 00 03)."""
    return data.replace(b"\x00\x00\x03", b"\x00\x00")


@dataclass(frozen=True, slots=True)
class Sps:
    """The fields of a sequence parameter set on frame numbers, order and interlacing.

    ``num_reorder_frames`` is None if the set has no bitstream restriction.
    """

    id: int
    profile: int
    separate_planes: bool
    log2_max_frame_num: int
    poc_type: int
    log2_max_poc_lsb: int
    gaps_allowed: bool
    frames_only: bool
    num_reorder_frames: int | None


_CHROMA_PROFILES = {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135}


def _skip_scaling_lists(bits: Bits, count: int) -> None:
    for i in range(count):
        if bits.u(1):
            last = following = 8
            for _ in range(16 if i < 6 else 64):
                if following:
                    following = (last + bits.se()) % 256
                last = following or last


def _skip_hrd(bits: Bits) -> None:
    count = bits.ue() + 1
    bits.u(8)
    for _ in range(count):
        bits.ue()
        bits.ue()
        bits.u(1)
    bits.u(20)


def _reorder_frames(bits: Bits) -> int | None:
    """``max_num_reorder_frames`` from the VUI parameters."""
    if bits.u(1) and bits.u(8) == 255:  # aspect ratio
        bits.u(32)
    if bits.u(1):  # overscan
        bits.u(1)
    if bits.u(1):  # video signal type
        bits.u(4)
        if bits.u(1):
            bits.u(24)
    if bits.u(1):  # chroma location
        bits.ue()
        bits.ue()
    if bits.u(1):  # timing
        bits.u(65)
    nal_hrd = bits.u(1)
    if nal_hrd:
        _skip_hrd(bits)
    vcl_hrd = bits.u(1)
    if vcl_hrd:
        _skip_hrd(bits)
    if nal_hrd or vcl_hrd:
        bits.u(1)
    bits.u(1)  # pic_struct_present_flag
    if not bits.u(1):
        return None
    bits.u(1)
    for _ in range(4):
        bits.ue()
    return bits.ue()


def parse_sps(nal: bytes) -> Sps:
    """Read a sequence parameter set NAL unit, header byte included.

    Raises
    ------
    Unreadable
        The unit ends early or is not a sequence parameter set.
    """
    bits = Bits(unescape(nal[1:]))
    profile = bits.u(8)
    bits.u(16)
    sps_id = bits.ue()
    separate = False
    if profile in _CHROMA_PROFILES:
        chroma = bits.ue()
        if chroma == 3:
            separate = bool(bits.u(1))
        bits.ue()
        bits.ue()
        bits.u(1)
        if bits.u(1):
            _skip_scaling_lists(bits, 12 if chroma == 3 else 8)
    log2_max_frame_num = bits.ue() + 4
    poc_type = bits.ue()
    log2_max_poc_lsb = 0
    if poc_type == 0:
        log2_max_poc_lsb = bits.ue() + 4
    elif poc_type == 1:
        bits.u(1)
        bits.se()
        bits.se()
        for _ in range(bits.ue()):
            bits.se()
    bits.ue()  # max_num_ref_frames
    gaps = bool(bits.u(1))
    bits.ue()
    bits.ue()
    frames_only = bool(bits.u(1))
    if not frames_only:
        bits.u(1)
    bits.u(1)
    if bits.u(1):  # cropping
        for _ in range(4):
            bits.ue()
    reorder = _reorder_frames(bits) if bits.u(1) else None
    if reorder is not None and reorder > 16:
        raise InvalidBitstream(f"{reorder} reordered frames")
    return Sps(
        id=sps_id,
        profile=profile,
        separate_planes=separate,
        log2_max_frame_num=log2_max_frame_num,
        poc_type=poc_type,
        log2_max_poc_lsb=log2_max_poc_lsb,
        gaps_allowed=gaps,
        frames_only=frames_only,
        num_reorder_frames=reorder,
    )


@dataclass(frozen=True, slots=True)
class Avcc:
    """The ``avcC`` record of MP4 and Matroska: parameter sets and the size of length fields."""

    length_size: int
    sps: tuple[bytes, ...]
    pps: tuple[bytes, ...]


def parse_avcc(extradata: bytes) -> Avcc:
    """Read an ``avcC`` record.

    Raises
    ------
    Unreadable
        If the data is not such a record, for example because the stream uses start codes.
    """
    if len(extradata) < 7 or extradata[0] != 1:
        raise InvalidBitstream("no avcC record")
    position = 5

    def units(count: int) -> tuple[bytes, ...]:
        nonlocal position
        parsed = []
        for _ in range(count):
            size = int.from_bytes(extradata[position : position + 2], "big")
            unit = extradata[position + 2 : position + 2 + size]
            if not size or len(unit) < size:
                raise InvalidBitstream("avcC record ends early")
            parsed.append(unit)
            position += 2 + size
        return tuple(parsed)

    sps_count = extradata[position] & 31
    position += 1
    sps = units(sps_count)
    if position >= len(extradata):
        raise InvalidBitstream("avcC record ends early")
    pps_count = extradata[position]
    position += 1
    return Avcc((extradata[4] & 3) + 1, sps, units(pps_count))


@dataclass(frozen=True, slots=True)
class Picture:
    """The required fields of a picture's first slice header.

    ``poc_lsb`` is ``pic_order_cnt_lsb`` and ``poc_delta`` the (never positive) distance from there to the
    picture's order count; both are 0 if the stream has none.
    """

    idr: bool
    reference: bool
    frame_num: int
    poc_lsb: int
    poc_delta: int


def parse_pps(nal: bytes) -> tuple[int, bool]:
    """Id of a picture parameter set and whether slices carry ``delta_pic_order_cnt_bottom``."""
    bits = Bits(unescape(nal[1:]))
    pps_id = bits.ue()
    bits.ue()
    bits.u(1)
    return pps_id, bool(bits.u(1))


def parse_slice(head: bytes, sps: Sps, bottom_delta: dict[int, bool]) -> tuple[int, Picture]:
    """First macroblock and picture data of a slice of a stream of frames (not fields).

    Parameters
    ----------
    head
        The first bytes of the slice NAL unit, header byte included; 40 are plenty.
    sps
        The sequence parameter set.
    bottom_delta
        Result of :func:`parse_pps` by picture parameter set.
    """
    bits = Bits(unescape(head[1:]))
    idr = head[0] & 31 == 5
    first_mb = bits.ue()
    bits.ue()  # slice_type
    pps_id = bits.ue()
    if sps.separate_planes:
        bits.u(2)
    frame_num = bits.u(sps.log2_max_frame_num)
    if idr:
        bits.ue()
    poc_lsb = poc_delta = 0
    if pps_id not in bottom_delta:
        raise InvalidBitstream("a slice names an unknown picture parameter set")
    if sps.poc_type == 0:
        poc_lsb = bits.u(sps.log2_max_poc_lsb)
        if bottom_delta[pps_id]:
            poc_delta = min(bits.se(), 0)
    return first_mb, Picture(idr, bool(head[0] & 0x60), frame_num, poc_lsb, poc_delta)
