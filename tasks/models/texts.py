"""Texts that must fit a model's limit."""

from __future__ import annotations

import re
from collections.abc import Callable


def fitting_words(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest prefix of a text that fits, cut between words.

    Parameters
    ----------
    text
        Words separated by white space, which becomes single spaces if the text is cut.
    fits
        Whether a prefix fits; it must be monotonic in the length.

    Returns
    -------
    str
        `text` itself if it fits; a prefix of the first word if even that does not.
    """
    if fits(text):
        return text
    words = text.split()
    fitting = _longest(len(words), lambda count: fits(" ".join(words[:count])))
    if fitting:
        return " ".join(words[:fitting])
    first = words[0] if words else ""
    return first[: _longest(len(first), lambda count: fits(first[:count]))]


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest count up to `most` that fits; 0 always fits."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def has_words(text: str) -> bool:
    """Return whether a text has any letter or digit."""
    return re.search(r"[^\W_]", text) is not None
