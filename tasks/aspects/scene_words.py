"""What a caption says of a scene, without one of the things in it."""

from __future__ import annotations

import re

from storage_schemas.analysis import CaptionAnalysis

#: Words that two phrases may share without speaking of the same thing.
_EMPTY = frozenset(
    "an the of in on at to by for from with and or near into onto over under his her its their our my your "
    "this that these those some any".split()
)
_IRREGULAR = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "mice": "mouse",
    "leaves": "leaf",
    "knives": "knife",
    "wolves": "wolf",
}


def content_words(text: str) -> frozenset[str]:
    """Return the words of a phrase that mean something, in small letters, the same for one and for many."""
    words = re.findall(r"[^\W_]+", text.casefold())
    # a single Latin letter is an article or what an apostrophe leaves over
    meant = (word for word in words if word not in _EMPTY and not re.fullmatch("[a-z]", word))
    return frozenset(map(_stem, meant))


def _stem(word: str) -> str:
    """Return what a noun's singular and plural have in common: ``hors`` of horse and horses."""
    word = _IRREGULAR.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def share_a_word(one: str, other: str) -> bool:
    """Return whether two phrases have a content word in common.

    Of scripts that are written without spaces a "word" is a whole phrase: there one may contain the other.
    """
    return any(
        first == second or (not (first + second).isascii() and (first in second or second in first))
        for first in content_words(one)
        for second in content_words(other)
    )


def scene_without(analysis: CaptionAnalysis, thing: str) -> tuple[str, ...]:
    """Return the phrases of the background and the scene, each once, that do not speak of the thing.

    Other subjects are left out: what a prompt names is painted into the gap.
    """
    once: dict[str, str] = {}
    for phrase in (*analysis.background, *analysis.scene):
        words = " ".join(phrase.split())
        if words and not share_a_word(words, thing):
            once.setdefault(words.casefold(), words)
    return tuple(once.values())
