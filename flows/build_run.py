"""The build, whoever runs its stages: scan, inspect, draw, then ingest → degrade → verify, then release.

New work is what the plan wants minus what has a manifest. That is resume, incremental build and scheduled
re-build; where it is empty nothing is started.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from flows.build_release import BuildResult, release_of, summary_rows
from flows.check_models import check_models
from flows.check_server import check_server
from flows.kept import KeptPairs, kept_pairs
from flows.options import BuildOptions
from flows.pinned import pinned_candidates
from flows.through_stages import StageItem, through_stages
from infra.executor import Executor, InlineExecutor
from infra.progress import BuildProgress
from storage_schemas.errors import Reason, UserInputError
from storage_schemas.failures import append_failures, known_failures
from storage_schemas.plan import PlannedPair, ReleasePlan, SourceReport
from storage_schemas.provenance import utc_now
from storage_schemas.release import Release
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import Source
from storage_schemas.store import TIMELINE, Store
from tasks.annotation.people import filtered_from
from tasks.captions.stage import is_analysed
from tasks.pairs.candidates import Candidate, SourceSummary, draw_candidates
from tasks.pairs.estimate import check_space, plan_release
from tasks.pairs.facts import timeline_id
from tasks.pairs.stages import (
    INSPECT,
    STAGES,
    Outcome,
    Stage,
    Work,
    ingest_key,
    inspect_key,
    inspect_stage,
    source_row,
    stages_for,
)
from tasks.publish.release import ReleaseMoved
from tasks.recipe import Recipe
from tasks.sources.registry import open_sources

#: Most tasks of one run: with many more, the server's recorder falls behind and loses some.
MOST_TASKS = 2000


@dataclass
class Build:
    """One run of a build; call :meth:`prepare`, then :meth:`run`."""

    options: BuildOptions
    progress: BuildProgress
    store: Store = field(init=False)
    sources: dict[str, Source] = field(default_factory=dict)
    reports: dict[str, SourceReport] = field(default_factory=dict)
    rows: list[SetAsideRow] = field(default_factory=list)
    excluded: set[tuple[str, str]] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    candidates: list[Candidate] = field(default_factory=list)
    kept: KeptPairs = field(default_factory=KeptPairs)
    newest: int = 0

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.options.recipe

    @property
    def work(self) -> Work:
        """What the stages need to know."""
        return Work(
            store=str(self.store.root),
            recipe=self.options.recipe,
            models=self.options.models,
            placement=self.options.placement,
            allow_cpu_models=self.options.allow_cpu_models,
            model_servers=self.options.model_servers,
        )

    @property
    def batch(self) -> int:
        """How many sources run as one task, so that a run has no more tasks than a server takes well."""
        return math.ceil(len(self.sources) * (1 + len(STAGES)) / MOST_TASKS) or 1

    def prepare(self) -> None:
        """Open the store, scan the sources, and inspect those that earlier builds know.

        Raises
        ------
        UserInputError, StoreError, PrerequisiteError
            If the build cannot start at all; nothing was done then.
        """
        self.recipe.check()
        self.store = Store.create(Path(self.options.store))
        self.store.clear_abandoned()
        check_models(self.recipe, self.options.models, self.progress.say)
        self._scan()
        failures = {} if self.options.retry else known_failures(self.store)
        analyser = self.recipe.caption_analysis
        for source in list(self.sources.values()):
            ingested = self.store.has(TIMELINE, timeline_id(source, self.recipe))
            known = failures.get(inspect_key(source, self.recipe))
            if not ingested:
                known = failures.get(ingest_key(source, self.recipe)) or known
            if ingested and is_analysed(self.store, source, analyser):
                # whatever failed before; to inspect it again costs next to nothing
                self._take(inspect_stage(self.work, source, tuple(self.recipe.aspects)))
            elif known is not None:
                self._lose_source(source, known)
        check_server(self.store, self._unknown(), analyser, self.work.servers)
        self._use_failures(failures)
        self._draw()

    def idle(self) -> bool:
        """Return whether nothing has to be inspected or made."""
        return not self._unknown() and not self._missing()

    def run(self, open_executor: Callable[[], Executor]) -> BuildResult:
        """Inspect what is new, make what is missing, and write the release.

        Parameters
        ----------
        open_executor
            Called once, if there is work.
        """
        with ExitStack() as stack:
            executor = cache(lambda: stack.enter_context(open_executor()))
            self.inspect(executor)
            plan = self.plan()
            if self._missing():
                check_space(plan, self.store, self.options.quota_bytes)
            while True:
                while missing := self._missing():
                    self._make(executor(), missing)
                    self._draw()
                try:
                    result = release_of(self, plan)
                    self.progress.note_summary(summary_rows(result.release))
                    return result
                except ReleaseMoved:
                    self.progress.say("another build wrote a version of this release: extending that one")
                    self._draw()

    def inspect(self, executor: Callable[[], Executor]) -> None:
        """Inspect the sources that no earlier build knows, and draw the candidates.

        Parameters
        ----------
        executor
            Called if there are any.
        """
        unknown = self._unknown()
        if unknown:
            self.progress.expect("inspect", len(unknown))
            items = [StageItem(source, tuple(self.recipe.aspects), [INSPECT]) for source in unknown]
            self._through(executor(), items)
            self._use_failures({} if self.options.retry else known_failures(self.store))
            self._draw()

    def plan(self) -> ReleasePlan:
        """Return the plan: all pairs of the release to be, and what making the missing ones takes."""
        return plan_release(
            self.store, self.reports, self.candidates, tuple(self.recipe.aspects), self.kept.keys
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
            raise UserInputError("no sources were given: use --sources folder:PATH or --sources vript:PATH")

    def _parent(self) -> Release | None:
        try:
            parent = Release.open(self.store, self.options.release)
        except UserInputError:
            return None
        origin = filtered_from(parent)
        if origin is not None:
            raise UserInputError(
                f"release {parent.name} is what people left of {origin['name']}: build {origin['name']}, and "
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

    def _take(self, outcome: Outcome) -> bool:
        """Note what a stage said; return whether the source goes on to the next stage."""
        source = self.sources.get(outcome.source_id)
        if source is None:
            return False
        if outcome.report is not None:
            self.reports[source.id] = outcome.report
        append_failures(self.store, [row for row in outcome.rows if row.key])
        planned = {pair.pair_id: pair for pair in self.pairs_of(source.id)}
        for row in outcome.rows:
            if row.aspect and row.key in planned:
                self._lose_pair(planned[row.key], row)
            elif row.aspect:
                self.rows.append(row)
                self.excluded.add((row.source_id, row.aspect))
            else:
                self._lose_source(source, row)
                return False
        return True

    def pairs_of(self, source_id: str) -> tuple[PlannedPair, ...]:
        """Return the pairs that could be made of a source, or those that the recipe pins."""
        report = self.reports.get(source_id)
        pairs = report.pairs if report is not None else ()
        if self.recipe.pins:
            pinned = {pin.pair_id for pin in self.recipe.pins}
            return tuple(pair for pair in pairs if pair.pair_id in pinned)
        return pairs

    def _draw(self) -> None:
        parent = self._parent()
        self.newest = parent.version if parent is not None else 0
        self.kept = kept_pairs(self.store, None if self.options.fresh else parent, self.recipe, self.sources)
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
            kept=self.kept.candidates(self.reports, self.excluded),
            excluded=self.excluded,
        )

    def _missing(self) -> dict[str, tuple[str, ...]]:
        """Return, by source, the aspects that still miss a pair."""
        missing: dict[str, list[str]] = {}
        for candidate in self.candidates:
            if self.kept.has(candidate.source_id, candidate.aspect):
                continue
            for pair in self.pairs_of(candidate.source_id):
                # a pair that is there needs its source's timeline too, which only ingest makes
                there = pair.done and self.reports[candidate.source_id].exact
                if pair.aspect == candidate.aspect and not there and pair.pair_id not in self.settled:
                    missing.setdefault(candidate.source_id, []).append(candidate.aspect)
                    break
        return {source_id: tuple(aspects) for source_id, aspects in missing.items()}

    # -- running -------------------------------------------------------------------------------------

    def _make(self, executor: Executor, missing: Mapping[str, tuple[str, ...]]) -> None:
        items = []
        for source_id, aspects in missing.items():
            pools = {
                self.work.pool_of(pair.aspect, pair.pool)
                for pair in self.pairs_of(source_id)
                if pair.aspect in aspects and pair.pair_id not in self.settled
            }
            items.append(StageItem(self.sources[source_id], aspects, stages_for(pools)))
        expected = Counter(stage.name for item in items for stage in item.stages)
        for name, total in expected.items():
            self.progress.expect(name, total)
        self._through(executor, items)
        for source_id, aspects in missing.items():
            for pair in self.pairs_of(source_id):
                if pair.aspect in aspects and not pair.done and pair.pair_id not in self.settled:
                    # made, and yet not there under the id that the plan says: never try for ever
                    message = f"{pair.aspect} of {source_id} was made but is not in the store"
                    row = source_row(self.sources[source_id], "verify", Reason.INTERNAL_ERROR, message)
                    self._lose_pair(pair, row.model_copy(update={"aspect": pair.aspect}))

    def _through(self, executor: Executor, items: list[StageItem]) -> None:
        through_stages(executor, self.work, items, self.progress, self._take, self._died, self.batch)

    def _died(self, item: StageItem, message: str) -> Outcome:
        """Return the rows of a source that ended its worker; their keys keep the next build from it."""
        stage, source = item.next.name, item.source
        row = source_row(source, stage, Reason.WORKER_DIED, message)
        keys = {"inspect": inspect_key, "ingest": ingest_key}
        if stage in keys:
            rows = [row.model_copy(update={"key": keys[stage](source, self.recipe)})]
        else:
            # it was ingested: what cannot be made are these pairs
            rows = [
                row.model_copy(update={"aspect": pair.aspect, "key": pair.pair_id})
                for pair in self.pairs_of(source.id)
                if pair.aspect in item.aspects and not pair.done and self._made_in(pair, item.next)
            ]
        return Outcome(source.id, stage, rows=tuple(rows))

    def _made_in(self, pair: PlannedPair, stage: Stage) -> bool:
        return stage.name == "verify" or self.work.pool_of(pair.aspect, pair.pool) == stage.pool


def _second_of_its_id(second: Source, first: Source) -> SetAsideRow:
    if second.content_sha256 == first.content_sha256:
        message = f"{second.video} has the same content as {first.video}: remove one of them"
        return source_row(second, "catalogue", Reason.DUPLICATE_CONTENT, message)
    message = f"{second.video} has the id of {first.video} ({first.id}): give one of them another id"
    return source_row(second, "catalogue", Reason.DUPLICATE_ID, message)


def build_inline(options: BuildOptions, progress: BuildProgress | None = None) -> BuildResult:
    """Build in this process, without any executor: for tests and small things."""
    with progress or BuildProgress(quiet=True) as shown:
        build = Build(options, shown)
        build.prepare()
        return build.run(InlineExecutor)
