"""Which ids of a data set may be used as they are."""

from __future__ import annotations

import unicodedata

from storage_schemas.errors import Reason, SetAside
from storage_schemas.source import MAX_ID_LENGTH

# Controls, lone surrogates, line and paragraph separators: nothing that a person can read or type.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})

# They turn the direction of the text around them, so an id could look like another one on a page.
_DIRECTION_MARKS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

#: Hexadecimal digits of the content's checksum in an id that is made from it.
CONTENT_DIGITS = 20


def content_id(sha256: str) -> str:
    """Return the id of a source that has none of its own: the same wherever the file lies."""
    return f"v{sha256[:CONTENT_DIGITS]}"


def check_id(source_id: str, where: str) -> str:
    """Return `source_id` if it may name a source.

    Spaces, quotes, emoji and a leading hyphen are fine. Path separators, ``..``, a leading dot, control
    characters and marks that turn the direction of text are not.

    Parameters
    ----------
    source_id
        The id as the data set gives it.
    where
        The file that gives it, for the message.

    Raises
    ------
    SetAside
        `unsafe_id`, or `id_too_long` over `MAX_ID_LENGTH` characters.
    """
    shown = ascii(source_id[:80])
    if len(source_id) > MAX_ID_LENGTH:
        raise SetAside(
            Reason.ID_TOO_LONG,
            f"{where}: the id {shown}… has {len(source_id)} characters: shorten it to {MAX_ID_LENGTH}",
        )
    if not source_id.strip():
        problem = "is empty"
    elif "/" in source_id or "\\" in source_id:
        problem = "has a path separator in it"
    elif ".." in source_id or source_id.startswith("."):
        problem = "starts with a dot or has '..' in it"
    elif any(unicodedata.category(sign) in _UNSAFE_CATEGORIES for sign in source_id):
        problem = "has a control character in it"
    elif not _DIRECTION_MARKS.isdisjoint(source_id):
        problem = "has a mark in it that turns the direction of text"
    else:
        return source_id
    raise SetAside(Reason.UNSAFE_ID, f"{where}: the id {shown} {problem}: give the source another id")
