"""Counts with their nouns, for messages."""

from __future__ import annotations


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> count_text(1, "source"), count_text(2, "source"), count_text(0, "source or pair")
    ('1 source', '2 sources', '0 sources or pairs')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun.replace(' or ', 's or ')}s"
