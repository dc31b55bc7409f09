"""The build, on any executor: scan, inspect, draw, then ingest → degrade → verify, then release.

New work is what the plan needs minus what has a manifest. This covers resuming, incremental builds and
scheduled rebuilds; if there is none, nothing is started. Model weights and the caption analyser's server are
checked before a build starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from flows.batches import Batching
from flows.declaration import NothingToDo
from flows.release.fixed_pairs import InheritedPairs, inherited_pairs, pin_problems, pinned_candidates
from flows.release.options import BuildOptions
from flows.release.stage_seconds import StageSeconds, lengths
from flows.stages import StageItem, run_batch, through_stages
from infra.executor import Executor
from infra.progress import BuildProgress
from storage_schemas.errors import IntegrityError, Reason, UserInputError
from storage_schemas.pair import PlannedPair, ReleasePlan, SourceReport
from storage_schemas.provenance import utc_now
from storage_schemas.release import Release
from storage_schemas.set_aside import CLIPS_STAGE, CONTROL_STAGE, SetAsideRow, append_failures, known_failures
from storage_schemas.sizes import size_text
from storage_schemas.source import DAMAGE_TEXTS, ClipRow, Source, SourceRow
from storage_schemas.store import TIMELINE, Store
from storage_schemas.store_wait import StoreWait
from tasks.captions.stage import make_analyser
from tasks.llm.servers import Servers
from tasks.models.hub import ModelCheck
from tasks.models.small import fetch_small
from tasks.pairs.degrade import read_pair
from tasks.pairs.facts import captions_analysed, timeline_id
from tasks.pairs.known_reports import KnownReports
from tasks.pairs.release_plan import Candidate, SourceSummary, check_space, draw_candidates, plan_release
from tasks.pairs.stages import (
    BuildWork,
    SourceStage,
    StageResult,
    degrade_name,
    ingest_key,
    inspect_key,
    inspect_stage,
    inspection,
    source_row,
    stages_for,
)
from tasks.publish.release import ReleaseMoved, source_rows, write_release
from tasks.recipe import Recipe, check_recipe
from tasks.sources.registry import open_sources
from tasks.votes.release_votes import filtered_from


def check_server(store: Store, sources: Iterable[Source], recipe: Recipe, servers: Servers) -> None:
    """Check the caption analyser's server; none is needed if all captions are analysed.

    Parameters
    ----------
    sources
        The sources to be inspected.

    Raises
    ------
    PrerequisiteError
        If captions must be analysed and the server is unavailable or lacks the model.
    """
    if any(not captions_analysed(store, source, recipe) for source in sources):
        make_analyser(recipe.caption_analysis, servers).check_server()


#: Smaller models are read without showing progress.
_WORTH_A_LINE = 1_000_000_000


def check_models(recipe: Recipe, folders: Sequence[str], say: Callable[[str], None]) -> None:
    """Find and verify all models of a recipe, reporting all problems together; fetch small ones.

    Checksums of large files are remembered while the files do not change.

    Raises
    ------
    PrerequisiteError, IntegrityError, UserInputError
        With each model's problem and the command that fetches it.
    """

    def reading(done: int, total: int, path: str) -> None:
        if total >= _WORTH_A_LINE:
            say(f"checking weights, {size_text(done)} of {size_text(total)}: {path}")

    paths = [Path(folder) for folder in folders]
    check = ModelCheck(paths, progress=reading)
    check_recipe(recipe, check)
    if fetch_small((name for name, problem in check.problems.items() if problem is not None), paths, say):
        check = ModelCheck(paths, progress=reading)
        check_recipe(recipe, check)
    check.raise_problems()


@dataclass(frozen=True)
class BuildResult:
    """Result of a build: the release version, whether it is new, and the plan.

    Parameters
    ----------
    set_aside, lost
        What could not be built, and the number of sources and planned pairs affected.
    unsettled
        Number of files left to the next run because they are still being written.
    """

    release: Release
    new: bool
    plan: ReleasePlan
    set_aside: tuple[SetAsideRow, ...]
    lost: int
    unsettled: int = 0

    @property
    def exit_code(self) -> int:
        """0: everything planned is built; 3: some sources or planned pairs were set aside."""
        return 3 if self.lost else 0

    def in_words(self) -> str:
        """Return a summary in a sentence or two."""
        release = self.release
        made = release.manifest.content
        counts = f"{counted(made['pairs'], 'pair')} of {counted(made['sources'], 'source')}"
        if self.new:
            says = f"Version {release.version} of release {release.name} is written: {counts}"
        else:
            says = f"Nothing new: release {release.name} stays at version {release.version}, {counts}"
        if self.lost:
            says += f"; {counted(self.lost, 'source or planned pair')} set aside"
        if self.unsettled:
            says += f"; {counted(self.unsettled, 'file')} still being written, left to the next run"
        return says + "."


def counted(count: int, what: str) -> str:
    """Return a count with its noun, for messages."""
    return f"{count} {what}" if count == 1 else f"{count} {what.replace(' or ', 's or ')}s"


def release_of(build: Build, plan: ReleasePlan) -> BuildResult:
    """Write the built pairs as a release version, unless the newest version equals it.

    Raises
    ------
    ReleaseMoved
        If another build has written a version in the meantime.
    """
    records = list(build.inherited.records)
    used: set[str] = set()
    damaged: list[SetAsideRow] = []
    planned = dict.fromkeys(build.recipe.aspects, 0)
    for record in records:
        planned[record.aspect] += 1
    for candidate in build.candidates:
        if build.inherited.has(candidate.source_id, candidate.aspect):
            continue
        for pair in build.pairs_of(candidate.source_id):
            if pair.aspect == candidate.aspect and pair.pair_id not in build.settled:
                planned[pair.aspect] += 1
                if pair.done:
                    try:
                        known = build.inherited.record(build.store, pair.pair_id)
                        records.append(known or read_pair(build.store, pair.pair_id))
                        used.add(candidate.source_id)
                    except IntegrityError as problem:
                        damaged.append(_damaged_row(build, pair, candidate.source_id, problem))
    rows = [*build.rows, *damaged]
    problems = pin_problems(build.recipe.pins, records, build.sources, rows)
    wrong = {row.key for row in problems}
    records = [record for record in records if record.pair_id not in wrong]
    rows += problems
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
        extends=build.inherited.version,
        newest=None if build.options.fresh else build.newest,
    )
    return BuildResult(release, new, plan, tuple(set_aside), len(lost), build.unsettled)


def _damaged_row(build: Build, pair: PlannedPair, source_id: str, problem: IntegrityError) -> SetAsideRow:
    row = source_row(build.sources[source_id], "verify", Reason.CHECKSUM_MISMATCH, str(problem))
    return row.model_copy(update={"aspect": pair.aspect})


def _no_pair_rows(build: Build) -> list[SetAsideRow]:
    return _clip_rows(build) + [
        source_row(
            build.sources[report.source_id],
            CONTROL_STAGE if none.control else "candidates",
            none.reason,
            none.message,
        ).model_copy(update={"aspect": none.aspect})
        for report in build.reports.values()
        for none in report.no_pair
    ]


def _clip_rows(build: Build) -> list[SetAsideRow]:
    """Return a row for each damaged source with clips past its end, which are left out."""
    rows = []
    for report in build.reports.values():
        source = build.sources[report.source_id]
        past = source.clips[len(report.spans) :]
        if past:
            message = (
                f"{source.title} is {DAMAGE_TEXTS.get(report.damage, 'shorter than its captions')}, "
                f"{report.duration_s:.1f} s: {counted(len(past), 'clip')} from clip {past[0].index} "
                f"({past[0].start_s:g} s) on end after it and are left out; get the whole file"
            )
            rows.append(source_row(source, CLIPS_STAGE, Reason.CLIP_PAST_END, message))
    return rows


def _source_tables(build: Build, used: set[str]) -> tuple[list[SourceRow], list[ClipRow]]:
    sources, clips = build.inherited.tables()
    for source_id in sorted(used):
        row, rows = source_rows(build.sources[source_id], build.reports[source_id], build.recipe)
        sources.append(row)
        clips += rows
    return sources, clips


def summary_rows(release: Release) -> list[dict[str, Any]]:
    """Return a row per aspect of a release: planned, built, set aside and why."""
    return [{"aspect": aspect, **counts} for aspect, counts in release.summary().items()]


#: Maximum number of threads that decode one source: what one thread can store in the meantime.
MOST_THREADS = 8
#: Maximum number of tasks per run: with many more, the server's recorder falls behind and loses some.
MOST_TASKS = 2000
#: Share of them that inspects sources.
INSPECTING = 0.2


@dataclass
class Build:
    """One run of a build; call :meth:`prepare`, then :meth:`run`."""

    options: BuildOptions
    progress: BuildProgress
    store: Store = field(init=False)
    known: KnownReports = field(init=False)
    sources: dict[str, Source] = field(default_factory=dict)
    reports: dict[str, SourceReport] = field(default_factory=dict)
    rows: list[SetAsideRow] = field(default_factory=list)
    excluded: set[tuple[str, str]] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    candidates: list[Candidate] = field(default_factory=list)
    inherited: InheritedPairs = field(default_factory=InheritedPairs)
    newest: int = 0
    unsettled: int = 0
    tasks_left: int = MOST_TASKS

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.options.recipe

    @property
    def work(self) -> BuildWork:
        """Context of the stages."""
        return BuildWork(
            store=str(self.store.root),
            recipe=self.options.recipe,
            model_folders=self.options.model_folders,
            placement=self.options.placement,
            allow_cpu_models=self.options.allow_cpu_models,
            model_servers=self.options.model_servers,
        )

    @property
    def store_wait(self) -> StoreWait:
        """Repeats what failed because the store was away."""
        return StoreWait(store=str(self.store.root), limit_s=self.options.store_wait_s)

    @cached_property
    def stage_seconds(self) -> StageSeconds:
        """How long stages take."""
        placement = self.options.placement
        on_gpu = {degrade_name(placement, pool) for pool, has in placement.known.items() if has == "gpu"}
        return StageSeconds(self.store, self.recipe.name, on_gpu)

    def prepare(self) -> None:
        """Open the store, scan the sources, and inspect those known from earlier builds.

        Raises
        ------
        UserInputError, StoreError, PrerequisiteError
            If the build cannot start; nothing has been done.
        NothingToDo
            If all sources are still being written and are left to the next run.
        """
        self.recipe.check()
        self.store = self.options.open_store()
        self.store.clear_abandoned()
        check_models(self.recipe, self.options.model_folders, self.progress.say)
        _, models = self.work.open()
        self.known = KnownReports(self.store, self.recipe, models)
        self._scan()
        failures = {} if self.options.retry else known_failures(self.store)
        for source in list(self.sources.values()):
            ingested = self.store.has(TIMELINE, timeline_id(source, self.recipe))
            known = failures.get(inspect_key(source, self.recipe))
            if not ingested:
                known = failures.get(ingest_key(source, self.recipe)) or known
            report = self.known.find(source) if ingested or known is None else None
            if report is not None:
                self.reports[source.id] = report
            elif ingested and captions_analysed(self.store, source, self.recipe):
                # inspecting again is cheap, whatever failed before
                calls = [(source, tuple(self.recipe.aspects))]
                (ran,) = run_batch([inspect_stage], self.work, calls, self.store_wait)
                self._take(ran.outcome)
            elif known is not None:
                self._lose_source(source, known)
        check_server(self.store, self._unknown(), self.recipe, self.work.servers)
        self._use_failures(failures)
        self._draw()
        if self.options.leave_unsettled:
            self._leave_unsettled()

    def _leave_unsettled(self) -> None:
        remaining = [row for row in self.rows if row.reason is not Reason.STILL_BEING_WRITTEN]
        self.unsettled, self.rows = len(self.rows) - len(remaining), remaining
        if self.unsettled and not (self.sources or self.rows or self.newest):
            files = counted(self.unsettled, "file")
            raise NothingToDo(f"Nothing to build yet: {files} still being written, left to the next run.")

    def idle(self) -> bool:
        """Return whether there is nothing to inspect or build."""
        return not self._unknown() and not self._missing()

    def run(self, open_executor: Callable[[], Executor]) -> BuildResult:
        """Inspect new sources, build missing pairs, and write the release.

        Parameters
        ----------
        open_executor
            Called once, if there is work.
        """
        with ExitStack() as stack:
            executor = cache(lambda: stack.enter_context(open_executor()))
            self.inspect(executor, make=True)
            plan = self.plan()
            if self._missing():
                check_space(plan, self.store, self.options.quota_bytes)
            while True:
                while missing := self._missing():
                    self._make(executor(), missing)
                    self._draw()
                try:
                    result = self.store_wait.until_done(partial(release_of, self, plan))
                    self.known.keep(self.sources.values(), self.reports)
                    self.progress.note_summary(summary_rows(result.release))
                    return result
                except ReleaseMoved:
                    self.progress.say("another build wrote a version of this release: extending it")
                    self._draw()

    def inspect(self, executor: Callable[[], Executor], make: bool = False) -> None:
        """Inspect the sources unknown to earlier builds, and draw the candidates.

        A source with many captions needs many tasks: all sources have one turn, then those that need more two
        turns, then four and so on, so that no source waits for a much longer one.

        Parameters
        ----------
        executor
            Called if there are such sources.
        make
            While such sources are inspected, make the pairs that are drawn whatever they turn out to be.
        """
        if self._unknown():
            missing: Mapping[str, tuple[str, ...]] = {}
            turns = 1
            while slow := self._unknown():
                if turns > 1 and make:
                    self._draw([source.id for source in slow])
                    missing = self._missing()
                    if missing:
                        check_space(self.plan(), self.store, self.options.quota_bytes)
                self.progress.expect("inspect", len(slow))
                self._make(executor(), missing, self._inspections(slow), turns)
                turns *= 2
            if not self.options.retry:
                self._use_failures(self.store_wait.until_done(partial(known_failures, self.store)))
            self._draw()
        self.known.keep(self.sources.values(), self.reports)

    def _inspections(self, sources: Iterable[Source]) -> list[StageItem]:
        inspect = inspection(self.options.placement)
        return [StageItem(source, tuple(self.recipe.aspects), [inspect]) for source in sources]

    def plan(self) -> ReleasePlan:
        """Return the plan: all pairs of the release, and the cost of the missing ones."""
        aspects, kept = tuple(self.recipe.aspects), self.inherited.keys
        return self.store_wait.until_done(
            lambda: plan_release(self.store, self.reports, self.candidates, aspects, kept)
        )

    # -- scanning ------------------------------------------------------------------------------------

    def _scan(self) -> None:
        for root in self.options.sources:
            adapter = open_sources(
                root.kind, Path(root.path), self.store.cache, self.options.settle_s, **root.options
            )
            for item in adapter.scan():
                if isinstance(item, SetAsideRow):
                    self.rows.append(item.model_copy(update={"at": item.at or utc_now()}))
                elif item.id in self.sources:
                    self.rows.append(_second_of_its_id(item, self.sources[item.id]))
                else:
                    self.sources[item.id] = item
        if not self.sources and not self.rows and not self.options.sources:
            raise UserInputError("no sources: use --sources folder:PATH or --sources vript:PATH")

    def _parent(self) -> Release | None:
        try:
            parent = Release.open(self.store, self.options.release)
        except UserInputError:
            return None
        # damage would get into the next version, with a checksum of its own
        parent.check()
        origin = filtered_from(parent)
        if origin is not None:
            raise UserInputError(
                f"release {parent.name} was filtered from {origin['name']}: build {origin['name']}, and "
                "filter it again"
            )
        return parent

    def _unknown(self) -> list[Source]:
        return [source for id_, source in self.sources.items() if id_ not in self.reports]

    # -- bookkeeping ---------------------------------------------------------------------------------

    def _lose_source(self, source: Source, row: SetAsideRow) -> None:
        self.sources.pop(source.id, None)
        self.reports.pop(source.id, None)
        self.rows.append(row)

    def _use_failures(self, failures: Mapping[str, SetAsideRow]) -> None:
        for report in self.reports.values():
            for pair in report.pairs:
                known = failures.get(pair.pair_id)
                if known is not None and not pair.done and pair.pair_id not in self.settled:
                    self._lose_pair(pair, known)

    def _lose_pair(self, pair: PlannedPair, row: SetAsideRow) -> None:
        self.settled.add(pair.pair_id)
        self.rows.append(row)
        if pair.main:
            self.excluded.add((row.source_id, row.aspect))

    def _take(self, outcome: StageResult) -> bool:
        """Record a stage's outcome; return whether the source continues to the next stage."""
        source = self.sources.get(outcome.source_id)
        if source is None:
            return False
        if outcome.report is not None:
            self.reports[source.id] = outcome.report
        rows = [row for row in outcome.rows if row.key]
        self.store_wait.until_done(partial(append_failures, self.store, rows))
        planned = {pair.pair_id: pair for pair in self.pairs_of(source.id)}
        for row in outcome.rows:
            if row.aspect and row.key in planned:
                self._lose_pair(planned[row.key], row)
            elif row.aspect:
                self.rows.append(row)
                if row.stage != CONTROL_STAGE:
                    self.excluded.add((row.source_id, row.aspect))
            else:
                self._lose_source(source, row)
                return False
        return True

    def pairs_of(self, source_id: str) -> tuple[PlannedPair, ...]:
        """Return the pairs that a source can provide, or those that the recipe pins."""
        report = self.reports.get(source_id)
        pairs = report.pairs if report is not None else ()
        if self.recipe.pins:
            pinned = {pin.pair_id for pin in self.recipe.pins}
            return tuple(pair for pair in pairs if pair.pair_id in pinned)
        return pairs

    def _draw(self, unknown: Collection[str] = ()) -> None:
        self.store_wait.until_done(self._read_parent)
        if self.recipe.pins:
            self.candidates = pinned_candidates(self.recipe, self.reports)
            return
        summaries = [
            SourceSummary(source_id=r.source_id, duration_s=r.duration_s, aspects=r.aspects)
            for r in self.reports.values()
        ]
        self.candidates = draw_candidates(
            summaries,
            aspects=tuple(self.recipe.aspects),
            seed=self.recipe.seed,
            bin_seconds=self.recipe.bin_seconds,
            pairs_per_bin=self.recipe.pairs_per_bin,
            inherited=self.inherited.candidates(self.reports, self.excluded),
            excluded=self.excluded,
            unknown=unknown,
        )

    def _read_parent(self) -> None:
        parent = self._parent()
        self.newest = parent.version if parent is not None else 0
        self.inherited = inherited_pairs(
            self.store, None if self.options.fresh else parent, self.recipe, self.sources
        )

    def _missing(self) -> dict[str, tuple[str, ...]]:
        """Return, by source, the aspects without a pair."""
        missing: dict[str, list[str]] = {}
        for candidate in self.candidates:
            if self.inherited.has(candidate.source_id, candidate.aspect):
                continue
            for pair in self.pairs_of(candidate.source_id):
                # an existing pair also needs its source's timeline, which only ingest makes
                there = pair.done and self.reports[candidate.source_id].exact
                if pair.aspect == candidate.aspect and not there and pair.pair_id not in self.settled:
                    missing.setdefault(candidate.source_id, []).append(candidate.aspect)
                    break
        return {source_id: tuple(aspects) for source_id, aspects in missing.items()}

    # -- running -------------------------------------------------------------------------------------

    def _make(
        self,
        executor: Executor,
        missing: Mapping[str, tuple[str, ...]],
        slow: Sequence[StageItem] = (),
        turns: int = 0,
    ) -> None:
        """Make missing pairs, and beside them let inspections go on for so many turns."""
        items = []
        for source_id, aspects in missing.items():
            pools = {
                self.work.pool_of(pair.aspect, pair.hardware)
                for pair in self.pairs_of(source_id)
                if pair.aspect in aspects and pair.pair_id not in self.settled
            }
            stages = stages_for(self.options.placement, pools)
            items.append(StageItem(self.sources[source_id], aspects, stages))
        expected = Counter(stage.name for item in items for stage in item.stages)
        for name, total in expected.items():
            self.progress.expect(name, total)
        self._through(executor, [*items, *slow], turns, self._decode_threads(executor, missing))
        for source_id, aspects in missing.items():
            for pair in self.pairs_of(source_id):
                if pair.aspect in aspects and not pair.done and pair.pair_id not in self.settled:
                    # made, but not under the planned id: do not retry forever
                    message = f"{pair.aspect} of {source_id} was made but is not in the store"
                    row = source_row(self.sources[source_id], "verify", Reason.INTERNAL_ERROR, message)
                    self._lose_pair(pair, row.model_copy(update={"aspect": pair.aspect}))

    def _decode_threads(self, executor: Executor, missing: Iterable[str]) -> int:
        """Return how many threads decode a source: several where there are fewer sources than cores."""
        to_ingest = sum(not self.reports[source_id].exact for source_id in missing)
        return min(executor.cores // to_ingest or 1, MOST_THREADS) if to_ingest else 1

    def _through(self, executor: Executor, items: list[StageItem], turns: int, decode_threads: int) -> None:
        taken: Counter[str] = Counter()
        units = cache(partial(self._units, {item.source.id: item for item in items}, self._lengths()))

        def seconds(stage: str, source_id: str) -> float:
            return self.stage_seconds.of(stage, units(stage, source_id))

        def ran(stage: str, source_id: str, seconds: float) -> None:
            if decode_threads == 1 or stage != "ingest":
                self.stage_seconds.ran(stage, units(stage, source_id), seconds)

        inspects = all(item.next.name == "inspect" for item in items)
        tasks = round(INSPECTING * MOST_TASKS) if inspects else self.tasks_left

        def unfinished(outcome: StageResult) -> bool:
            taken[outcome.source_id] += outcome.unfinished
            return outcome.unfinished and taken[outcome.source_id] < turns

        started = through_stages(
            executor,
            replace(self.work, decode_threads=decode_threads),
            items,
            self.progress,
            self._take,
            self._died,
            Batching(tasks, seconds, ran),
            self.store_wait,
            unfinished,
        )
        # what comes after all tasks are used up still has some
        self.tasks_left = max(self.tasks_left - started, MOST_TASKS // 10)
        self.stage_seconds.keep()

    def _lengths(self) -> dict[str, float]:
        return lengths(self.sources.values(), self.reports)

    def _units(
        self, items: Mapping[str, StageItem], lengths: Mapping[str, float], stage: str, source_id: str
    ) -> float:
        """Return the size of a stage: seconds of video, or new frames; 0 if it is done."""
        report = self.reports.get(source_id)
        if not stage.startswith("degrade"):
            ingested = stage == "ingest" and report is not None and report.exact and report.has_frames
            return 0.0 if ingested else lengths.get(source_id, 0.0)
        return sum(
            pair.new_frames
            for pair in self.pairs_of(source_id)
            if pair.aspect in items[source_id].aspects and not pair.done and self._degraded_in(pair) == stage
        )

    def _died(self, item: StageItem, message: str) -> StageResult:
        """Return the rows of a source that killed its worker; their keys make the next build skip it."""
        stage, source = item.next.name, item.source
        row = source_row(source, stage, Reason.WORKER_DIED, message)
        keys = {"inspect": inspect_key, "ingest": ingest_key}
        if stage in keys:
            rows = [row.model_copy(update={"key": keys[stage](source, self.recipe)})]
        else:
            # the source was ingested: only these pairs fail
            rows = [
                row.model_copy(update={"aspect": pair.aspect, "key": pair.pair_id})
                for pair in self.pairs_of(source.id)
                if pair.aspect in item.aspects and not pair.done and self._made_in(pair, item.next)
            ]
        return StageResult(source.id, stage, rows=tuple(rows))

    def _made_in(self, pair: PlannedPair, stage: SourceStage) -> bool:
        return stage.name == "verify" or self._degraded_in(pair) == stage.name

    def _degraded_in(self, pair: PlannedPair) -> str:
        """Return the name of the stage that degrades a pair."""
        return degrade_name(self.options.placement, self.work.pool_of(pair.aspect, pair.hardware))


def _second_of_its_id(second: Source, first: Source) -> SetAsideRow:
    if second.content_sha256 == first.content_sha256:
        message = f"{second.video} has the same content as {first.video}: remove one of them"
        return source_row(second, "catalogue", Reason.DUPLICATE_CONTENT, message)
    message = f"{second.video} has the id of {first.video} ({first.id}): give one of them another id"
    return source_row(second, "catalogue", Reason.DUPLICATE_ID, message)
