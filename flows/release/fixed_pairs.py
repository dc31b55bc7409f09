"""Pairs that are not drawn: kept from the parent version, or pinned by the recipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from storage_schemas.commit import MANIFEST_NAME
from storage_schemas.errors import Reason
from storage_schemas.pair import PairRecord, SourceReport
from storage_schemas.provenance import utc_now
from storage_schemas.release import Release
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import ClipRow, SourceRow
from storage_schemas.store import PAIR, Store
from tasks.pairs.release_plan import Candidate, duration_bin
from tasks.recipe import Pin, Recipe


@dataclass(frozen=True)
class InheritedPairs:
    """Pairs taken unchanged from the parent release, and the ranks that its candidates keep."""

    parent: Release | None = None
    records: tuple[PairRecord, ...] = ()
    ranked: tuple[Candidate, ...] = ()

    @property
    def version(self) -> int | None:
        """Version number of the parent."""
        return self.parent.version if self.parent is not None else None

    @cached_property
    def keys(self) -> set[tuple[str, str]]:
        """The (source id, aspect) whose pairs are taken unchanged."""
        return {(record.source_id, record.aspect) for record in self.records}

    @cached_property
    def _parents(self) -> dict[str, PairRecord]:
        return {} if self.parent is None else {record.pair_id: record for record in self.parent.pairs()}

    @cached_property
    def _written_ns(self) -> int:
        return 0 if self.parent is None else (self.parent.path / MANIFEST_NAME).stat().st_mtime_ns

    def record(self, store: Store, pair_id: str) -> PairRecord | None:
        """Return a pair from the parent's loaded pairs; None if it has none, or an older one."""
        record = self._parents.get(pair_id)
        if record is None:
            return None
        # a damaged pair that was rebuilt may have different checksums
        made_ns = (store.artifact_path(PAIR, pair_id) / MANIFEST_NAME).stat().st_mtime_ns
        return record if made_ns <= self._written_ns else None

    def has(self, source_id: str, aspect: str) -> bool:
        """Return whether the pairs of a source and aspect are taken unchanged."""
        return (source_id, aspect) in self.keys

    def candidates(
        self, reports: Mapping[str, SourceReport], excluded: Collection[tuple[str, str]]
    ) -> list[Candidate]:
        """Return the parent's candidates that keep their ranks: those that are kept or still possible."""
        return [
            candidate
            for candidate in self.ranked
            if self.has(candidate.source_id, candidate.aspect)
            or (
                candidate.source_id in reports
                and candidate.aspect in reports[candidate.source_id].aspects
                and (candidate.source_id, candidate.aspect) not in excluded
            )
        ]

    def tables(self) -> tuple[list[SourceRow], list[ClipRow]]:
        """Return the parent's source and clip rows for the kept pairs."""
        sources: list[SourceRow] = []
        clips: list[ClipRow] = []
        if self.parent is not None:
            for source_id in sorted({record.source_id for record in self.records}):
                sources.append(self.parent.source(source_id))
                clips += self.parent.clips(source_id)
        return sources, clips


def inherited_pairs(
    store: Store, parent: Release | None, recipe: Recipe, present: Collection[str]
) -> InheritedPairs:
    """Return the pairs that a release keeps from its parent.

    Parameters
    ----------
    present
        Ids of the currently usable sources.
    """
    if parent is None or recipe.pins:
        return InheritedPairs()
    wanted = [
        record
        for record in parent.pairs()
        if record.aspect in recipe.aspects
        and (recipe.controls or not record.control)
        and (recipe.lengths.shares or record.excerpt is None)
    ]
    return InheritedPairs(
        parent=parent,
        records=tuple(
            record for record in wanted if record.source_id not in present and store.has(PAIR, record.pair_id)
        ),
        ranked=tuple(
            dict.fromkeys(
                Candidate(source_id=record.source_id, aspect=record.aspect, bin_s=record.bin_s)
                for record in wanted
            )
        ),
    )


def pinned_candidates(recipe: Recipe, reports: Mapping[str, SourceReport]) -> list[Candidate]:
    """Return the pinned candidates whose sources exist."""
    wanted = dict.fromkeys((pin.source_id, pin.aspect) for pin in recipe.pins)
    return [
        Candidate(
            source_id=source_id,
            aspect=aspect,
            bin_s=duration_bin(reports[source_id].duration_s, recipe.bin_seconds),
        )
        for source_id, aspect in wanted
        if source_id in reports
    ]


def pin_problems(
    pins: Sequence[Pin],
    records: Iterable[PairRecord],
    known_sources: Iterable[str],
    rows_so_far: Iterable[SetAsideRow],
) -> list[SetAsideRow]:
    """Return a row for every pinned pair that was not reproduced with equal checksums.

    Pairs and sources with an existing row do not get another.
    """
    records_by_id = {record.pair_id: record for record in records}
    sources = set(known_sources)
    reported = {row.key for row in rows_so_far} | {row.source_id for row in rows_so_far if not row.aspect}
    rows = []
    for pin in pins:
        if pin.pair_id in reported or pin.source_id in reported:
            continue
        record = records_by_id.get(pin.pair_id)
        if record is None:
            reason = Reason.VIDEO_MISSING if pin.source_id not in sources else Reason.CHECKSUM_MISMATCH
            message = (
                f"source {pin.source_id} of the pinned {pin.aspect} pair is not among the sources"
                if pin.source_id not in sources
                else f"the pinned {pin.aspect} pair {pin.pair_id[:12]} does not result from these sources: "
                "their captions, clip boundaries or model weights differ from those of the pinned release"
            )
        elif (record.high_checksum, record.low_checksum) != (pin.high_checksum, pin.low_checksum):
            reason = Reason.CHECKSUM_MISMATCH
            message = (
                f"the {pin.aspect} pair {pin.pair_id[:12]} was built, but its frames differ from the pinned "
                "ones: build with the versions of the lock file on the same class of processor"
            )
        else:
            continue
        rows.append(
            SetAsideRow(
                source_id=pin.source_id,
                aspect=pin.aspect,
                stage="verify",
                key=pin.pair_id,
                reason=reason,
                message=message,
                at=utc_now(),
            )
        )
    return rows
