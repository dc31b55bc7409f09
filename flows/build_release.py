"""From what a build made to a version of its release."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flows.pinned import pin_problems
from storage_schemas.errors import IntegrityError, Reason
from storage_schemas.pair import PairRecord
from storage_schemas.plan import PlannedPair, ReleasePlan
from storage_schemas.release import Release
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import ClipRow, SourceRow
from storage_schemas.store import TIMELINE
from tasks.pairs.degrade import read_pair
from tasks.pairs.facts import source_facts, timeline_id
from tasks.pairs.stages import source_row
from tasks.publish.release import source_rows, write_release

if TYPE_CHECKING:
    from flows.build_run import Build


@dataclass(frozen=True)
class BuildResult:
    """What a build made: its release version, whether that is new, and the plan it followed."""

    release: Release
    new: bool
    plan: ReleasePlan
    set_aside: tuple[SetAsideRow, ...]
    lost: int

    @property
    def exit_code(self) -> int:
        """0: all that was planned is built; 3: some sources or planned pairs were set aside."""
        return 3 if self.lost else 0


def release_of(build: Build, plan: ReleasePlan) -> BuildResult:
    """Write what a build made as a version of its release, unless the newest one is just that.

    Raises
    ------
    ReleaseMoved
        If another build wrote a version meanwhile.
    """
    records = list(build.kept.records)
    used: set[str] = set()
    planned = dict.fromkeys(build.recipe.aspects, 0)
    for record in records:
        planned[record.aspect] += 1
    for candidate in build.candidates:
        if build.kept.has(candidate.source_id, candidate.aspect):
            continue
        for pair in build.pairs_of(candidate.source_id):
            if pair.aspect == candidate.aspect and pair.pair_id not in build.settled:
                planned[pair.aspect] += 1
                if pair.done and _read(build, pair, candidate.source_id, records):
                    used.add(candidate.source_id)
    problems = pin_problems(build.recipe.pins, records, build.sources, build.rows)
    wrong = {row.key for row in problems}
    records = [record for record in records if record.pair_id not in wrong]
    rows = [*build.rows, *problems]
    lost = [row for row in rows if not row.aspect or row.stage in ("degrade", "verify")]
    for row in lost:
        if row.aspect in planned:
            planned[row.aspect] += 1
    if build.recipe.pins:
        planned.update(Counter(pin.aspect for pin in build.recipe.pins))
    set_aside = [*rows, *_no_pair_rows(build)]
    source_table, clip_table = _source_tables(build, used)
    release, new = write_release(
        build.store,
        build.options.release,
        build.recipe,
        records,
        source_table,
        clip_table,
        set_aside,
        planned,
        extends=build.kept.version,
        newest=None if build.options.fresh else build.newest,
    )
    return BuildResult(release, new, plan, tuple(set_aside), len(lost))


def _read(build: Build, pair: PlannedPair, source_id: str, records: list[PairRecord]) -> bool:
    """Add a pair that is in the store to the records; a damaged one becomes a row."""
    try:
        records.append(read_pair(build.store, pair.pair_id))
    except IntegrityError as problem:
        message = f"{problem}. `slvmeval verify --repair` removes it, so that it is made again"
        row = source_row(build.sources[source_id], "verify", Reason.CHECKSUM_MISMATCH, message)
        build.rows.append(row.model_copy(update={"aspect": pair.aspect}))
        return False
    return True


def _no_pair_rows(build: Build) -> list[SetAsideRow]:
    return [
        source_row(build.sources[report.source_id], "candidates", none.reason, none.message).model_copy(
            update={"aspect": none.aspect}
        )
        for report in build.reports.values()
        for none in report.no_pair
    ]


def _source_tables(build: Build, used: set[str]) -> tuple[list[SourceRow], list[ClipRow]]:
    sources, clips = build.kept.tables()
    for source_id in sorted(used):
        facts = source_facts(build.store, build.sources[source_id], build.recipe, build.work.servers)
        id_ = timeline_id(facts.source, build.recipe)
        checksum = build.store.manifest(TIMELINE, id_).content_checksum
        row, rows = source_rows(facts, build.recipe, checksum)
        sources.append(row)
        clips += rows
    return sources, clips


def summary_rows(release: Release) -> list[dict[str, Any]]:
    """Return what became of each aspect of a release: planned, built, set aside and why."""
    return [{"aspect": aspect, **counts} for aspect, counts in release.summary().items()]
