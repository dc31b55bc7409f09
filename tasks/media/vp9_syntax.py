"""The part of VP9's syntax (bitstream specification, 6.2 and annex B) that tells where decoding can begin.

A frame of VP9 depends on more than its references: on four sets of probabilities, the loop filter's deltas,
the map and the features of the segmentation, and the motion vectors of the frame before it. A shown key frame
resets all of these and replaces all references. So packets are left out only at the end of a section from one
such key frame to the next; every other packet counts as one on which the next depends.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.media.bitstream import Bits, CodedPicture, InvalidBitstream, NotProvable

_HEADER_BYTES = 16  # more than a frame header needs up to the frame size
_SYNC_CODE = 0x498342
_RGB = 7


@dataclass(frozen=True, slots=True)
class Vp9Frame:
    """The required fields of a frame's header.

    ``format`` is profile, depth flag, colours, subsampling and size of a key frame; None for other frames.
    """

    shown: bool
    key: bool
    format: tuple[int, ...] | None


def frame_sizes(data: memoryview) -> list[int]:
    """Return the bytes of each frame in a packet, one if it is not a superframe.

    Raises
    ------
    InvalidBitstream
        The sizes in the index at the packet's end do not add up.
    """
    last = data[-1]
    if last & 0xE0 == 0xC0:
        count, width = (last & 7) + 1, (last >> 3 & 3) + 1
        index = 2 + count * width
        if len(data) >= index and data[-index] == last:
            start = len(data) - index
            offsets = range(start + 1, start + 1 + count * width, width)
            sizes = [int.from_bytes(data[index : index + width], "little") for index in offsets]
            if not all(sizes) or sum(sizes) != start:
                raise InvalidBitstream("the index of a superframe does not add up")
            return sizes
    return [len(data)]


def parse_frame(head: bytes) -> Vp9Frame:
    """Read the first bytes of a frame."""
    bits = Bits(head)
    if bits.u(2) != 2:
        raise InvalidBitstream("no frame marker")
    profile = bits.u(1) + 2 * bits.u(1)
    if profile == 3 and bits.u(1):
        raise InvalidBitstream("a reserved profile")
    if bits.u(1):  # show_existing_frame
        return Vp9Frame(True, False, None)
    key, shown = not bits.u(1), bool(bits.u(1))
    bits.u(1)  # error_resilient_mode
    if not key:
        return Vp9Frame(shown, False, None)
    if bits.u(24) != _SYNC_CODE:
        raise InvalidBitstream("a key frame without sync code")
    depth = bits.u(1) if profile >= 2 else 0
    colours = bits.u(3)
    layout = 0 if colours == _RGB else bits.u(1)  # colour range
    if profile & 1:
        layout = layout << 3 | bits.u(1 if colours == _RGB else 3)  # subsampling
    return Vp9Frame(shown, True, (profile, depth, colours, layout, bits.u(16), bits.u(16)))


class Vp9Reader:
    """Reads pictures of VP9, each the one frame of its packet that is shown.

    Attributes
    ----------
    reorder, leading
        See :class:`tasks.media.bitstream.PictureReader`; frames are shown in the order of their packets.
    """

    reorder = 0
    leading = False

    def __init__(self, extradata: bytes, reorder: int) -> None:
        self._format: tuple[int, ...] | None = None
        self._count = 0

    def read(self, data: memoryview) -> CodedPicture:
        """Return the picture's information from the packet."""
        frames = []
        position = 0
        for size in frame_sizes(data):
            frames.append(parse_frame(bytes(data[position : position + min(size, _HEADER_BYTES)])))
            position += size
        if [frame.shown for frame in frames] != [False] * (len(frames) - 1) + [True]:
            raise NotProvable("a packet does not end with the only frame that it shows")
        key = frames[-1].key
        if any(frame.key for frame in frames[:-1]) or (key and len(frames) > 1):
            raise NotProvable("a key frame shares its packet")
        if key:
            if self._format not in (None, frames[-1].format):
                raise NotProvable("size or pixel format changes at a key frame")
            self._format = frames[-1].format
        self._count = 0 if key else self._count + 1
        # the packet before it stands for all up to the key frame
        return CodedPicture(key, key, self._count, ((self._count - 1,) if self._count else (),))
