"""Predicates on parsed sentences, shared by the rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.captions.lexicon import (
    ABSTRACT,
    ANIMALS,
    BODY_PARTS,
    CAMERA_MOVES,
    CAMERA_WORDS,
    COLORS,
    FRAME_WORDS,
    MEN,
    PEOPLE,
    POSITION_WORDS,
    PRONOUNS,
    QUANTITIES,
    VERB_FORMS,
    WOMEN,
)

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

_SUBJECTS = frozenset({"nsubj", "nsubjpass"})
_NOUNS = frozenset({"NOUN", "PROPN"})
_PARTS_OF_NAME = frozenset({"compound", "amod", "nummod", "nmod"})
_CLAUSE_ENDS = frozenset({"as", "while", "until", "when", "where", "before", "after", "and", ";", ":", "but"})

# Singular nouns that end like a plural.
_SINGULAR_IN_S = frozenset(
    {"series", "means", "species", "headquarters", "crossroads", "barracks", "lens", "shorts"}
)

# Parses of hostile text may be a thousand levels deep, unlike any real sentence.
_DEEPEST = 12


def is_noun(token: Token) -> bool:
    """Return whether the token is a noun that is not a colour, a position or a word for the picture."""
    word = token.lower_
    return (
        token.pos_ in _NOUNS
        and not is_joined_verb(token)
        and not (word in VERB_FORMS and any(child.dep_ == "nsubj" for child in token.lefts))
        and word[:1].isalpha()
        and len(word) > 1
        and word not in COLORS
        and word not in FRAME_WORDS
        and word not in POSITION_WORDS
    )


def is_joined_verb(token: Token) -> bool:
    """Return whether this is a verb after "and" parsed as a noun ("climbs up and sneers")."""
    if token.tag_ not in {"NNS", "NNPS"} or token.lower_ not in VERB_FORMS or token.n_lefts:
        return False
    if token.lower_ in {"leaves", "flies"}:
        return False
    return bool(
        token.i > token.sent.start
        and token.nbor(-1).lower_ in {"and", ",", "then", "it", "he", "she", "who", "which"}
    )


def is_thing(token: Token) -> bool:
    """Return whether the token names something that can be seen and pointed at."""
    word = token.lower_
    return (
        is_noun(token)
        and word not in ABSTRACT
        and not word.endswith(("ness", "tion", "sion", "ism", "ship", "ance", "ence", "ity", "ment"))
    )


def is_person(token: Token) -> bool:
    """Return whether the token names a person."""
    return token.lower_ in PEOPLE and token.lower_ not in ANIMALS


def person_word(token: Token) -> str:
    """Return man, woman or person for a token that names one."""
    word = token.lower_
    if word in PRONOUNS:
        return PRONOUNS[word]
    return "man" if word in MEN else "woman" if word in WOMEN else "person"


def name_of(token: Token) -> str:
    """Return the noun with its compound nouns, in lower case ("apple tree")."""
    first = token.i
    while first > token.sent.start:
        before = token.doc[first - 1]
        if before.dep_ != "compound" or before.head.i < first or not is_noun(before):
            break
        first -= 1
    return " ".join(word.lower_ for word in token.doc[first : token.i + 1])


def phrase_of(token: Token) -> str:
    """Return the noun with its adjectives, numbers and compound nouns, without articles, in lower case.

    It is a contiguous span of the caption, so hyphens are kept ("snow-covered peaks").
    """
    first = token.i
    for child in token.lefts:
        if child.dep_ in _PARTS_OF_NAME and child.left_edge.i < first:
            first = child.left_edge.i
    span = token.doc[first : token.i + 1]
    while len(span) > 1 and (span[0].pos_ in {"DET", "PRON", "PUNCT", "CCONJ"} or span[0].tag_ == "POS"):
        span = span[1:]
    return str(span.text).lower()


def with_conjuncts(token: Token) -> list[Token]:
    """Return the token and its conjuncts."""
    tokens = [token]
    for index in range(_DEEPEST):
        if index == len(tokens):
            break
        tokens += [child for child in tokens[index].rights if child.dep_ in {"conj", "appos"}]
    return tokens


def verb_after_noun(token: Token) -> Token | None:
    """Return the noun before a verb parsed as a noun ("the rabbit hovers"), else ``None``."""
    before = token.nbor(-1) if token.i > token.sent.start else None
    if before is None or before.dep_ != "compound" or before.head.i != token.i:
        return None
    if token.tag_ in {"NNS", "NNPS"}:
        # "A chef slices": no plural can follow this article.
        if any(child.lower_ in {"a", "an", "each", "another"} for child in token.lefts):
            return None if token.lower_ in _SINGULAR_IN_S else before
        return before if token.lower_ in VERB_FORMS and before.lower_ in ANIMALS | PEOPLE else None
    if token.lower_ not in VERB_FORMS:
        return None
    return before if token.pos_ == "VERB" or (token.tag_ == "NN" and before.tag_ == "NNS") else None


def meant_noun(token: Token) -> Token:
    """Return the noun referred to: for "a row of trees", the trees."""
    token = verb_after_noun(token) or token
    if token.lower_ not in QUANTITIES:
        return token
    for child in token.rights:
        if child.dep_ == "prep" and child.lower_ == "of":
            for noun in child.rights:
                if noun.dep_ == "pobj":
                    return noun
    return token


def subjects_of(verb: Token) -> list[Token]:
    """Return the subjects of a verb, or of its governing verb if it has none."""
    token = verb
    for _ in range(_DEEPEST):
        own = [child for child in token.children if child.dep_ in _SUBJECTS]
        # "In the background stands a tree": the subject follows, and is often taken for an object.
        if not own and any(child.dep_ == "expl" for child in token.children):
            own = [child for child in token.rights if child.dep_ in {"attr", "dobj"}]
        taken_for_name = verb_after_noun(token)
        if not own and taken_for_name is not None:
            return with_conjuncts(taken_for_name)
        if own:
            named = [_antecedent(subject, verb) for subject in own]
            return [noun for subject in named if subject is not None for noun in with_conjuncts(subject)]
        if token.dep_ in {"acl", "relcl"}:
            return [token.head]
        if (
            token.dep_ not in {"conj", "xcomp", "advcl", "ccomp", "aux", "pcomp", "prep"}
            or token.head is token
        ):
            return []
        token = token.head
    return []


def _antecedent(token: Token, verb: Token) -> Token | None:
    """Resolve a pronoun to the last matching subject before it; return other tokens unchanged."""
    word = token.lower_
    if word in {"which", "that", "who"}:
        return verb.head if verb.dep_ == "relcl" else None
    if token.pos_ != "PRON" or word not in {"it", "they", "he", "she"}:
        return token if token.pos_ != "PRON" or word in PRONOUNS else None
    earlier = token.doc[max(0, token.i - 60) : token.i]
    if word in {"he", "she"}:
        right = WOMEN if word == "she" else MEN
        fits = [noun for noun in earlier if noun.lower_ in right or noun.lower_ in PEOPLE - MEN - WOMEN]
        if not fits:
            fits = [noun for noun in earlier if noun.lower_ in ANIMALS and noun.dep_ in _SUBJECTS]
        return fits[-1] if fits else token
    fits = [
        noun for noun in earlier if noun.dep_ in _SUBJECTS and is_noun(noun) and noun.lower_ not in BODY_PARTS
    ]
    return fits[-1] if fits else None


def is_negated(token: Token) -> bool:
    """Return whether the token is negated or only possible."""
    return any(
        child.dep_ == "neg"
        or child.lower_ in {"no", "not", "never", "neither"}
        or (
            child.dep_ == "aux"
            and child.lower_ in {"could", "would", "might", "may", "can", "should", "will"}
        )
        for child in token.children
    ) or (token.dep_ in {"pobj", "pcomp"} and token.head.lower_ == "without")


def camera_tokens(sentence: Span) -> set[int]:
    """Return the indices of tokens that describe camera movement, up to the next clause."""
    indices: set[int] = set()
    for token in sentence:
        if token.lower_ not in CAMERA_WORDS or token.dep_ in {"pobj", "dobj"}:
            continue
        after = sentence.doc[token.i + 1 : min(token.i + 5, sentence.end)]
        if token.lower_ != "camera" and not any(word.lower_ in CAMERA_MOVES for word in after):
            continue
        for word in sentence.doc[token.i : sentence.end]:
            # "moves, revealing a …" and "pans to show …" describe the picture again.
            if word.i > token.i and (
                word.lower_ in _CLAUSE_ENDS or word.lower_.startswith(("reveal", "show"))
            ):
                break
            indices.add(word.i)
    return indices


def ancestors_of(token: Token) -> Iterator[Token]:
    """Yield the tokens above a token, nearest first."""
    for _ in range(_DEEPEST):
        if token.head is token:
            return
        token = token.head
        yield token
