"""The part of AV1's syntax (bitstream specification, 5.5 and 5.9) that shows which packets depend on which.

Between frames AV1 keeps everything in eight reference slots: pixels, motion vectors, probabilities, the map
of the segmentation, the loop filter's deltas, film grain. A frame is decoded from the slots that its header
names, and a shown key frame refreshes all of them. So a frame can be omitted, even from a packet with
several, if no wanted frame depends on it, directly or indirectly.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.media.bitstream import Bits, CodedPicture, InvalidBitstream, NotProvable

_HEADER_BYTES = 64  # more than a frame header needs up to refresh_frame_flags
_SEQUENCE_HEADER, _DELIMITER, _FRAME_HEADER, _TILE_GROUP, _METADATA, _FRAME, _PADDING = 1, 2, 3, 4, 5, 6, 15
_KEY, _INTER, _INTRA_ONLY, _SWITCH = range(4)
_SLOTS = 8
_ALL_SLOTS = (1 << _SLOTS) - 1
_REFERENCES = 7  # of an inter frame
_MAX_FRAMES = 8  # of a packet, each a bit of a byte
_SELECT = 2  # SELECT_SCREEN_CONTENT_TOOLS and SELECT_INTEGER_MV: each frame says


@dataclass(frozen=True, slots=True)
class Sequence:
    """The fields of a sequence header that the beginning of a frame header depends on.

    ``presentation_bits`` is the size of a frame's presentation time, 0 if frames have none; ``removal_bits``
    is that of its removal time, for each operating point that has a decoder model.
    """

    presentation_bits: int
    removal_bits: tuple[int, ...]
    has_decoder_model: bool
    screen_content_tools: int
    integer_mv: int
    order_hint_bits: int


def parse_sequence(payload: bytes) -> Sequence:
    """Read a sequence header.

    Raises
    ------
    NotProvable, InvalidBitstream
        The stream is a still picture, has layers or numbers its frames, or the header ends early.
    """
    bits = Bits(payload)
    bits.u(3)  # profile
    bits.u(1)  # still_picture
    if bits.u(1):
        raise NotProvable("a still picture")
    delay_bits = removal_size = presentation_bits = 0
    has_decoder_model = False
    if bits.u(1):  # timing_info_present_flag
        bits.u(64)
        equal_interval = bits.u(1)
        if equal_interval:
            bits.ue()  # uvlc() of the specification
        has_decoder_model = bool(bits.u(1))
        if has_decoder_model:
            delay_bits = bits.u(5) + 1
            bits.u(32)
            removal_size = bits.u(5) + 1
            frame_bits = bits.u(5) + 1
            presentation_bits = 0 if equal_interval else frame_bits
    has_display_delay = bits.u(1)
    removal_bits = []
    for _ in range(bits.u(5) + 1):
        if bits.u(12):
            raise NotProvable("the stream has layers")
        if bits.u(5) > 7:
            bits.u(1)
        if has_decoder_model and bits.u(1):
            bits.u(2 * delay_bits + 1)
            removal_bits.append(removal_size)
        if has_display_delay and bits.u(1):
            bits.u(4)
    width_bits, height_bits = bits.u(4) + 1, bits.u(4) + 1
    bits.u(width_bits + height_bits)
    if bits.u(1):
        raise NotProvable("frames have numbers")
    bits.u(7)  # tools up to dual filters
    has_order_hints = bits.u(1)
    if has_order_hints:
        bits.u(2)
    screen_content_tools = _SELECT if bits.u(1) else bits.u(1)
    integer_mv = _SELECT
    if screen_content_tools and not bits.u(1):
        integer_mv = bits.u(1)
    order_hint_bits = bits.u(3) + 1 if has_order_hints else 0
    return Sequence(
        presentation_bits,
        tuple(removal_bits),
        has_decoder_model,
        screen_content_tools,
        integer_mv,
        order_hint_bits,
    )


@dataclass(frozen=True, slots=True)
class Av1Frame:
    """The required fields of a frame's header.

    ``refreshed`` has a bit for each slot that stores the frame; ``slots`` are those that it is decoded from;
    ``again`` is the slot of a frame that is only shown, or None; ``showable`` says whether the frame may be
    shown from a slot later.
    """

    shown: bool
    key: bool
    refreshed: int
    slots: tuple[int, ...]
    showable: bool
    again: int | None


def parse_frame(head: bytes, sequence: Sequence) -> Av1Frame:
    """Read the first bytes of a frame header."""
    bits = Bits(head)
    if bits.u(1):
        again = bits.u(3)
        return Av1Frame(shown=True, key=False, refreshed=0, slots=(again,), showable=False, again=again)
    kind, shown = bits.u(2), bool(bits.u(1))
    if shown:
        bits.u(sequence.presentation_bits)
    showable = kind != _KEY if shown else bool(bits.u(1))
    resets = kind == _SWITCH or (kind == _KEY and shown)
    error_resilient = resets or bool(bits.u(1))
    bits.u(1)  # disable_cdf_update
    tools = sequence.screen_content_tools
    if tools == _SELECT:
        tools = bits.u(1)
    if tools and sequence.integer_mv == _SELECT:
        bits.u(1)
    if kind != _SWITCH:
        bits.u(1)  # frame_size_override_flag
    bits.u(sequence.order_hint_bits)
    if kind not in (_KEY, _INTRA_ONLY) and not error_resilient:
        bits.u(3)  # primary_ref_frame
    if sequence.has_decoder_model and bits.u(1):
        for count in sequence.removal_bits:
            bits.u(count)
    refreshed = _ALL_SLOTS if resets else bits.u(8)
    slots: tuple[int, ...] = ()
    if kind in (_INTER, _SWITCH):
        # these frames' headers state what they expect in the slots, or let the slots' contents decide
        if sequence.order_hint_bits and (error_resilient or bits.u(1)):
            slots = tuple(range(_SLOTS))
        else:
            slots = tuple({bits.u(3) for _ in range(_REFERENCES)})
    return Av1Frame(shown, kind == _KEY, refreshed, slots, showable, None)


def units(data: memoryview) -> list[tuple[int, memoryview, int]]:
    """Return type and payload of each unit (OBU) of a packet, and where in the packet the unit ends.

    Raises
    ------
    NotProvable, InvalidBitstream
        The packet is not a sequence of units that state their size and belong to no layer.
    """
    found: list[tuple[int, memoryview, int]] = []
    position, end = 0, len(data)
    while position < end:
        header = data[position]
        position += 1
        if header & 0x81:
            raise InvalidBitstream("a reserved bit of a unit's header is set")
        if header & 4:
            raise NotProvable("the stream has layers")
        size = end - position
        if header & 2:
            size = 0
            for i in range(8):
                if position >= end:
                    raise InvalidBitstream("a unit's size ends early")
                byte = data[position]
                position += 1
                size |= (byte & 127) << 7 * i
                if byte < 128:
                    break
        if position + size > end:
            raise InvalidBitstream("a unit ends early")
        payload = data[position : position + size]
        position += size
        found.append((header >> 3, payload, position))
    return found


def with_frames(data: memoryview, frames: int) -> bytes:
    """Return a packet without some of its coded frames.

    Parameters
    ----------
    frames
        A bit for each coded frame that stays, the lowest for the first.
    """
    parts = []
    number, start = -1, 0
    for kind, _, end in units(data):
        number += kind in (_FRAME_HEADER, _FRAME)
        if kind not in (_FRAME_HEADER, _FRAME, _TILE_GROUP) or frames >> number & 1:
            parts.append(data[start:end])
        start = end
    return b"".join(parts)


class Av1Reader:
    """Reads pictures of AV1, each the only shown frame of its packet.

    Attributes
    ----------
    reorder, leading
        See :class:`tasks.media.bitstream.PictureReader`; frames are shown in the order of their packets.
    """

    reorder = 0
    leading = False

    def __init__(self, extradata: bytes, reorder: int) -> None:
        self._header = b""
        self._sequence: Sequence | None = None
        self._showable = 0  # a bit for each slot
        self._slots = [0] * _SLOTS  # number of the frame in each slot, counted from the key frame
        self._count = self._frames = 0  # pictures and frames since the key frame

    def read(self, data: memoryview) -> CodedPicture:
        """Return the picture's information from the packet."""
        frames: list[Av1Frame] = []
        needs: list[tuple[int, ...]] = []
        has_header = False
        for kind, payload, _ in units(data):
            if kind == _SEQUENCE_HEADER:
                header, has_header = bytes(payload), True
                if self._sequence is None:
                    self._header, self._sequence = header, parse_sequence(header)
                elif header != self._header:
                    raise NotProvable("the sequence header changes in mid-stream")
            elif kind in (_FRAME_HEADER, _FRAME):
                if self._sequence is None:
                    raise NotProvable("a frame before the sequence header")
                frames.append(parse_frame(bytes(payload[:_HEADER_BYTES]), self._sequence))
                needs.append(self._apply(frames[-1]))
            elif kind not in (_DELIMITER, _TILE_GROUP, _METADATA, _PADDING):
                raise NotProvable(f"unit type {kind}")
        if [frame.shown for frame in frames] != [False] * (len(frames) - 1) + [True]:
            raise NotProvable("a packet does not end with the only frame that it shows")
        if len(frames) > _MAX_FRAMES:
            raise NotProvable(f"a packet of {len(frames)} frames")
        key = frames[-1].key
        if key and len(frames) > 1:
            raise NotProvable("a key frame shares its packet")
        if key and not has_header:  # that of the container may be another
            raise NotProvable("a key frame without sequence header")
        self._count += 1
        return CodedPicture(key, key, self._count, tuple(needs))

    def _apply(self, frame: Av1Frame) -> tuple[int, ...]:
        """Put a frame into its slots and return the frames that it is decoded from."""
        if frame.key and not frame.shown:
            raise NotProvable("a key frame is decoded before it is shown")
        if frame.again is not None and not self._showable >> frame.again & 1:
            raise InvalidBitstream("a frame is shown that must not be shown again")
        if frame.key:
            self._frames = 0
        # even without a slot the decoder needs the sequence header, which comes with the key frame
        needs = () if frame.key else tuple({self._slots[slot] for slot in frame.slots} or {0})
        for slot in range(_SLOTS):
            if frame.refreshed >> slot & 1:
                self._slots[slot] = self._frames
        # A key frame that is shown again would reset all slots.
        self._showable &= ~frame.refreshed
        if frame.showable:
            self._showable |= frame.refreshed
        self._frames += 1
        return needs
