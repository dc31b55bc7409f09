"""Extract a caption's entities by rules: background, scenes, subjects, their colours and positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from storage_schemas.analysis import ColoredObject, LocatedObject
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
from tasks.captions.lexicon import (
    ABSTRACT,
    ANIMALS,
    BODY_PARTS,
    COLORS,
    CONTACT,
    FRAME_WORDS,
    MOTION,
    NO_COLOR,
    POSITION_WORDS,
    SCENES,
    STAY,
    VERB_FORMS,
    words,
)

if TYPE_CHECKING:
    from spacy.tokens import Span, Token


_BACK = frozenset({"background", "backdrop"})
_FILLS = words(
    "fills fill filling forms form forming dominates dominate frames serves serve occupies occupy "
    "covers cover"
)
_ROLES = frozenset({"nsubj", "nsubjpass", "dobj", "attr", "conj", "appos", "ROOT", "agent", "oprd"})


def backgrounds(sentence: Span) -> list[Token]:
    """Return the head nouns a sentence places in the background, behind something, or as a backdrop."""
    nouns: list[Token] = []
    for token in sentence:
        word = token.lower_
        if word in _BACK and not is_negated(token):
            nouns += _of_background(token)
        elif word == "back" and token.dep_ == "pobj" and token.head.lower_ == "in" and _plain(token):
            nouns += _placed(token.head)
        elif word == "against" and token.dep_ == "prep" and token.head.lower_ not in CONTACT:
            nouns += [noun for noun in _objects(token) if noun.lower_ not in _BACK and not is_person(noun)]
        elif word == "behind" and token.dep_ in {"prep", "advmod"} and not _moves(token):
            nouns += [noun for noun in _placed(token) if not _is_alive(noun)]
    if not nouns and sentence[:3].text.lower() == "in the background":
        # If the parse failed, take the first thing named.
        nouns = [token for token in sentence[3:] if token.dep_ in _ROLES and is_thing(token)][:1]
    return [noun for noun in _nouns(nouns) if not is_negated(noun)]


def _of_background(token: Token) -> list[Token]:
    """Return the nouns that one mention of the word "background" refers to."""
    if token.dep_ in {"compound", "nmod"}:
        # "In the background sunbeams fall" parsed as one name; "background music" does not count.
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
        predicated = any(child.dep_ in {"acomp", "oprd"} for child in verb.rights)
        predicated = predicated or (not shown and token.dep_ == "nsubjpass")
        return [*shown, *named, *([token] if predicated else _described(token))]
    return named or _described(token)


def _described(token: Token) -> list[Token]:
    """Return the word "background" itself if it has an adjective ("a plain grey background")."""
    return [token] if any(child.dep_ in {"amod", "compound"} for child in token.lefts) else []


def _plain(token: Token) -> bool:
    return not any(child.dep_ == "prep" for child in token.rights)


def _objects(preposition: Token) -> list[Token]:
    return [noun for child in preposition.rights if child.dep_ == "pobj" for noun in with_conjuncts(child)]


def _placed(preposition: Token) -> list[Token]:
    """Return the nouns located by a preposition, with their conjuncts."""
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
    # "In the background thin clouds drift" may be parsed as one name.
    return [phrase_of(head).removeprefix("background ") for head in heads]


def scenes(sentence: Span) -> list[str]:
    """Return the places named in a sentence, with their adjectives."""
    return [
        phrase_of(token)
        for token in sentence
        if token.lower_ in SCENES
        and token.pos_ in {"NOUN", "PROPN"}
        and token.dep_ not in {"compound", "amod", "npadvmod"}
        and not is_negated(token)
    ]


def subjects(sentence: Span, background: Iterable[Token]) -> list[str]:
    """Return the things a sentence is about, without places and the background."""
    left_out = {token.i for token in background} | camera_tokens(sentence)
    names = []
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
            names.append(name_of(noun))
    return names


#: Prepositions after which a noun is part of the scene; "across the lawn" only gives a location.
_PARTAKING = words("with of by on behind under beside above")


_BECOME = words(
    "is are was were be turns turn turned turning becomes become painted dyed colored coloured looks appears"
)


_SHADES = frozenset({"navy", "golden", "silver"})


def colored_objects(sentence: Span) -> list[ColoredObject]:
    """Return the colours in a sentence with the things they describe.

    Only the colour's name is kept ("dark red" is red). A thing with two colours gives two entries, so that
    callers that need a single colour can skip it.
    """
    objects = []
    for token in sentence:
        if token.lower_ not in COLORS or is_negated(token):
            continue
        if token.lower_ in _SHADES and token.i + 1 < sentence.end and token.nbor().lower_ in COLORS:
            continue  # "navy blue" is one colour, blue
        for thing in _things_of(token):
            name = name_of(thing)
            if f"{token.lower_} {name}" not in NO_COLOR and not is_negated(thing):
                objects.append(ColoredObject(color=token.lower_, object=name))
    return objects


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
    """Return whether the colour precedes its noun, as usual in English."""
    return bool(color.i < noun.i)


_PLACES = words(
    "left right top bottom middle center centre upper lower front rear left-hand right-hand foreground "
    "topmost leftmost rightmost"
)
_PARTS = words("side sides edge corner corners half part third portion quadrant area end")
_SKIPPED = words("the its his her their far very extreme immediate - , hand most")
_PREPOSITIONS = words("on at in to along near toward towards from")
_SIDES = words("left right left-hand right-hand leftmost rightmost")
#: Prepositions whose noun takes a following position ("with a boulder to the left of the burrow").
_CLOSE = words("with at")
_RELATIONS = words("above below under underneath beneath behind")
_THINGS_WITH_PARTS = FRAME_WORDS | words("page monitor display shot room table")


def located_objects(sentence: Span) -> list[LocatedObject]:
    """Return the clear positions in a sentence with the objects there."""
    located: list[LocatedObject] = []
    camera = camera_tokens(sentence)
    position = sentence.start
    while position < sentence.end:
        token = sentence.doc[position]
        position += 1
        if token.i in camera:
            continue
        located += _shown_in(token)
        end = _place_end(token, sentence)
        if end is None:
            end = _relation_end(token, sentence)
        if end is None:
            continue
        location = sentence.doc[token.i : end].text.lower().strip()
        objects = _objects_positions(token, end, sentence)
        located += [LocatedObject(location=location, object=name_of(noun)) for noun in objects]
        position = max(position, end)
    return located


def _shown_in(token: Token) -> list[LocatedObject]:
    """Return the objects of "the left half shows …", where this token is "half"."""
    if token.lower_ not in _PARTS or token.dep_ != "nsubj":
        return []
    side = next((child for child in token.lefts if child.lower_ in _PLACES), None)
    if side is None:
        return []
    shown = [child for child in token.head.rights if child.dep_ in {"dobj", "attr"} and _may_be_placed(child)]
    location = token.doc[side.i : token.i + 1].text.lower()
    return [LocatedObject(location=location, object=name_of(noun)) for noun in shown]


def _place_end(token: Token, sentence: Span) -> int | None:
    """Return the end of a location such as "in the upper left corner of the frame" that starts here."""
    if token.lower_ not in _PREPOSITIONS:
        return None
    doc, end = sentence.doc, token.i + 1
    words: set[str] = set()
    determined = False
    while end < sentence.end:
        word = doc[end].lower_
        if word in _PLACES and (doc[end].pos_ != "VERB" or doc[end - 1].lower_ == "-"):
            words.add(word)
        elif word in _SKIPPED:
            determined = determined or word in {"the", "its", "his", "her", "their"}
        else:
            break
        end += 1
    if not words or not determined:
        return None
    while doc[end - 1].lower_ in {"-", ",", "the"}:
        end -= 1
    in_hand = doc[end - 1].lower_ == "hand"
    following = doc[end] if end < sentence.end else None
    part = following is not None and following.lower_ in _PARTS
    if part:
        end += 1
    elif in_hand:
        return None
    elif following is not None and (following.pos_ in {"NOUN", "PROPN"} or following.lower_ in _SIDES):
        return None  # "in the right hand", "on the left bank"
    of = doc[end] if end < sentence.end else None
    owned = of is not None and of.lower_ == "of"
    if _is_direction(token, words, part, owned):
        return None
    if owned and of is not None:
        target = next((child for child in of.rights if child.dep_ == "pobj"), None)
        if target is not None:
            end = target.i + 1
    elif words <= {"front", "rear", "upper", "lower"} and not part:
        return None if token.lower_ == "from" else end
    return end


def _is_direction(token: Token, words: set[str], part: bool, owned: bool) -> bool:
    """Return whether this is the direction of a movement rather than a position."""
    word = token.lower_
    if word == "from":
        # "watches from the left" is a place, "flies in from the left" is not.
        above = token.head
        return above.pos_ not in {"VERB", "AUX"} or above.lower_ not in STAY
    if word in {"toward", "towards"}:
        return True
    if word != "to" or owned:
        # "to the left of the tree" is a position, whatever the verb.
        return word == "to" and part
    above = token.head
    if above.pos_ == "NOUN" and above.lower_ in {"left", "right", "side"}:
        return True
    verb = (
        above
        if above.pos_ in {"VERB", "AUX"}
        else next((one for one in ancestors_of(token) if one.pos_ in {"VERB", "AUX"}), None)
    )
    if verb is None or token.i < verb.i or (above.pos_ in {"NOUN", "PROPN"} and above.lower_ not in MOTION):
        return False
    return verb.lower_ not in STAY


def _relation_end(token: Token, sentence: Span) -> int | None:
    """Return the end of "above the rabbit", "in front of the house" or "on top of the hill"."""
    doc = sentence.doc
    word = token.lower_
    last = token
    if word in {"in", "on"} and token.i + 2 < sentence.end:
        if doc[token.i + 1].lower_ not in {"front", "top"} or doc[token.i + 2].lower_ != "of":
            return None
        last = doc[token.i + 2]
    elif word not in _RELATIONS or token.dep_ != "prep":
        return None
    verb = next((one for one in ancestors_of(token) if one.pos_ in {"VERB", "AUX"}), None)
    direct = token.head.pos_ in {"NOUN", "PROPN"}
    if not direct and verb is not None and verb.lower_ in MOTION and verb.lower_ not in STAY:
        return None
    target = next((child for child in last.rights if child.dep_ == "pobj"), None)
    if target is None or (not is_noun(target) and target.lower_ not in {"him", "her", "it", "them"}):
        return None
    if word == "behind" and verb is not None and verb.lower_ in CONTACT:
        return None
    return int(target.i) + 1


def _objects_positions(token: Token, end: int, sentence: Span) -> list[Token]:
    """Return the nouns at the location that starts with this preposition."""
    inside = range(token.i, end)
    before = token.nbor(-1) if token.i > sentence.start else token
    if before.dep_ == "pobj" and before.head.lower_ in _CLOSE and _may_be_placed(before):
        return [_whole(before)]
    for above in ancestors_of(token):
        if above.i in inside or above.lower_ in POSITION_WORDS or above.lower_ in _THINGS_WITH_PARTS:
            continue
        if above.pos_ in {"NOUN", "PROPN"}:
            noun = meant_noun(above)
            if _may_be_placed(noun):
                return [_whole(noun)]
            continue
        if above.pos_ in {"VERB", "AUX"}:
            placed = [meant_noun(noun) for noun in _placed_by(above, inside) if noun.i not in inside]
            return [_whole(noun) for noun in placed if _may_be_placed(noun)]
    near = [noun for noun in sentence if _may_be_placed(noun) and noun.i not in inside]
    return [min(near, key=lambda noun: abs(noun.i - token.i))] if near else []


def _whole(noun: Token) -> Token:
    """Return the animal or person for a part of it ("a dog with a dark head on the left")."""
    if noun.lower_ in BODY_PARTS:
        for above in ancestors_of(noun):
            if above.pos_ in {"NOUN", "PROPN"} and above.lower_ not in BODY_PARTS and _may_be_placed(above):
                return above
            if above.pos_ == "VERB":
                break
    return noun


def _placed_by(verb: Token, inside: range) -> list[Token]:
    subjects = subjects_of(verb)
    # "a dog and a cat on the right": the last noun before the location is there.
    before = [noun for noun in subjects if noun.i < inside.start]
    if len(before) == len(subjects) > 1 and subjects[0].i > verb.i:
        subjects = before[-1:]
    # "A dog leans in on the left, a cat stands in the middle" parsed as one list of subjects.
    if len(subjects) > 1 and any(one.pos_ == "VERB" for one in verb.doc[subjects[0].i : subjects[-1].i]):
        subjects = subjects[-1:]
    if any(_may_be_placed(meant_noun(noun)) for noun in subjects):
        return subjects
    # "On the left stands a tree", "the picture shows a tree on the left"
    after = [
        child for child in verb.rights if child.dep_ in {"dobj", "attr", "nsubj"} and child.i not in inside
    ]
    return after[:1]


def _may_be_placed(noun: Token) -> bool:
    return is_thing(noun) or is_person(noun) or (is_noun(noun) and noun.lower_ not in ABSTRACT)
