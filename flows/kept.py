"""Pairs that a release keeps of the version that it extends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from storage_schemas.pair import PairRecord
from storage_schemas.plan import SourceReport
from storage_schemas.release import Release
from storage_schemas.rng import derived_seed
from storage_schemas.source import ClipRow, Source, SourceRow
from storage_schemas.store import PAIR, Store
from tasks.pairs.candidates import Candidate
from tasks.recipe import Recipe


@dataclass(frozen=True)
class KeptPairs:
    """What is taken over from the parent as it is, and the places that its candidates hold."""

    parent: Release | None = None
    records: tuple[PairRecord, ...] = ()
    places: tuple[Candidate, ...] = ()

    @property
    def version(self) -> int | None:
        """Number of the version that is extended."""
        return self.parent.version if self.parent is not None else None

    @cached_property
    def keys(self) -> set[tuple[str, str]]:
        """The (source id, aspect) whose pairs are taken over as they are."""
        return {(record.source_id, record.aspect) for record in self.records}

    def has(self, source_id: str, aspect: str) -> bool:
        """Return whether the pairs of a source and aspect are taken over as they are."""
        return (source_id, aspect) in self.keys

    def candidates(self, reports: Mapping[str, SourceReport]) -> list[Candidate]:
        """Return the places that are held: of kept pairs, and of sources that can still give a pair."""
        return [
            place
            for place in self.places
            if self.has(place.source_id, place.aspect)
            or (place.source_id in reports and place.aspect in reports[place.source_id].aspects)
        ]

    def tables(self, others: set[str], now: Mapping[str, Source]) -> tuple[list[SourceRow], list[ClipRow]]:
        """Return the rows of the sources of kept pairs, but for those that come from elsewhere.

        What a source says of itself now (title, licence, credit) counts: a right that was withdrawn is
        withdrawn from the next version on.
        """
        sources: list[SourceRow] = []
        clips: list[ClipRow] = []
        if self.parent is not None:
            for source_id in sorted({r.source_id for r in self.records} - others):
                sources.append(_as_now(self.parent.source(source_id), now.get(source_id)))
                clips += self.parent.clips(source_id)
        return sources, clips


def _as_now(row: SourceRow, source: Source | None) -> SourceRow:
    if source is None:
        return row
    names = ("title", "video", "licence", "redistributable", "credit")
    return row.model_copy(update={name: getattr(source, name) for name in names})


def kept_pairs(
    store: Store, parent: Release | None, recipe: Recipe, sources: Mapping[str, Source]
) -> KeptPairs:
    """Return what a release keeps of its parent.

    A parent's pair is taken over as it is where the recipe would make it with the same operation,
    parameters, sampling and seed and its source did not change its captions. Otherwise its candidate
    keeps its place and the pair is made anew.
    """
    if parent is None or recipe.pins:
        return KeptPairs()
    same_sampling = all(
        parent.recipe.get(name) == recipe.model_dump(mode="json")[name] for name in ("fps", "long_side")
    )
    records, places = [], []
    for record in parent.pairs():
        if record.aspect not in recipe.aspects:
            continue
        places.append(Candidate(source_id=record.source_id, aspect=record.aspect, bin_s=record.bin_s))
        if (
            same_sampling
            and store.has(PAIR, record.pair_id)
            and _same_recipe(record, recipe)
            and _same_captions(record, parent, sources)
        ):
            records.append(record)
    whole = _whole_aspects(records, recipe)
    return KeptPairs(
        parent=parent,
        # of a source that is gone every pair is kept; another is made whole again at every severity
        records=tuple(r for r in records if r.source_id not in sources or (r.source_id, r.aspect) in whole),
        places=tuple(dict.fromkeys(places)),
    )


def _same_recipe(record: PairRecord, recipe: Recipe) -> bool:
    operation = recipe.operation(record.aspect)
    if (operation.name, operation.version) != (record.operation, record.operation_version):
        return False
    if record.seed != str(derived_seed(recipe.seed, record.source_id, record.aspect)):
        return False
    return any(
        recipe.parameters(record.aspect, point.strength).model_dump(mode="json") == record.parameters
        and point.clips in ("all", record.clips_degraded)
        for point in recipe.points(record.aspect)
    )


def _same_captions(record: PairRecord, parent: Release, sources: Mapping[str, Source]) -> bool:
    source = sources.get(record.source_id)
    if source is None:
        return True
    now = [(clip.start_s, clip.end_s, clip.caption) for clip in source.clips]
    return now == [(row.start_s, row.end_s, row.caption) for row in parent.clips(record.source_id)]


def _whole_aspects(records: list[PairRecord], recipe: Recipe) -> set[tuple[str, str]]:
    """Return (source, aspect) for which every severity point of the recipe was kept."""
    found: dict[tuple[str, str], int] = {}
    for record in records:
        key = (record.source_id, record.aspect)
        found[key] = found.get(key, 0) + 1
    return {key for key, count in found.items() if count >= len(recipe.points(key[1]))}
