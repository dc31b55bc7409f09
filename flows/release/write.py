"""Writes the release of a build: the built pairs, and rows for what could not be built."""

from __future__ import annotations

from collections import Counter

from flows.release.fixed_pairs import pin_problems
from flows.release.options import BuildOptions
from flows.release.result import BuildResult
from flows.release.state import BuildState
from storage_schemas.counts import count_text
from storage_schemas.errors import IntegrityError, Reason
from storage_schemas.pair import PlannedPair, ReleasePlan
from storage_schemas.set_aside import CLIPS_STAGE, CONTROL_STAGE, SetAsideRow
from storage_schemas.source import DAMAGE_TEXTS, ClipRow, SourceRow
from storage_schemas.store import Store
from tasks.pairs.degrade import read_pair
from tasks.pairs.stages import source_row
from tasks.publish.release import source_rows, write_release


def release_of(
    state: BuildState, store: Store, options: BuildOptions, plan: ReleasePlan, unsettled: int
) -> BuildResult:
    """Write the built pairs as a release version, unless the newest version equals it.

    Raises
    ------
    ReleaseMoved
        If another build has written a version in the meantime.
    """
    records = list(state.inherited.records)
    used: set[str] = set()
    damaged: list[SetAsideRow] = []
    planned = dict.fromkeys(state.recipe.aspects, 0)
    for record in records:
        planned[record.aspect] += 1
    for candidate in state.candidates:
        if state.inherited.has(candidate.source_id, candidate.aspect):
            continue
        for pair in state.pairs_of(candidate.source_id):
            if pair.aspect == candidate.aspect and pair.pair_id not in state.settled:
                planned[pair.aspect] += 1
                if pair.done:
                    try:
                        inherited = state.inherited.record(store, pair.pair_id)
                        records.append(inherited or read_pair(store, pair.pair_id))
                        used.add(candidate.source_id)
                    except IntegrityError as problem:
                        damaged.append(_damaged_row(state, pair, candidate.source_id, problem))
    rows = [*state.rows, *damaged]
    problems = pin_problems(state.recipe.pins, records, state.sources, rows)
    wrong = {row.key for row in problems}
    records = [record for record in records if record.pair_id not in wrong]
    rows += problems
    lost = [row for row in rows if not row.aspect or row.stage in ("degrade", "verify")]
    for row in lost:
        if row.aspect in planned:
            planned[row.aspect] += 1
    if state.recipe.pins:
        planned.update(Counter(pin.aspect for pin in state.recipe.pins))
    set_aside = [*rows, *_no_pair_rows(state)]
    source_table, clip_table = _source_tables(state, used)
    release, new = write_release(
        store,
        options.release,
        state.recipe,
        records,
        source_table,
        clip_table,
        set_aside,
        planned,
        extends=state.inherited.version,
        newest=None if options.fresh else state.newest,
    )
    return BuildResult(release, new, plan, tuple(set_aside), len(lost), unsettled)


def _damaged_row(
    state: BuildState, pair: PlannedPair, source_id: str, problem: IntegrityError
) -> SetAsideRow:
    row = source_row(state.sources[source_id], "verify", Reason.CHECKSUM_MISMATCH, str(problem))
    return row.model_copy(update={"aspect": pair.aspect})


def _no_pair_rows(state: BuildState) -> list[SetAsideRow]:
    return _clip_rows(state) + [
        source_row(
            state.sources[report.source_id],
            CONTROL_STAGE if none.control else "candidates",
            none.reason,
            none.message,
        ).model_copy(update={"aspect": none.aspect})
        for report in state.reports.values()
        for none in report.no_pair
    ]


def _clip_rows(state: BuildState) -> list[SetAsideRow]:
    """Return a row for each damaged source with clips past its end, which are left out."""
    rows = []
    for report in state.reports.values():
        source = state.sources[report.source_id]
        past = source.clips[len(report.spans) :]
        if past:
            message = (
                f"{source.title} is {DAMAGE_TEXTS.get(report.damage, 'shorter than its captions')}, "
                f"{report.duration_s:.1f} s: {count_text(len(past), 'clip')} from clip {past[0].index} "
                f"({past[0].start_s:g} s) on lie past its end and are left out; get the complete file"
            )
            rows.append(source_row(source, CLIPS_STAGE, Reason.CLIP_PAST_END, message))
    return rows


def _source_tables(state: BuildState, used: set[str]) -> tuple[list[SourceRow], list[ClipRow]]:
    sources, clips = state.inherited.tables()
    for source_id in sorted(used):
        row, rows = source_rows(state.sources[source_id], state.reports[source_id], state.recipe)
        sources.append(row)
        clips += rows
    return sources, clips
