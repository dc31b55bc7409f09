"""Background, scenes (places) and subjects (things)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tasks.captions.grammar import (
    ancestors_of,
    camera_tokens,
    is_negated,
    is_noun,
    is_person,
    is_thing,
    meant_noun,
    name_of,
    phrase_of,
    subjects_of,
    with_conjuncts,
)
from tasks.captions.lexicon import ABSTRACT, ANIMALS, BODY_PARTS, CONTACT, SCENES, STAY, VERB_FORMS, words

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

_BACK = frozenset({"background", "backdrop"})
_FILLS = words(
    "fills fill filling forms form forming dominates dominate frames serves serve occupies occupy "
    "covers cover"
)
_ROLES = frozenset({"nsubj", "nsubjpass", "dobj", "attr", "conj", "appos", "ROOT", "agent", "oprd"})


def backgrounds(sentence: Span) -> list[Token]:
    """Return the heads of what a sentence places in the background, behind, or before as a backdrop."""
    found: list[Token] = []
    for token in sentence:
        word = token.lower_
        if word in _BACK and not is_negated(token):
            found += _of_background(token)
        elif word == "back" and token.dep_ == "pobj" and token.head.lower_ == "in" and _plain(token):
            found += _placed(token.head)
        elif word == "against" and token.dep_ == "prep" and token.head.lower_ not in CONTACT:
            found += [noun for noun in _objects(token) if noun.lower_ not in _BACK and not is_person(noun)]
        elif word == "behind" and token.dep_ in {"prep", "advmod"} and not _moves(token):
            found += [noun for noun in _placed(token) if not _is_alive(noun)]
    if not found and sentence[:3].text.lower() == "in the background":
        # Where the parse failed, the first thing named is there.
        found = [token for token in sentence[3:] if token.dep_ in _ROLES and is_thing(token)][:1]
    return [noun for noun in _nouns(found) if not is_negated(noun)]


def _of_background(token: Token) -> list[Token]:
    """Return what one mention of the word background says."""
    if token.dep_ in {"compound", "nmod"}:
        # "In the background sunbeams fall", read as one name; "background music" is none of this.
        before = token.nbor(-2).lower_ if token.i >= token.sent.start + 2 else ""
        if before == "in" and token.head.lower_ in VERB_FORMS:
            return _placed(token.nbor(-2))
        a_thing = is_thing(token.head)
        return with_conjuncts(token.head) if before == "in" and a_thing else []
    of = [child for child in token.rights if child.dep_ == "prep" and child.lower_ in {"of", "with"}]
    named = [noun for preposition in of for noun in _objects(preposition)]
    if token.dep_ == "pobj" and token.head.lower_ in {"in", "into", "at"}:
        return _placed(token.head) + named
    if token.dep_ in {"dobj", "attr", "pobj"}:
        verb = next(ancestors_of(token), token)
        verb = verb if verb.pos_ in {"VERB", "AUX"} else verb.head
        filled = subjects_of(verb) if verb.lower_ in _FILLS or verb.pos_ == "AUX" else []
        return [*filled, *named, *_described(token)]
    if token.dep_ in {"nsubj", "nsubjpass"}:
        # "The background shows hills", "the background is blurred"
        verb = token.head
        shown = [
            noun for child in verb.rights if child.dep_ in {"dobj", "attr"} for noun in with_conjuncts(child)
        ]
        shown += [noun for child in verb.rights if child.lower_ in {"with", "by"} for noun in _objects(child)]
        said = any(child.dep_ in {"acomp", "oprd"} for child in verb.rights)
        said = said or (not shown and token.dep_ == "nsubjpass")
        return [*shown, *named, *([token] if said else _described(token))]
    return named or _described(token)


def _described(token: Token) -> list[Token]:
    """Return the word background itself where it has an adjective ("a plain grey background")."""
    return [token] if any(child.dep_ in {"amod", "compound"} for child in token.lefts) else []


def _plain(token: Token) -> bool:
    return not any(child.dep_ == "prep" for child in token.rights)


def _objects(preposition: Token) -> list[Token]:
    return [noun for child in preposition.rights if child.dep_ == "pobj" for noun in with_conjuncts(child)]


def _placed(preposition: Token) -> list[Token]:
    """Return what is where a preposition says, with all that "and" joins to it."""
    # "A man stands before a fence with hills and trees in the background"
    before = preposition.nbor(-1) if preposition.i > preposition.sent.start else preposition
    while before.dep_ == "conj" and before.head.i < before.i:
        before = before.head
    if before.dep_ == "pobj" and before.head.lower_ == "with":
        return with_conjuncts(before)
    head = preposition.head
    if head.pos_ in {"NOUN", "PROPN"}:
        return with_conjuncts(head)
    verb = (
        head
        if head.pos_ in {"VERB", "AUX"}
        else next((one for one in ancestors_of(preposition) if one.pos_ in {"VERB", "AUX"}), None)
    )
    if verb is None:
        return []
    expletive = any(child.dep_ == "expl" for child in verb.children)
    after = [child for child in verb.rights if child.dep_ in {"attr", "dobj", "nsubj"}]
    if expletive or not subjects_of(verb):
        return [noun for child in after for noun in with_conjuncts(child)]
    return subjects_of(verb)


def _moves(preposition: Token) -> bool:
    verb = preposition.head
    return verb.pos_ == "VERB" and verb.lower_ not in STAY


def _is_alive(noun: Token) -> bool:
    return is_person(noun) or noun.lower_ in ANIMALS or noun.lower_ in BODY_PARTS


def _nouns(tokens: Iterable[Token]) -> list[Token]:
    named = [meant_noun(token) for token in tokens]
    return [
        token for token in named if token.lower_ in _BACK or (is_noun(token) and token.lower_ not in ABSTRACT)
    ]


def background_texts(heads: Iterable[Token]) -> list[str]:
    """Return background elements as phrases of the caption."""
    # "In the background thin clouds drift" may be read as one name.
    return [phrase_of(head).removeprefix("background ") for head in heads]


def scenes(sentence: Span) -> list[str]:
    """Return the places that a sentence names, with their adjectives."""
    return [
        phrase_of(token)
        for token in sentence
        if token.lower_ in SCENES
        and token.pos_ in {"NOUN", "PROPN"}
        and token.dep_ not in {"compound", "amod", "npadvmod"}
        and not is_negated(token)
    ]


def subjects(sentence: Span, background: Iterable[Token]) -> list[str]:
    """Return the things that a sentence is about: no places, nothing of the background."""
    left_out = {token.i for token in background} | camera_tokens(sentence)
    found = []
    for token in sentence:
        noun = meant_noun(token)
        plays_a_part = token.dep_ in _ROLES or (token.dep_ == "pobj" and token.head.lower_ in _PARTAKING)
        if (
            plays_a_part
            and noun.i not in left_out
            and is_thing(noun)
            and noun.lower_ not in SCENES
            and noun.lower_ not in BODY_PARTS
            and not is_negated(noun)
        ):
            found.append(name_of(noun))
    return found


#: After these a noun is a thing of the scene; "across the lawn" only says where.
_PARTAKING = words("with of by on behind under beside above")
