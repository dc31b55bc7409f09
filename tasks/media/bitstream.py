"""Shared by the syntaxes of all codecs: bits, and a picture's information in the headers of its packet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class InvalidBitstream(Exception):
    """The bytes are not syntax supported here."""


class NotProvable(Exception):
    """A condition of the proof does not hold; the message names it."""


class Bits:
    """Reads bits, most significant first, from bytes without emulation prevention."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._size = self._left = 8 * len(data)

    @property
    def position(self) -> int:
        """Number of bits read so far."""
        return self._size - self._left

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


def sei_types(sei: bytes) -> set[int]:
    """Return the payload types of the messages in an SEI unit's payload (without header bytes)."""
    data = unescape(sei)
    types = set()
    position = 0
    while position + 2 <= len(data) and data[position] != 0x80:
        numbers = []
        for _ in range(2):
            number = 0
            while position < len(data) and data[position] == 255:
                number, position = number + 255, position + 1
            if position >= len(data):
                raise InvalidBitstream("an SEI message ends early")
            numbers.append(number + data[position])
            position += 1
        types.add(numbers[0])
        position += numbers[1]
    return types


def next_msb(lsb: int, previous_msb: int, previous_lsb: int, log2_limit: int) -> int:
    """Return the upper part of an order count whose lower part wraps (H.264, 8.2.1; H.265, 8.3.1)."""
    limit = 1 << log2_limit
    if lsb < previous_lsb and previous_lsb - lsb >= limit // 2:
        return previous_msb + limit
    if lsb > previous_lsb and lsb - previous_lsb > limit // 2:
        return previous_msb - limit
    return previous_msb


@dataclass(frozen=True, slots=True)
class CodedPicture:
    """The picture that a packet shows, and what decoding needs of this packet and of others.

    Attributes
    ----------
    entry
        Whether neither it nor any later packet depends on an earlier one, in decode or display order.
    key
        Whether containers mark it as a key frame; every entry is a key frame.
    order
        Its position in display order, counted from the entry.
    needs
        For each coded frame of the packet, the frames without which it is decoded otherwise, by their number
        from the entry on. The last frame is the one that is shown, those before it are hidden.
    """

    entry: bool
    key: bool
    order: int
    needs: tuple[tuple[int, ...], ...]


class PictureReader(Protocol):
    """Reads the packets of one stream in decode order.

    Attributes
    ----------
    reorder
        How many pictures the decoder holds back to reorder them for display.
    leading
        Whether pictures that follow a key frame may be shown before it, if it is not an entry.
    """

    reorder: int
    leading: bool

    def read(self, data: memoryview) -> CodedPicture:
        """Return the picture's information from the packet.

        Raises
        ------
        NotProvable, InvalidBitstream
            The packet is not of the kind for which the flags are known to hold.
        """
