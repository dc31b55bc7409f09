"""Texts that must fit into a model."""

from __future__ import annotations

import re
from collections.abc import Callable


def fitting_words(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest beginning of a text that fits, cut between words.

    Parameters
    ----------
    text
        Words with white space between them; runs of it become single spaces where the text is cut.
    fits
        Whether a beginning of it fits: a longer one must not fit where a shorter one does not.

    Returns
    -------
    str
        `text` itself if it fits. Where not even the first word does, the beginning of that word.
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
    """Return the largest count up to `most` that fits; 0 fits always."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def has_words(text: str) -> bool:
    """Return whether there is any letter or digit in a text."""
    return re.search(r"[^\W_]", text) is not None
