"""The part of H.264's syntax (ITU-T H.264, 7.3) that shows which pictures others may refer to."""

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

_SLICE_BYTES = 40  # more than a slice header needs up to pic_order_cnt_lsb
_SEI_RECOVERY_POINT = 6


@dataclass(frozen=True, slots=True)
class Sps:
    """The fields of a sequence parameter set for frame numbers, order and interlacing.

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
    InvalidBitstream
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
    InvalidBitstream
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


class H264Reader:
    """Reads pictures of H.264; only pictures with ``nal_ref_idc`` above 0 are referred to.

    Attributes
    ----------
    reorder, leading
        See :class:`tasks.media.bitstream.PictureReader`. Decoders differ in how they handle pictures that are
        shown before a recovery point but sent after it.

    Raises
    ------
    NotProvable, InvalidBitstream
        On construction, if the proof does not apply to this kind of stream.
    """

    leading = False

    def __init__(self, extradata: bytes, reorder: int) -> None:
        self._avcc = parse_avcc(extradata)
        if len(self._avcc.sps) != 1:
            raise NotProvable(f"{len(self._avcc.sps)} sequence parameter sets")
        self._sps = parse_sps(self._avcc.sps[0])
        if not self._sps.frames_only:
            raise NotProvable("pictures may be fields (interlaced)")
        if self._sps.gaps_allowed:
            raise NotProvable("gaps in frame_num are allowed")
        if self._sps.poc_type == 1:
            raise NotProvable("picture order count type 1")
        self.reorder = max(reorder, self._sps.num_reorder_frames or 0)
        self._bottom_delta = dict(parse_pps(pps) for pps in self._avcc.pps)
        # PrevRefFrameNum, prevPicOrderCntMsb and prevPicOrderCntLsb of the standard
        self._frame_num = self._poc_msb = self._poc_lsb = 0
        self._since_idr = -1
        self._reference = 0  # the last reference picture since then, which represents all before it

    def read(self, data: memoryview) -> CodedPicture:
        """Return the picture's information from the packet."""
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
                recovery = recovery or _SEI_RECOVERY_POINT in sei_types(bytes(data[start + 1 : position]))
            elif kind == 7 and bytes(data[start:position]) not in self._avcc.sps:
                raise NotProvable("the sequence parameter set changes in mid-stream")
            elif kind == 8 and bytes(data[start:position]) not in self._avcc.pps:
                raise NotProvable("the picture parameter set changes in mid-stream")
            elif kind not in (7, 8, 9, 10, 11, 12):
                raise NotProvable(f"NAL unit type {kind}")
        if picture is None:
            raise NotProvable("a packet without picture")
        if picture.idr and not picture.reference:
            raise NotProvable("an IDR picture that is not a reference")
        order = self._order_count(picture)
        needs = () if picture.idr else (self._reference,)
        if picture.reference:
            self._reference = self._since_idr
        return CodedPicture(picture.idr, picture.idr or recovery, order, (needs,))

    def _order_count(self, picture: Picture) -> int:
        """Check ``frame_num`` and compute the picture order count (H.264, 7.4.3 and 8.2.1)."""
        if picture.idr:
            self._frame_num = self._poc_msb = self._poc_lsb = 0
            self._since_idr = -1
        expected = 0 if picture.idr else (self._frame_num + 1) % (1 << self._sps.log2_max_frame_num)
        if picture.frame_num != expected:
            raise NotProvable("frame_num jumps: a reference picture is missing or memory was reset")
        if picture.reference:
            self._frame_num = picture.frame_num
        self._since_idr += 1
        if self._sps.poc_type == 2:
            return self._since_idr
        msb = next_msb(picture.poc_lsb, self._poc_msb, self._poc_lsb, self._sps.log2_max_poc_lsb)
        if picture.reference:
            self._poc_msb, self._poc_lsb = msb, picture.poc_lsb
        return msb + picture.poc_lsb + picture.poc_delta
