"""Where the caption says that things are: left, right, top, bottom, middle, front, back, above, below.

"Next to", "between", "near" and "far" are no clear positions. A direction is none either ("walks to the
left", "the camera pans to the right"), nor is "left" as a verb or "right" of a hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage_schemas.analysis import LocatedObject
from tasks.captions.grammar import (
    ancestors_of,
    camera_tokens,
    is_noun,
    is_person,
    is_thing,
    meant_noun,
    name_of,
    subjects_of,
)
from tasks.captions.lexicon import (
    ABSTRACT,
    BODY_PARTS,
    CONTACT,
    FRAME_WORDS,
    MOTION,
    POSITION_WORDS,
    STAY,
    words,
)

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

_PLACES = words(
    "left right top bottom middle center centre upper lower front rear left-hand right-hand foreground "
    "topmost leftmost rightmost"
)
_PARTS = words("side sides edge corner corners half part third portion quadrant area end")
_SKIPPED = words("the its his her their far very extreme immediate - , hand most")
_PREPOSITIONS = words("on at in to along near toward towards from")
_SIDES = words("left right left-hand right-hand leftmost rightmost")
#: After these a noun keeps a position that follows it ("with a boulder to the left of the burrow").
_CLOSE = words("with at")
_RELATIONS = words("above below under underneath beneath behind")
_THINGS_WITH_PARTS = FRAME_WORDS | words("page monitor display shot room table")


def located_objects(sentence: Span) -> list[LocatedObject]:
    """Return the clear positions of a sentence with what is there."""
    found: list[LocatedObject] = []
    camera = camera_tokens(sentence)
    place = sentence.start
    while place < sentence.end:
        token = sentence.doc[place]
        place += 1
        if token.i in camera:
            continue
        found += _shown_in(token)
        end = _place_end(token, sentence)
        if end is None:
            end = _relation_end(token, sentence)
        if end is None:
            continue
        location = sentence.doc[token.i : end].text.lower().strip()
        objects = _objects(token, end, sentence)
        found += [LocatedObject(location=location, object=name_of(noun)) for noun in objects]
        place = max(place, end)
    return found


def _shown_in(token: Token) -> list[LocatedObject]:
    """Return what "the left half shows" shows, where this token is the half."""
    if token.lower_ not in _PARTS or token.dep_ != "nsubj":
        return []
    side = next((child for child in token.lefts if child.lower_ in _PLACES), None)
    if side is None:
        return []
    shown = [child for child in token.head.rights if child.dep_ in {"dobj", "attr"} and _may_be_placed(child)]
    location = token.doc[side.i : token.i + 1].text.lower()
    return [LocatedObject(location=location, object=name_of(noun)) for noun in shown]


def _place_end(token: Token, sentence: Span) -> int | None:
    """Return where a location like "in the upper left corner of the frame" ends, if it starts here."""
    if token.lower_ not in _PREPOSITIONS:
        return None
    doc, place = sentence.doc, token.i + 1
    words: set[str] = set()
    determined = False
    while place < sentence.end:
        word = doc[place].lower_
        if word in _PLACES and (doc[place].pos_ != "VERB" or doc[place - 1].lower_ == "-"):
            words.add(word)
        elif word in _SKIPPED:
            determined = determined or word in {"the", "its", "his", "her", "their"}
        else:
            break
        place += 1
    if not words or not determined:
        return None
    while doc[place - 1].lower_ in {"-", ",", "the"}:
        place -= 1
    in_hand = doc[place - 1].lower_ == "hand"
    following = doc[place] if place < sentence.end else None
    part = following is not None and following.lower_ in _PARTS
    if part:
        place += 1
    elif in_hand:
        return None
    elif following is not None and (following.pos_ in {"NOUN", "PROPN"} or following.lower_ in _SIDES):
        return None  # "in the right hand", "on the left bank"
    of = doc[place] if place < sentence.end else None
    owned = of is not None and of.lower_ == "of"
    if _is_direction(token, words, part, owned):
        return None
    if owned and of is not None:
        target = next((child for child in of.rights if child.dep_ == "pobj"), None)
        if target is not None:
            place = target.i + 1
    elif words <= {"front", "rear", "upper", "lower"} and not part:
        return None if token.lower_ == "from" else place
    return place


def _is_direction(token: Token, words: set[str], part: bool, owned: bool) -> bool:
    """Return whether this is where something goes or comes from, not where it is."""
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
    """Return where "above the rabbit", "in front of the house" or "on top of the hill" ends."""
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


def _objects(token: Token, end: int, sentence: Span) -> list[Token]:
    """Return what is at the location that starts with this preposition."""
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
    # "a dog and a cat on the right": what stands last before the place is there.
    before = [noun for noun in subjects if noun.i < inside.start]
    if len(before) == len(subjects) > 1 and subjects[0].i > verb.i:
        subjects = before[-1:]
    # "A dog leans in on the left, a cat stands in the middle", read as one list of subjects.
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
