"""Byte ranges of one file, as RFC 9110 (section 14) has them; nothing here knows of videos."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Longer numbers are beyond any file.
_MOST_DIGITS = 18

_ONE = re.compile(r"[ \t]*([0-9]*)-([0-9]*)[ \t]*")


@dataclass(frozen=True)
class ByteRange:
    """Bytes `first` to `last`, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.last - self.first + 1


class Unsatisfiable(Exception):
    """The file has no byte of the range that was asked for: answer 416."""


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """Return the bytes that a ``Range`` header asks for; None is the whole file.

    A header that is not understood is passed over, as the RFC allows: another unit, several ranges, a range
    that ends before it begins.

    Parameters
    ----------
    header
        The header's value, or None.
    size
        Bytes of the file.

    Raises
    ------
    Unsatisfiable
        If the range is understood and lies outside the file.
    """
    unit, _, asked = (header or "").partition("=")
    found = _ONE.fullmatch(asked)
    if unit.strip().lower() != "bytes" or found is None or found.groups() == ("", ""):
        return None
    first_text, last_text = found.groups()
    if not first_text:
        return _suffix(_number(last_text), size)
    first = _number(first_text)
    last = _number(last_text) if last_text else size - 1
    if last_text and last < first:
        return None
    if first >= size:
        raise Unsatisfiable
    return ByteRange(first, min(last, size - 1))


def _suffix(length: int, size: int) -> ByteRange:
    if not length or not size:
        raise Unsatisfiable
    return ByteRange(max(0, size - length), size - 1)


def _number(text: str) -> int:
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def unchanged(if_none_match: str | None, etag: str) -> bool:
    """Return whether the client has this very content (``If-None-Match``, weak comparison): answer 304."""
    if if_none_match is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in tags or etag in tags


def range_counts(if_range: str | None, etag: str) -> bool:
    """Return whether ``Range`` counts: without ``If-Range``, or where that is this very tag (strong).

    We send no date, so one that is sent to us is not ours.
    """
    return if_range is None or if_range.strip() == etag
