"""The first of many items in a message, and the number of the others."""

from __future__ import annotations

from collections.abc import Sequence


def first_names(names: Sequence[str], most: int) -> str:
    """Return the first names as text.

    Examples
    --------
    >>> first_names(["a", "b", "c"], 2), first_names(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def first_lines(lines: Sequence[str], most: int, see: str = "") -> list[str]:
    """Return the first lines, and one about the others; `see` says how to show all.

    Examples
    --------
    >>> first_lines(["a", "b", "c"], 1, "--format json")
    ['a', '… and 2 more: see --format json']
    """
    if len(lines) <= most:
        return list(lines)
    return [*lines[:most], f"… and {len(lines) - most} more" + (f": see {see}" if see else "")]
