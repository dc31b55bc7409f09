"""Which colour the caption gives to which thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage_schemas.analysis import ColoredObject
from tasks.captions.grammar import is_negated, is_noun, meant_noun, name_of, subjects_of, with_conjuncts
from tasks.captions.lexicon import COLORS, NO_COLOR, words

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

_BECOME = words(
    "is are was were be turns turn turned turning becomes become painted dyed colored coloured looks appears"
)


_SHADES = frozenset({"navy", "golden", "silver"})


def colored_objects(sentence: Span) -> list[ColoredObject]:
    """Return the colours of a sentence with their things.

    Only the name of the colour is kept ("dark red" is red). A thing with two colours gives two entries, so
    that whoever needs one colour can leave it out.
    """
    found = []
    for token in sentence:
        if token.lower_ not in COLORS or is_negated(token):
            continue
        if token.lower_ in _SHADES and token.i + 1 < sentence.end and token.nbor().lower_ in COLORS:
            continue  # "navy blue" is one colour, blue
        for thing in _things_of(token):
            name = name_of(thing)
            if f"{token.lower_} {name}" not in NO_COLOR and not is_negated(thing):
                found.append(ColoredObject(color=token.lower_, object=name))
    return found


def _things_of(color: Token) -> list[Token]:
    head = color
    # "black and white bird", "blue-green bushes": climb from colour to colour to the noun.
    for _ in range(4):
        if head.dep_ not in {"amod", "compound", "nmod", "conj", "npadvmod", "appos"} or head.head is head:
            break
        if head.dep_ == "conj" and head.head.lower_ not in COLORS:
            break
        head = head.head
        if head.lower_ not in COLORS:
            # "dark blue night sky": the sky is blue, not the night.
            if head.dep_ == "compound" and head.head.lower_ not in COLORS and is_noun(head.head):
                head = head.head
            noun = meant_noun(head)
            return [noun] if is_noun(noun) and _is_before(color, noun) else []
    if head.dep_ in {"acomp", "attr", "oprd"} and head.head.lower_ in _BECOME:
        return [
            noun for subject in subjects_of(head.head) for noun in with_conjuncts(subject) if is_noun(noun)
        ]
    return []


def _is_before(color: Token, noun: Token) -> bool:
    """Return whether the colour stands before its noun, where English has it."""
    return bool(color.i < noun.i)
