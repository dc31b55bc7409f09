"""Two caption analysers compared on the clips that both analysed: what they name, which clips they open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.commit import Manifest
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.parquet import read_table
from storage_schemas.rng import keyed_rank
from storage_schemas.store import ANALYSIS, Store
from tasks.aspects.base import ClipSpan
from tasks.aspects.registry import aspect, aspect_names
from tasks.captions.stage import ANALYSIS_FILE, ANSWERS_FILE, read_analyses

#: Enough frames for every aspect: what is compared is what captions say.
_LONG = 1000
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class StoredAnalysis:
    """One analysis of a source in a store; sources with equal captions share it."""

    source_id: str
    manifest: Manifest
    analyses: tuple[CaptionAnalysis, ...]
    has_answers: bool

    @property
    def analyser(self) -> Mapping[str, Any]:
        """What the analysis depends on besides the captions."""
        found: Mapping[str, Any] = self.manifest.consumes["analyser"]
        return found

    @property
    def captions(self) -> str:
        """Checksum of the captions."""
        return str(self.manifest.consumes["captions"])


def stored_analyses(store: Store) -> list[StoredAnalysis]:
    """Return all analyses of a store, by id."""
    found = []
    for manifest in store.manifests(ANALYSIS):
        folder = store.artifact_path(ANALYSIS, manifest.id)
        if ANALYSIS_FILE not in manifest.files:
            continue
        source_ids = read_table(folder / ANALYSIS_FILE).column("source_id").to_pylist()
        found.append(
            StoredAnalysis(
                source_id=str(source_ids[0]) if source_ids else "",
                manifest=manifest,
                analyses=read_analyses(folder / ANALYSIS_FILE),
                has_answers=ANSWERS_FILE in manifest.files,
            )
        )
    return found


def of_analyser(
    analyses: Iterable[StoredAnalysis], name: str, consumes: Mapping[str, Any] | None = None
) -> dict[str, StoredAnalysis]:
    """Return the analyses of one analyser, by the checksum of their captions.

    Parameters
    ----------
    name
        The analyser's name, or whatever messages call it.
    consumes
        What it depends on, exactly; without it its name decides, if that is one analyser here.

    Raises
    ------
    UserInputError
        If there are none, or the name stands for several.
    """
    if consumes is not None:
        chosen = [found for found in analyses if found.analyser == consumes]
    else:
        chosen = [found for found in analyses if found.analyser["analyser"] == name]
        variants = list({str(sorted(found.analyser.items())): found.analyser for found in chosen}.values())
        if len(variants) > 1:
            keys = sorted(
                {key for one in variants for key in one if len({str(each.get(key)) for each in variants}) > 1}
            )
            raise UserInputError(
                f"{len(variants)} analysers named {name} made analyses here; they differ in "
                f"{', '.join(keys)}. Name the one that you mean by the recipe that has it"
            )
    if not chosen:
        raise UserInputError(f"no analysis of {name} is in this store: build with a recipe that has it")
    return {found.captions: found for found in chosen}


class FieldAgreement(Frozen):
    """How far two analysers agree about one field, over all clips.

    `first`, `second` and `both` are the clips in which it names something; `overlap` is Dice's measure, 0 to
    1, over the clips in which at least one does; entries are alike if the words of one are among the
    other's.
    """

    field: str
    clips: int
    first: int
    second: int
    both: int
    overlap: float | None


class EligibilityAgreement(Frozen):
    """Which clips two analysers open to an aspect."""

    aspect: str
    clips: int
    first: int
    second: int
    both: int


class ClipDisagreement(Frozen):
    """One clip in which one analyser names something for a field and the other nothing, or nothing alike."""

    field: str
    source_id: str
    clip: int
    first: tuple[str, ...]
    second: tuple[str, ...]


class AnalyserComparison(Frozen):
    """What :func:`compare` found."""

    sources: int
    clips: int
    fields: tuple[FieldAgreement, ...]
    aspects: tuple[EligibilityAgreement, ...]
    examples: tuple[ClipDisagreement, ...]


class _Clip(NamedTuple):
    source_id: str
    place: int
    first: CaptionAnalysis
    second: CaptionAnalysis


def compare(
    first: Mapping[str, StoredAnalysis], second: Mapping[str, StoredAnalysis], examples: int = 3
) -> AnalyserComparison:
    """Compare two analysers on the captions that both analysed.

    Parameters
    ----------
    first, second
        Their analyses, by the checksum of the captions.
    examples
        Most disagreements of a field that are shown; which ones is the same every time.

    Raises
    ------
    UserInputError
        If they have no captions in common.
    """
    common = sorted(first.keys() & second.keys())
    if not common:
        raise UserInputError(
            "the two analysers analysed no captions in common: build the same sources with both"
        )
    clips = [
        _Clip(first[key].source_id, index, one, other)
        for key in common
        for index, (one, other) in enumerate(zip(first[key].analyses, second[key].analyses, strict=True))
    ]
    names = list(CaptionAnalysis.model_fields)
    return AnalyserComparison(
        sources=len(common),
        clips=len(clips),
        fields=tuple(_field(name, clips) for name in names),
        aspects=tuple(_aspects(clips)),
        examples=tuple(found for name in names for found in _examples(name, clips, examples)),
    )


def entries(analysis: CaptionAnalysis, field: str) -> tuple[str, ...]:
    """Return what a field names, each entry as one text."""
    return tuple(
        item if isinstance(item, str) else " ".join(item.model_dump().values())
        for item in getattr(analysis, field)
    )


def overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """Return Dice's measure of two lists of entries, not both empty: 1 where all are alike."""
    left = [_words(text) for text in second]
    alike = 0
    for words in (_words(text) for text in first):
        match = next((other for other in left if words <= other or other <= words), None)
        if match is not None:
            left.remove(match)
            alike += 1
    return 2 * alike / (len(first) + len(second))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold())) or frozenset([text])


def _field(name: str, clips: Sequence[_Clip]) -> FieldAgreement:
    named = [(entries(clip.first, name), entries(clip.second, name)) for clip in clips]
    some = [overlap(one, other) for one, other in named if one or other]
    return FieldAgreement(
        field=name,
        clips=len(clips),
        first=sum(bool(one) for one, _ in named),
        second=sum(bool(other) for _, other in named),
        both=sum(bool(one and other) for one, other in named),
        overlap=sum(some) / len(some) if some else None,
    )


def _aspects(clips: Sequence[_Clip]) -> Iterable[EligibilityAgreement]:
    span = ClipSpan(0, 0, _LONG)
    for name in aspect_names():
        found = aspect(name)
        # some take every clip, whatever its caption says
        if not found.takes(CaptionAnalysis(), span):
            taken = [(found.takes(clip.first, span), found.takes(clip.second, span)) for clip in clips]
            yield EligibilityAgreement(
                aspect=name,
                clips=len(clips),
                first=sum(one for one, _ in taken),
                second=sum(other for _, other in taken),
                both=sum(one and other for one, other in taken),
            )


def _examples(name: str, clips: Sequence[_Clip], count: int) -> list[ClipDisagreement]:
    found = [
        ClipDisagreement(field=name, source_id=clip.source_id, clip=clip.place, first=one, second=other)
        for clip in clips
        for one, other in [(entries(clip.first, name), entries(clip.second, name))]
        if (one or other) and overlap(one, other) == 0
    ]
    return sorted(found, key=lambda each: keyed_rank("example", each.source_id, each.clip))[:count]
