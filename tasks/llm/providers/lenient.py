"""Read responses leniently: a side field of another type than documented does not cost a paid answer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

#: More tokens than any request has; a greater count is a server error.
_MAX_TOKENS = 100_000_000


def json_of(body: str | bytes) -> Any:
    """Return the JSON value of a body; None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def at(value: Any, *path: str) -> Any:
    """Return what a path of keys leads to; None if there is nothing.

    Examples
    --------
    >>> at({"a": {"b": 3}}, "a", "b"), at({"a": []}, "a", "b")
    (3, None)
    """
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: Any, *path: str) -> str:
    """Return the text that a path leads to; empty if there is another value, or nothing."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def list_at(value: Any, *path: str) -> list[Any]:
    """Return the list that a path leads to; empty if there is another value, or nothing."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def count_at(value: Any, *path: str) -> int | None:
    """Return the number of tokens that a path leads to; None for an impossible value.

    Examples
    --------
    >>> [count_at({"n": n}, "n") for n in (7, 10.5, -1, True, "7", 1e30)]
    [7, 11, None, None, None, None]
    """
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= _MAX_TOKENS:
        return None
    return math.ceil(found)


def added(*counts: int | None) -> int | None:
    """Return the sum of counts; None if the first is unknown."""
    return None if counts[0] is None else sum(count or 0 for count in counts)


def joined(content: Any, kinds: Iterable[str] = ("text", "output_text")) -> str:
    """Return a content that is a text or a list of parts as one text; other values as JSON.

    Parameters
    ----------
    kinds
        Types of the parts that are joined.

    Examples
    --------
    >>> joined([{"type": "text", "text": "a"}, {"type": "image"}, "b"]), joined({"a": 1}), joined(None)
    ('ab', '{"a": 1}', '')
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else json.dumps(content, ensure_ascii=False)
    wanted = set(kinds)
    return "".join(
        part if isinstance(part, str) else text_at(part, "text")
        for part in content
        if isinstance(part, str) or at(part, "type") in wanted
    )
