"""Text that a terminal, a log and a file can show: file names may contain any character."""

from __future__ import annotations

import unicodedata

#: Categories of control characters, lone surrogates, line and paragraph separators.
UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})

#: These change the text direction, so that a text could look like another one.
DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str, keep: str = "") -> str:
    """Return `text` with characters that control a terminal, or that a file cannot contain, as escapes.

    These are control characters, line separators, changes of the writing direction, and lone surrogates (from
    names that are not UTF-8), but not the characters in `keep`.

    Examples
    --------
    >>> printable("a\\x1b[31mred")
    'a\\\\x1b[31mred'
    """
    if text.isprintable():
        return text
    return "".join(
        sign.encode("unicode_escape").decode("ascii") if sign not in keep and _is_unsafe(sign) else sign
        for sign in text
    )


def printable_value(value: object) -> object:
    """Return a value as a page may show it: plain text becomes :func:`printable`, keeping its lines."""
    # markup was generated from texts that are already printable
    return printable(value, keep="\n\r\t") if type(value) is str else value


def printable_json(text: str) -> str:
    """Return JSON with such characters as JSON escapes, which leaves its values unchanged."""
    if text.isprintable():
        return text
    return "".join(f"\\u{ord(sign):04x}" if sign != "\n" and _is_unsafe(sign) else sign for sign in text)


def _is_unsafe(sign: str) -> bool:
    return unicodedata.category(sign) in UNSAFE_CATEGORIES or sign in DIRECTION_MARKS
