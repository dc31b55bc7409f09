"""The part of H.265's syntax (ITU-T H.265, 7.3) that shows which pictures others may refer to."""

from __future__ import annotations

from collections.abc import Sequence
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

_SLICE_BYTES = 160  # more than a slice header needs up to its reference picture set
_MAX_PICTURES = 16  # in the decoder's memory
_LAST_SUB_LAYER_NON_REFERENCE = 8  # RASL_N; even types up to here are TRAIL_N, TSA_N, STSA_N, RADL_N
_LEADING = range(6, 10)
_IDR = (19, 20)
_CRA = 21
_B_SLICE, _P_SLICE = 0, 1
_MONOCHROME = 0
_MAX_TILES = 20 + 22  # columns and rows (H.265, table A.9)
_VPS, _SPS, _PPS, _DELIMITER, _FILLER = 32, 33, 34, 35, 38
_SEI = (39, 40)
#: Messages that change or rotate the pictures after them: film grain, display orientation.
_SEI_OF_PICTURES = {19, 47}


#: Distances in order count to the pictures that stay in memory, as the standard sorts them, and whether the
#: picture itself may refer to each.
ReferenceSet = tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class HevcSps:
    """The fields of a sequence parameter set for temporal layers, order and references.

    ``sets`` holds the reference picture sets that slices may choose from. ``lists_long_term`` says whether
    there is a list of long-term pictures to choose from; it is None if slices name no long-term pictures.
    ``temporal_vectors`` says whether slices have a flag for motion vectors of other pictures, and
    ``offset_flags`` how many they have for sample adaptive offset.
    """

    highest_layer: int
    separate_planes: bool
    log2_max_poc_lsb: int
    num_reorder: int
    sets: tuple[ReferenceSet, ...]
    lists_long_term: bool | None
    temporal_vectors: bool
    offset_flags: int


@dataclass(frozen=True, slots=True)
class HevcPps:
    """The fields of a picture parameter set that the beginning of a slice header depends on.

    ``list_sizes`` are the sizes of the two reference lists unless a slice overrides them; ``reorders`` says
    whether slices may reorder the lists.
    """

    extra_bits: int
    list_sizes: tuple[int, int]
    reorders: bool


def _skip_scaling_lists(bits: Bits) -> None:
    for size in range(4):
        for _ in range(2 if size == 3 else 6):
            if not bits.u(1):
                bits.ue()
                continue
            if size > 1:
                bits.se()
            for _ in range(min(64, 16 << 2 * size)):
                bits.se()


def _reference_set(bits: Bits, sets: Sequence[ReferenceSet], in_slice: bool) -> ReferenceSet:
    """Read a short-term reference picture set, which may be predicted from one in `sets` (H.265, 7.4.8)."""
    pictures: list[tuple[int, bool]] = []
    if sets and bits.u(1):
        back = bits.ue() + 1 if in_slice else 1
        if back > len(sets):
            raise InvalidBitstream("a reference picture set is predicted from one that does not exist")
        negative = bits.u(1)
        shift = bits.ue() + 1
        shift = -shift if negative else shift
        for distance, _ in (*sets[-back], (0, True)):
            used = bool(bits.u(1))
            if used or bits.u(1):
                pictures.append((distance + shift, used))
    else:
        counts = bits.ue(), bits.ue()
        if max(counts) > _MAX_PICTURES:
            raise InvalidBitstream("a reference picture set is too large")
        for sign, count in zip((-1, 1), counts, strict=True):
            distance = 0
            for _ in range(count):
                distance += sign * (bits.ue() + 1)
                pictures.append((distance, bool(bits.u(1))))
    if len(pictures) > _MAX_PICTURES:
        raise InvalidBitstream("a reference picture set is too large")
    # From the nearest outwards, earlier pictures first.
    before, after = (p for p in pictures if p[0] < 0), (p for p in pictures if p[0] > 0)
    return (*sorted(before, reverse=True), *sorted(after))


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
    chroma = bits.ue()
    separate_planes = chroma == 3 and bool(bits.u(1))
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
    for _ in range(6):  # sizes and depths of blocks
        bits.ue()
    if bits.u(1) and bits.u(1):
        _skip_scaling_lists(bits)
    bits.u(1)
    offset_flags = bits.u(1) * (1 if chroma == _MONOCHROME or separate_planes else 2)
    if bits.u(1):  # pcm
        bits.u(8)
        bits.ue()
        bits.ue()
        bits.u(1)
    count = bits.ue()
    if count > 64:
        raise InvalidBitstream("too many reference picture sets")
    sets: list[ReferenceSet] = []
    for _ in range(count):
        sets.append(_reference_set(bits, sets, in_slice=False))
    lists_long_term = None
    if bits.u(1):
        listed = bits.ue()
        if listed > 2 * _MAX_PICTURES:
            raise InvalidBitstream("too many long-term pictures")
        bits.u(listed * (log2_max_poc_lsb + 1))
        lists_long_term = listed > 0
    return HevcSps(
        highest_layer,
        separate_planes,
        log2_max_poc_lsb,
        num_reorder,
        tuple(sets),
        lists_long_term,
        temporal_vectors=bool(bits.u(1)),
        offset_flags=offset_flags,
    )


def parse_pps(nal: bytes) -> tuple[int, HevcPps]:
    """Read a picture parameter set NAL unit, header bytes included; return its id and fields.

    Raises
    ------
    NotProvable, InvalidBitstream
        Pictures may be hidden, or the unit ends early.
    """
    bits = Bits(unescape(nal[2:]))
    pps_id = bits.ue()
    bits.ue()
    bits.u(1)
    if bits.u(1):
        raise NotProvable("pictures may be hidden")
    extra_bits = bits.u(3)
    bits.u(2)
    list_sizes = bits.ue() + 1, bits.ue() + 1
    bits.se()
    bits.u(2)
    if bits.u(1):  # quantisation of blocks
        bits.ue()
    bits.se()
    bits.se()
    bits.u(4)
    has_tiles = bits.u(1)
    bits.u(1)
    if has_tiles:
        lines = bits.ue() + bits.ue()
        if lines > _MAX_TILES:
            raise InvalidBitstream("too many tiles")
        if not bits.u(1):
            for _ in range(lines):
                bits.ue()
        bits.u(1)
    bits.u(1)
    if bits.u(1):  # deblocking filter
        bits.u(1)
        if not bits.u(1):
            bits.se()
            bits.se()
    if bits.u(1):
        _skip_scaling_lists(bits)
    return pps_id, HevcPps(extra_bits, list_sizes, reorders=bool(bits.u(1)))


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

    Each slice states which pictures it may refer to, and how many of them are in its lists. Sections begin at
    IDR pictures. CRA pictures and their leading pictures, which may refer to earlier ones, are treated like
    all others.

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
        self._pps = dict(map(parse_pps, pps))
        if len(self._pps) != len(pps):
            raise NotProvable("two picture parameter sets have one id")
        self.reorder = self._sps.num_reorder
        self._count = 0  # pictures since the IDR picture, by which they are numbered
        self._memory: dict[int, int | None] = {}  # pictures by order count; None if no other may refer to it
        self._random_access = 0  # the last picture of that kind
        # The last picture in the lowest layer that others may refer to, and its order count in two parts.
        self._lowest = self._poc_msb = self._poc_lsb = 0
        self._anchor = self._anchor_poc = 0  # see `_counted_from`

    def read(self, data: memoryview) -> CodedPicture:
        """Return the picture's information from the packet."""
        size_bytes = self._hvcc.length_size
        position, end = 0, len(data)
        picture: _Picture | None = None
        header = b""
        slices = 0
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
                slices += 1
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
        referred = picture.listed if slices == 1 else picture.referred  # other slices have other lists
        return CodedPicture(picture.entry, picture.key, picture.order, ((*referred, *picture.others),))

    def _picture(self, kind: int, head: bytes) -> _Picture:
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
        if pps_id not in self._pps:
            raise InvalidBitstream("a slice names an unknown picture parameter set")
        pps = self._pps[pps_id]
        bits.u(pps.extra_bits)
        slice_type = bits.ue()
        if self._sps.separate_planes:
            bits.u(2)
        lsb = msb = 0
        before: list[int] = []
        after: list[int] = []
        if entry:
            self._memory = {}
            self._count = self._lowest = self._anchor = self._anchor_poc = 0
        else:
            lsb = bits.u(self._sps.log2_max_poc_lsb)
            msb = next_msb(lsb, self._poc_msb, self._poc_lsb, self._sps.log2_max_poc_lsb)
            before, after = self._keep(msb + lsb, self._pictures_in_memory(bits))
        order = msb + lsb
        listed = before + after if pps.reorders else self._listed(bits, slice_type, pps, before, after)
        others = [] if entry else [self._random_access, self._counted_from(order)]
        non_reference = kind <= _LAST_SUB_LAYER_NON_REFERENCE and not kind & 1
        if not layer and not non_reference and kind not in _LEADING:
            self._lowest, self._poc_msb, self._poc_lsb = self._count, msb, lsb
            if abs(order - self._anchor_poc) >= 1 << self._sps.log2_max_poc_lsb - 3:
                self._anchor, self._anchor_poc = self._count, order
        if order in self._memory:
            raise NotProvable("two pictures have one place in the order")
        none_refers = non_reference and layer == self._sps.highest_layer
        self._memory[order] = None if none_refers else self._count
        if random_access:
            self._random_access = self._count
        self._count += 1
        return _Picture(entry, random_access, order, before + after, listed, others)

    def _pictures_in_memory(self, bits: Bits) -> ReferenceSet:
        """Read which pictures stay in memory."""
        sets = self._sps.sets
        if not bits.u(1):
            pictures = _reference_set(bits, sets, in_slice=True)
        else:
            number = bits.u((len(sets) - 1).bit_length()) if sets else 0
            if number >= len(sets):
                raise InvalidBitstream("a slice names an unknown reference picture set")
            pictures = sets[number]
        if self._sps.lists_long_term is not None and ((self._sps.lists_long_term and bits.ue()) or bits.ue()):
            raise NotProvable("long-term references")
        bits.u(self._sps.temporal_vectors)
        return pictures

    def _keep(self, order: int, pictures: ReferenceSet) -> tuple[list[int], list[int]]:
        """Remove all other pictures from memory, as the decoder does, even for an omitted picture.

        Returns the pictures that this one may refer to: those shown before it, and those after it.
        """
        memory: dict[int, int | None] = {}
        referred: tuple[list[int], list[int]] = [], []
        for distance, used in pictures:
            number = self._memory.get(order + distance)
            if number is None:
                raise NotProvable("a picture refers to one that is missing or that none may refer to")
            memory[order + distance] = number
            if used:
                referred[distance > 0].append(number)
        self._memory = memory
        return referred

    def _listed(
        self, bits: Bits, slice_type: int, pps: HevcPps, before: list[int], after: list[int]
    ) -> list[int]:
        """Read how long a slice's lists of references are, and return what is in them (H.265, 8.3.4)."""
        if slice_type not in (_B_SLICE, _P_SLICE):
            return []
        bits.u(self._sps.offset_flags)
        first, second = pps.list_sizes
        if bits.u(1):
            first = bits.ue() + 1
            second = bits.ue() + 1 if slice_type == _B_SLICE else 0
        return (before + after)[:first] + ((after + before)[:second] if slice_type == _B_SLICE else [])

    def _counted_from(self, order: int) -> int:
        """Return a picture without which the decoder might compute another order count for this one.

        The decoder knows the lower part of the count. Of all counts with that part it takes the one within
        half of the part's range of the last picture decoded in the lowest layer. If pictures are omitted,
        this is the last anchor or a picture after it, less than an eighth from the anchor.
        """
        near = abs(order - self._anchor_poc) < 1 << self._sps.log2_max_poc_lsb - 2
        return self._anchor if near else self._lowest


@dataclass(frozen=True, slots=True)
class _Picture:
    """The picture's information in its first slice.

    ``referred`` are the pictures that its slices may refer to, ``listed`` those in the first slice's lists,
    and ``others`` those needed in addition.
    """

    entry: bool
    key: bool
    order: int
    referred: list[int]
    listed: list[int]
    others: list[int]


def _check_sei(unit: bytes) -> None:
    if sei_types(unit[2:]) & _SEI_OF_PICTURES:
        raise NotProvable("messages change how pictures are shown")
