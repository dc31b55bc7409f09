"""Compare two caption analysers on the clips both analysed: named entities and eligible clips."""

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

#: Frame count that satisfies every aspect, so that only the captions decide eligibility.
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
        """Settings of the analyser: all inputs of the analysis except the captions."""
        settings: Mapping[str, Any] = self.manifest.consumes["analyser"]
        return settings

    @property
    def captions(self) -> str:
        """Checksum of the captions."""
        return str(self.manifest.consumes["captions"])


def stored_analyses(store: Store) -> list[StoredAnalysis]:
    """Return all analyses in a store, sorted by id."""
    analyses = []
    for manifest in store.manifests(ANALYSIS):
        folder = store.artifact_path(ANALYSIS, manifest.id)
        if ANALYSIS_FILE not in manifest.files:
            continue
        source_ids = read_table(folder / ANALYSIS_FILE).column("source_id").to_pylist()
        analyses.append(
            StoredAnalysis(
                source_id=str(source_ids[0]) if source_ids else "",
                manifest=manifest,
                analyses=read_analyses(store, manifest.id),
                has_answers=ANSWERS_FILE in manifest.files,
            )
        )
    return analyses


def of_analyser(
    analyses: Iterable[StoredAnalysis], name: str, consumes: Mapping[str, Any] | None = None
) -> dict[str, StoredAnalysis]:
    """Return the analyses of one analyser, keyed by the checksum of their captions.

    Parameters
    ----------
    name
        The analyser's name, also used in error messages.
    consumes
        Exact settings to match. If None, match by name; the name must then be unambiguous.

    Raises
    ------
    UserInputError
        If no analysis matches, or several analysers share the name.
    """
    if consumes is not None:
        matching = [analysis for analysis in analyses if analysis.analyser == consumes]
    else:
        matching = [analysis for analysis in analyses if analysis.analyser["analyser"] == name]
        variants = list(
            {str(sorted(analysis.analyser.items())): analysis.analyser for analysis in matching}.values()
        )
        if len(variants) > 1:
            keys = sorted(
                {key for one in variants for key in one if len({str(each.get(key)) for each in variants}) > 1}
            )
            raise UserInputError(
                f"this store has analyses by {len(variants)} analysers named {name}, which differ in "
                f"{', '.join(keys)}. Select one by naming the recipe that uses it"
            )
    if not matching:
        raise UserInputError(f"this store has no analysis by {name}: build with a recipe that uses it")
    return {analysis.captions: analysis for analysis in matching}


class FieldAgreement(Frozen):
    """Agreement of two analysers on one field, over all clips.

    `first`, `second` and `both` count the clips in which the first, the second or both analysers fill the
    field. `overlap` is the mean Dice coefficient (0 to 1) over clips in which at least one does; two entries
    match if the words of one are a subset of the other's.
    """

    field: str
    clips: int
    first: int
    second: int
    both: int
    overlap: float | None


class EligibilityAgreement(Frozen):
    """Number of clips that each analyser makes eligible for an aspect."""

    aspect: str
    clips: int
    first: int
    second: int
    both: int


class ClipDisagreement(Frozen):
    """One clip for which the analysers share no entry in a field."""

    field: str
    source_id: str
    clip: int
    first: tuple[str, ...]
    second: tuple[str, ...]


class AnalyserComparison(Frozen):
    """Result of :func:`compare`."""

    sources: int
    clips: int
    fields: tuple[FieldAgreement, ...]
    aspects: tuple[EligibilityAgreement, ...]
    examples: tuple[ClipDisagreement, ...]


class _Clip(NamedTuple):
    source_id: str
    number: int
    first: CaptionAnalysis
    second: CaptionAnalysis


def compare(
    first: Mapping[str, StoredAnalysis], second: Mapping[str, StoredAnalysis], examples: int = 3
) -> AnalyserComparison:
    """Compare two analysers on the captions both analysed.

    Parameters
    ----------
    first, second
        Analyses of each, keyed by the checksum of the captions.
    examples
        Maximum number of disagreements listed for each field; the selection is deterministic.

    Raises
    ------
    UserInputError
        If they have no captions in common.
    """
    common = sorted(first.keys() & second.keys())
    if not common:
        raise UserInputError("the two analysers have no captions in common: build the same sources with both")
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
        examples=tuple(example for name in names for example in _examples(name, clips, examples)),
    )


def entries(analysis: CaptionAnalysis, field: str) -> tuple[str, ...]:
    """Return the entries of a field, each as one string."""
    return tuple(
        item if isinstance(item, str) else " ".join(item.model_dump().values())
        for item in getattr(analysis, field)
    )


def overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the Dice coefficient of two lists of entries, at least one of them not empty; 1 if all match."""
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
        candidate = aspect(name)
        # skip aspects that accept every clip regardless of its caption
        if not candidate.takes(CaptionAnalysis(), span):
            taken = [
                (candidate.takes(clip.first, span), candidate.takes(clip.second, span)) for clip in clips
            ]
            yield EligibilityAgreement(
                aspect=name,
                clips=len(clips),
                first=sum(one for one, _ in taken),
                second=sum(other for _, other in taken),
                both=sum(one and other for one, other in taken),
            )


def _examples(name: str, clips: Sequence[_Clip], count: int) -> list[ClipDisagreement]:
    disagreements = [
        ClipDisagreement(field=name, source_id=clip.source_id, clip=clip.number, first=one, second=other)
        for clip in clips
        for one, other in [(entries(clip.first, name), entries(clip.second, name))]
        if (one or other) and overlap(one, other) == 0
    ]
    return sorted(disagreements, key=lambda each: keyed_rank("example", each.source_id, each.clip))[:count]
