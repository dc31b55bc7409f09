"""What a release keeps of the version that it extends.

Every candidate of the parent keeps its place. The pairs of a source that is still there are found again
by their ids; those of a source that is gone (or cannot be used any more) are taken over as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from storage_schemas.pair import PairRecord
from storage_schemas.plan import SourceReport
from storage_schemas.release import Release
from storage_schemas.source import ClipRow, SourceRow
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

    def candidates(
        self, reports: Mapping[str, SourceReport], excluded: Collection[tuple[str, str]]
    ) -> list[Candidate]:
        """Return the places that are held: of pairs taken over, and of sources that can still give a pair."""
        return [
            place
            for place in self.places
            if self.has(place.source_id, place.aspect)
            or (
                place.source_id in reports
                and place.aspect in reports[place.source_id].aspects
                and (place.source_id, place.aspect) not in excluded
            )
        ]

    def tables(self) -> tuple[list[SourceRow], list[ClipRow]]:
        """Return the parent's rows of the sources whose pairs are taken over."""
        sources: list[SourceRow] = []
        clips: list[ClipRow] = []
        if self.parent is not None:
            for source_id in sorted({record.source_id for record in self.records}):
                sources.append(self.parent.source(source_id))
                clips += self.parent.clips(source_id)
        return sources, clips


def kept_pairs(store: Store, parent: Release | None, recipe: Recipe, present: Collection[str]) -> KeptPairs:
    """Return what a release keeps of its parent.

    Parameters
    ----------
    present
        Ids of the sources that can be used now.
    """
    if parent is None or recipe.pins:
        return KeptPairs()
    wanted = [record for record in parent.pairs() if record.aspect in recipe.aspects]
    return KeptPairs(
        parent=parent,
        records=tuple(
            record for record in wanted if record.source_id not in present and store.has(PAIR, record.pair_id)
        ),
        places=tuple(
            dict.fromkeys(
                Candidate(source_id=record.source_id, aspect=record.aspect, bin_s=record.bin_s)
                for record in wanted
            )
        ),
    )
