"""What pages say and do not say."""

from __future__ import annotations


def lacks(text: str, *parts: str) -> list[str]:
    """Return the parts that a text lacks."""
    return [part for part in parts if part not in text]


def has(text: str, *parts: str) -> list[str]:
    """Return the parts that a text has."""
    return [part for part in parts if part in text]
