"""A pinned recipe: exactly these pairs, and the same checksums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from storage_schemas.errors import Reason
from storage_schemas.pair import PairRecord
from storage_schemas.plan import SourceReport
from storage_schemas.provenance import utc_now
from storage_schemas.set_aside import SetAsideRow
from tasks.pairs.candidates import Candidate, duration_bin
from tasks.recipe import Pin, Recipe


def pinned_candidates(recipe: Recipe, reports: Mapping[str, SourceReport]) -> list[Candidate]:
    """Return the candidates that the pins name, of the sources that are there."""
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
    """Return a row for every pinned pair that was not made again, checksum by checksum.

    A pair or source that has a row of its own already needs no other.
    """
    made = {record.pair_id: record for record in records}
    sources = set(known_sources)
    told = {row.key for row in rows_so_far} | {row.source_id for row in rows_so_far if not row.aspect}
    rows = []
    for pin in pins:
        if pin.pair_id in told or pin.source_id in told:
            continue
        record = made.get(pin.pair_id)
        if record is None:
            reason = Reason.VIDEO_MISSING if pin.source_id not in sources else Reason.CHECKSUM_MISMATCH
            message = (
                f"source {pin.source_id} of the pinned {pin.aspect} pair is not among the sources"
                if pin.source_id not in sources
                else f"the pinned {pin.aspect} pair {pin.pair_id[:12]} does not follow from these sources: "
                "their captions, clip boundaries or model weights are not those of the pinned release"
            )
        elif (record.high_checksum, record.low_checksum) != (pin.high_checksum, pin.low_checksum):
            reason = Reason.CHECKSUM_MISMATCH
            message = (
                f"the {pin.aspect} pair {pin.pair_id[:12]} was made, but its frames differ from the pinned "
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
