"""The build, on any executor: scan, inspect, draw, then ingest → degrade → verify, then release.

New work is the plan's artifacts minus those with a manifest. This covers resuming, incremental builds and
scheduled rebuilds; without new work, nothing is started. Model weights and the caption analyser's server are
checked before a build starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

from flows.batches import Batching
from flows.declaration import NothingToDo
from flows.release.checks import check_models, check_server
from flows.release.fixed_pairs import inherited_pairs, pinned_candidates
from flows.release.missing import missing_aspects, unknown_sources
from flows.release.options import BuildOptions
from flows.release.result import BuildResult, summary_rows
from flows.release.sources import extended_release, open_all_sources, scan_sources
from flows.release.stage_seconds import StageSeconds, lengths
from flows.release.state import BuildState
from flows.release.write import release_of
from flows.stages import StageItem, run_batch, through_stages
from infra.executor import Executor
from infra.progress import BuildProgress
from storage_schemas.counts import count_text
from storage_schemas.errors import Reason
from storage_schemas.pair import PlannedPair, ReleasePlan
from storage_schemas.set_aside import append_failures, known_failures
from storage_schemas.source import Source
from storage_schemas.store import TIMELINE, Store
from storage_schemas.store_wait import StoreWait
from tasks.pairs.facts import captions_analysed, timeline_id
from tasks.pairs.known_reports import KnownReports
from tasks.pairs.release_plan import SourceSummary, check_space, draw_candidates, plan_release
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
from tasks.publish.release import ReleaseMoved
from tasks.recipe import Recipe

#: Maximum number of threads that decode one source: what one thread can store in the meantime.
MAX_THREADS = 8
#: Maximum number of tasks per run: with many more, the server's recorder falls behind and loses some.
MAX_TASKS = 2000
#: Share of these tasks for inspecting sources.
INSPECTING = 0.2


@dataclass
class Build:
    """One run of a build; call :meth:`prepare`, then :meth:`run`."""

    options: BuildOptions
    progress: BuildProgress
    store: Store = field(init=False)
    known_reports: KnownReports = field(init=False)
    state: BuildState = field(init=False)
    unsettled: int = 0
    tasks_left: int = MAX_TASKS

    def __post_init__(self) -> None:
        self.state = BuildState(self.options.recipe)

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
        """Repeats work that failed because the store was unavailable."""
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
        # before the store is created and weights are checked: a misspelled folder must leave nothing behind
        adapters = open_all_sources(self.options)
        self.store = self.options.open_store()
        self.store.clear_abandoned()
        check_models(self.recipe, self.options.model_folders, self.progress.say)
        _, models = self.work.open()
        self.known_reports = KnownReports(self.store, self.recipe, models)
        scan_sources(self.state, adapters)
        failures = {} if self.options.retry else known_failures(self.store)
        for source in list(self.state.sources.values()):
            ingested = self.store.has(TIMELINE, timeline_id(source, self.recipe))
            failure = failures.get(inspect_key(source, self.recipe))
            if not ingested:
                failure = failures.get(ingest_key(source, self.recipe)) or failure
            report = self.known_reports.find(source) if ingested or failure is None else None
            if report is not None:
                self.state.reports[source.id] = report
            elif ingested and captions_analysed(self.store, source, self.recipe):
                # inspecting again is cheap, whatever failed before
                calls = [(source, tuple(self.recipe.aspects))]
                (ran,) = run_batch([inspect_stage], self.work, calls, self.store_wait)
                self._take(ran.outcome)
            elif failure is not None:
                self.state.lose_source(source, failure)
        check_server(self.store, unknown_sources(self.state), self.recipe, self.work.servers)
        self.state.use_failures(failures)
        self._draw()
        if self.options.leave_unsettled:
            self._leave_unsettled()

    def _leave_unsettled(self) -> None:
        remaining = [row for row in self.state.rows if row.reason is not Reason.STILL_BEING_WRITTEN]
        self.unsettled, self.state.rows = len(self.state.rows) - len(remaining), remaining
        if self.unsettled and not (self.state.sources or self.state.rows or self.state.newest):
            files = count_text(self.unsettled, "file")
            raise NothingToDo(f"Nothing to build yet: {files} still being written, left to the next run.")

    def idle(self) -> bool:
        """Return whether there is nothing to inspect or build."""
        return not unknown_sources(self.state) and not missing_aspects(self.state)

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
            if missing_aspects(self.state):
                check_space(plan, self.store, self.options.quota_bytes)
            while True:
                while missing := missing_aspects(self.state):
                    self._make(executor(), missing)
                    self._draw()
                try:
                    result = self.store_wait.until_done(
                        partial(release_of, self.state, self.store, self.options, plan, self.unsettled)
                    )
                    self.known_reports.keep(self.state.sources.values(), self.state.reports)
                    self.progress.note_summary(summary_rows(result.release))
                    return result
                except ReleaseMoved:
                    self.progress.say("another build wrote a version of this release: extending it")
                    self._draw()

    def inspect(self, executor: Callable[[], Executor], make: bool = False) -> None:
        """Inspect the sources unknown to earlier builds, and draw the candidates.

        A source with many captions needs many tasks: all sources get one turn, then those that need more get
        two turns, then four and so on, so that no source waits for a much longer one.

        Parameters
        ----------
        executor
            Called if there are such sources.
        make
            While such sources are inspected, build the pairs whose selection cannot depend on them.
        """
        if unknown_sources(self.state):
            missing: Mapping[str, tuple[str, ...]] = {}
            turns = 1
            while slow := unknown_sources(self.state):
                if turns > 1 and make:
                    self._draw([source.id for source in slow])
                    missing = missing_aspects(self.state)
                    if missing:
                        check_space(self.plan(), self.store, self.options.quota_bytes)
                self.progress.expect("inspect", len(slow))
                self._make(executor(), missing, self._inspections(slow), turns)
                turns *= 2
            if not self.options.retry:
                self.state.use_failures(self.store_wait.until_done(partial(known_failures, self.store)))
            self._draw()
        self.known_reports.keep(self.state.sources.values(), self.state.reports)

    def _inspections(self, sources: Iterable[Source]) -> list[StageItem]:
        inspect = inspection(self.options.placement)
        return [StageItem(source, tuple(self.recipe.aspects), [inspect]) for source in sources]

    def plan(self) -> ReleasePlan:
        """Return the plan: all pairs of the release, and the cost of the missing ones."""
        aspects, kept = tuple(self.recipe.aspects), self.state.inherited.keys
        return self.store_wait.until_done(
            lambda: plan_release(self.store, self.state.reports, self.state.candidates, aspects, kept)
        )

    # -- drawing -------------------------------------------------------------------------------------

    def _take(self, outcome: StageResult) -> bool:
        """Store and record a stage's outcome; return whether its source continues to the next stage."""
        if outcome.source_id not in self.state.sources:
            return False
        rows = [row for row in outcome.rows if row.key]
        self.store_wait.until_done(partial(append_failures, self.store, rows))
        return self.state.take(outcome)

    def _draw(self, unknown: Collection[str] = ()) -> None:
        self.store_wait.until_done(self._read_parent)
        if self.recipe.pins:
            self.state.candidates = pinned_candidates(self.recipe, self.state.reports)
            return
        summaries = [
            SourceSummary(source_id=r.source_id, duration_s=r.duration_s, aspects=r.aspects)
            for r in self.state.reports.values()
        ]
        self.state.candidates = draw_candidates(
            summaries,
            aspects=tuple(self.recipe.aspects),
            seed=self.recipe.seed,
            bin_seconds=self.recipe.bin_seconds,
            pairs_per_bin=self.recipe.pairs_per_bin,
            inherited=self.state.inherited.candidates(self.state.reports, self.state.excluded),
            excluded=self.state.excluded,
            unknown=unknown,
        )

    def _read_parent(self) -> None:
        parent = extended_release(self.store, self.options.release)
        self.state.newest = parent.version if parent is not None else 0
        self.state.inherited = inherited_pairs(
            self.store, None if self.options.fresh else parent, self.recipe, self.state.sources
        )

    # -- running -------------------------------------------------------------------------------------

    def _make(
        self,
        executor: Executor,
        missing: Mapping[str, tuple[str, ...]],
        slow: Sequence[StageItem] = (),
        turns: int = 0,
    ) -> None:
        """Make missing pairs while inspections continue for `turns` turns."""
        items = self._items(missing)
        expected = Counter(stage.name for item in items for stage in item.stages)
        for name, total in expected.items():
            self.progress.expect(name, total)
        self._through(executor, [*items, *slow], turns, self._decode_threads(executor, missing))
        for source_id, aspects in missing.items():
            for pair in self.state.pairs_of(source_id):
                if pair.aspect in aspects and not pair.done and pair.pair_id not in self.state.settled:
                    # built, but not under the planned id: do not retry forever
                    message = f"{pair.aspect} of {source_id} was built but is not in the store"
                    row = source_row(self.state.sources[source_id], "verify", Reason.INTERNAL_ERROR, message)
                    self.state.lose_pair(pair, row.model_copy(update={"aspect": pair.aspect}))

    def _items(self, missing: Mapping[str, tuple[str, ...]]) -> list[StageItem]:
        items = []
        for source_id, aspects in missing.items():
            pools = {
                self.work.pool_of(pair.aspect, pair.hardware)
                for pair in self.state.pairs_of(source_id)
                if pair.aspect in aspects and pair.pair_id not in self.state.settled
            }
            stages = stages_for(self.options.placement, pools)
            items.append(StageItem(self.state.sources[source_id], aspects, stages))
        return items

    def seconds_left(self) -> dict[str, dict[str, float]]:
        """Return the estimated seconds of the missing work, by source and pool."""
        items = self._items(missing_aspects(self.state))
        units = partial(self._units, {item.source.id: item for item in items}, self._lengths())
        left: dict[str, dict[str, float]] = {}
        for item in items:
            pools = left.setdefault(item.source.id, {})
            for stage in item.stages:
                seconds = self.stage_seconds.of(stage.name, units(stage.name, item.source.id))
                pools[stage.pool] = pools.get(stage.pool, 0.0) + seconds
        return left

    def _decode_threads(self, executor: Executor, missing: Iterable[str]) -> int:
        """Return how many threads decode a source: several where there are fewer sources than cores."""
        to_ingest = sum(not self.state.reports[source_id].exact for source_id in missing)
        return min(executor.cores // to_ingest or 1, MAX_THREADS) if to_ingest else 1

    def _through(self, executor: Executor, items: list[StageItem], turns: int, decode_threads: int) -> None:
        taken: Counter[str] = Counter()
        units = cache(partial(self._units, {item.source.id: item for item in items}, self._lengths()))

        def seconds(stage: str, source_id: str) -> float:
            return self.stage_seconds.of(stage, units(stage, source_id))

        def ran(stage: str, source_id: str, seconds: float) -> None:
            if decode_threads == 1 or stage != "ingest":
                self.stage_seconds.ran(stage, units(stage, source_id), seconds)

        inspects = all(item.next.name == "inspect" for item in items)
        tasks = round(INSPECTING * MAX_TASKS) if inspects else self.tasks_left

        def unfinished(outcome: StageResult) -> bool:
            taken[outcome.source_id] += outcome.unfinished
            return outcome.unfinished and taken[outcome.source_id] < turns

        started = through_stages(
            executor,
            replace(self.work, decode_threads=decode_threads),
            items,
            self.progress,
            self._take,
            self._on_worker_death,
            Batching(tasks, seconds, ran),
            self.store_wait,
            unfinished,
        )
        # work that is left when all tasks are used up still gets some
        self.tasks_left = max(self.tasks_left - started, MAX_TASKS // 10)
        self.stage_seconds.keep()

    def _lengths(self) -> dict[str, float]:
        return lengths(self.state.sources.values(), self.state.reports)

    def _units(
        self, items: Mapping[str, StageItem], lengths: Mapping[str, float], stage: str, source_id: str
    ) -> float:
        """Return the size of a stage: seconds of video, or new frames; 0 if it is done."""
        report = self.state.reports.get(source_id)
        if not stage.startswith("degrade"):
            ingested = stage == "ingest" and report is not None and report.exact and report.has_frames
            return 0.0 if ingested else lengths.get(source_id, 0.0)
        return sum(
            pair.new_frames
            for pair in self.state.pairs_of(source_id)
            if pair.aspect in items[source_id].aspects and not pair.done and self._degraded_in(pair) == stage
        )

    def _on_worker_death(self, item: StageItem, message: str) -> StageResult:
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
                for pair in self.state.pairs_of(source.id)
                if pair.aspect in item.aspects and not pair.done and self._made_in(pair, item.next)
            ]
        return StageResult(source.id, stage, rows=tuple(rows))

    def _made_in(self, pair: PlannedPair, stage: SourceStage) -> bool:
        return stage.name == "verify" or self._degraded_in(pair) == stage.name

    def _degraded_in(self, pair: PlannedPair) -> str:
        """Return the name of the stage that degrades a pair."""
        return degrade_name(self.options.placement, self.work.pool_of(pair.aspect, pair.hardware))
