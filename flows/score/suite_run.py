"""A run of a suite, whoever runs its tasks: what is wanted and not there, in tasks by dimension.

What a run of a suite wants, minus what the store has: files read, suite made, dimensions looked at.

A dimension that cannot be used is said once, becomes rows with the reason, and stops no other.

Processes of this machine for a suite: several for what is reckoned or asked, one for loaded models.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from flows.score.results import DimensionResult, RequestProgress, SuiteResult
from flows.score.suite_options import SuiteOptions
from flows.stages import Item, through_stages
from infra.executor import Executor, Handle, InlineExecutor, ProcessExecutor
from infra.pool import LOADED
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Failure, is_settled
from storage_schemas.store import Store
from tasks.llm.shared_state import only_one
from tasks.llm.usage import Prices, load_prices
from tasks.models.device import require_gpu
from tasks.pairs.stages import Stage
from tasks.scoring.suites.base import Dimension, Scorer, Suite
from tasks.scoring.suites.estimate import EstimateRow, estimate_dimension
from tasks.scoring.suites.file_video import FrameRate, OpenVideos
from tasks.scoring.suites.manifest import find_manifest, load_manifest
from tasks.scoring.suites.plan import (
    Material,
    ScoringUnit,
    applicable,
    bring_together,
    mini,
    settings_of,
    units_of,
)
from tasks.scoring.suites.prompts import load_prompts
from tasks.scoring.suites.run import SuiteOutcome, SuiteTask, SuiteWork, score_stage
from tasks.scoring.suites.score_store import ScoreId, ScoresStore, id_of
from tasks.scoring.suites.score_unit import copied, failed_rows
from tasks.scoring.user_files import UnusedLine

#: Stands for the settings of a dimension whose scorer cannot even be made.
UNKNOWN_SETTINGS = "unknown"


@dataclass
class Asked:
    """One dimension of the run with its units; why it cannot be used, where it cannot.

    `busy` says that another run scores it now.
    """

    dimension: Dimension
    scorer: Scorer | None = None
    refused: str = ""
    settings: str = ""
    units: list[ScoringUnit] = field(default_factory=list)
    found_before: int = 0
    busy: bool = False
    deaths: int = 0


@dataclass
class Wanted:
    """What is wanted; call :meth:`prepare` first."""

    options: SuiteOptions
    progress: RequestProgress
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    store: Store = field(init=False)
    suite: Suite = field(init=False)
    prices: Prices = field(init=False)
    work: SuiteWork = field(init=False)
    scores: ScoresStore = field(init=False)
    material: Material = field(init=False)
    asked: list[Asked] = field(default_factory=list)
    left_out: list[UnusedLine] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What rows call the suite; scores of changed videos stand apart."""
        return self.work.name

    def prepare(self, ask_servers: bool = True) -> None:
        """Read the files, make the suite, and find what has been scored before.

        Parameters
        ----------
        ask_servers
            Whether scorers check that all they need is there.

        Raises
        ------
        UserInputError, StoreError, IntegrityError, PrerequisiteError
            If the run cannot start at all; nobody was asked then.
        """
        options = self.options
        self.store = options.open_store()
        self.prices = load_prices(options.prices)
        self.suite = options.choice.make()
        sampling = FrameRate(
            fps=options.fps or self.suite.fps,
            long_side=options.long_side or self.suite.long_side,
            blur=options.blur,
        )
        sampling.check()
        self.work = SuiteWork(
            run=self.run_id,
            choice=options.choice,
            sampling=sampling,
            prices=self.prices,
            limits=options.limits,
            retry=options.retry,
            allow_cpu_models=options.allow_cpu_models,
            concurrency=options.concurrency,
        )
        self.scores = ScoresStore(self.store)
        videos = Path(options.videos)
        manifest = Path(options.manifest) if options.manifest else find_manifest(videos)
        prompts = load_prompts(Path(options.prompts), self.suite)
        self.material = bring_together(prompts, load_manifest(manifest, videos, options.generators))
        self.left_out = list(self.material.left_out)
        self.asked = [self._ask(dimension, ask_servers) for dimension in self._dimensions()]
        if all(not one.units and not one.refused for one in self.asked):
            first = f": {self.left_out[0].where}: {self.left_out[0].message}" if self.left_out else ""
            raise UserInputError(f"no video of {manifest} belongs to a prompt of {options.prompts}{first}")
        self.copy_known()
        known = self.scores.known(self.name)
        for one in self.asked:
            ids = [id_ for unit in one.units for id_ in unit.ids]
            one.found_before = sum(is_settled(known.get(id_), options.retry) for id_ in ids)

    def _dimensions(self) -> list[Dimension]:
        there = {dimension.name: dimension for dimension in self.suite.dimensions}
        for name in self.options.dimensions:
            if name not in there:
                raise UserInputError(f"{self.name} has no dimension {name!r}: it has {', '.join(there)}")
        return [
            there[name] for name in there if not self.options.dimensions or name in self.options.dimensions
        ]

    def _ask(self, dimension: Dimension, ask_servers: bool) -> Asked:
        one = Asked(dimension)
        wanted, lacking = applicable(self.material, dimension)
        self.left_out += lacking
        if self.options.mini is not None:
            wanted = mini(wanted, dimension.name, self.options.mini, self.options.seed)
        repeats = self.options.repeats
        try:
            one.scorer = self.work.scorer(dimension.name)
            one.settings = settings_of(self.name, one.scorer, self.work.sampling)
            together = one.scorer.batch == "prompt"
            one.units = units_of(self.material, wanted, dimension.name, one.settings, together, repeats)
            if ask_servers and one.units:
                self._check_pool(one.scorer.pool)
                one.scorer.check()
        except UserInputError:
            raise
        except PrerequisiteError as problem:
            one.refused = str(problem)
        except Exception as problem:  # noqa: BLE001 - perhaps another package's code, which harms no other one
            one.refused = f"{type(problem).__name__}: {problem}"
        if one.refused:
            self.progress.say(f"{dimension.name} cannot be used: {one.refused}")
        if not one.units:
            # what its settings are nobody knows: these rows say why there is no score
            one.settings = UNKNOWN_SETTINGS
            one.units = units_of(self.material, wanted, dimension.name, one.settings, repeats=repeats)
        return one

    def _check_pool(self, pool: str) -> None:
        """Raise PrerequisiteError where there is no place for a pool's work."""
        pools = self.options.pools
        if pools and pool not in pools:
            raise PrerequisiteError(
                f"the profile has no pool {pool!r}, in which it runs: add a table [pools.{pool}]"
            )
        # where there are pools, each worker looks for a GPU of its own: this machine needs none
        if not pools and pool == LOADED and not self.options.allow_cpu_models:
            require_gpu()

    def estimate(
        self, sample: int | None = None, step: Callable[[str], None] = lambda _: None
    ) -> list[EstimateRow]:
        """Return what the missing scores would take, by dimension; nobody is asked."""
        paid: set[str] = set()
        videos = OpenVideos(self.work.sampling)
        found = []
        known = self.scores.known(self.name)
        for one in self.asked:
            units = missing_of(one, known, self.options.retry)
            if one.scorer is not None and units:
                step(one.dimension.name)
                found.append(estimate_dimension(one.scorer, units, videos, self.prices, paid, sample))
        return found

    def copy_known(self) -> None:
        """Let the score of a video, or why it has none, stand for an identical video."""
        known = self.scores.known(self.name)
        by_key: dict[str, ScoreId] = {}
        # a score counts more than a failure
        for id_, failure in sorted(known.items(), key=lambda item: bool(item[1])):
            if is_settled(failure, self.options.retry):
                by_key.setdefault(id_[0], id_)
        wanted = [
            (unit, place, by_key[id_[0]])
            for one in self.asked
            for unit in one.units
            for place, id_ in enumerate(unit.ids)
            if id_[0] in by_key and not is_settled(known.get(id_), self.options.retry)
        ]
        if wanted:
            rows = {id_of(row): row for row in self.scores.rows(self.name)}
            self.scores.add(copied(rows[id_], self.name, unit, place) for unit, place, id_ in wanted)

    def keep_reasons(self) -> None:
        """Write rows with the reason for what has no score because its dimension cannot be used."""
        known = self.scores.known(self.name)
        rows = []
        for one in self.asked:
            if not one.refused or one.busy:
                continue
            for unit in one.units:
                missing = failed_rows(self.name, unit, Failure.PREREQUISITE_MISSING, one.refused)
                ids = zip(unit.ids, missing, strict=True)
                # what is there is no older reason to be written again
                rows += [row for id_, row in ids if known.get(id_) is None]
        self.scores.add(rows)


def settled(unit: ScoringUnit, known: Mapping[ScoreId, str], retry: bool) -> bool:
    """Return whether a unit need not be scored again."""
    return all(is_settled(known.get(id_), retry) for id_ in unit.ids)


def missing_of(one: Asked, known: Mapping[ScoreId, str], retry: bool) -> list[ScoringUnit]:
    """Return the units that are to be scored; of those with the same keys the first."""
    first: dict[str, ScoringUnit] = {}
    for unit in one.units:
        if not settled(unit, known, retry):
            first.setdefault(unit.key, unit)
    return list(first.values())


#: So many tasks whose processes died again and again end a dimension's run.
MOST_DEAD_TASKS = 5
#: Units of one task for each thread that works on it: few wait for the slowest at its end.
_ROUNDS = 8


@dataclass
class SuiteRun(Wanted):
    """One run; call :meth:`prepare`, then :meth:`run`."""

    _again: list[Item[SuiteTask]] = field(default_factory=list)

    def idle(self) -> bool:
        """Return whether nothing has to be scored."""
        return not self._tasks()

    def run(self, open_executor: Callable[[Collection[str]], Executor]) -> SuiteResult:
        """Score what is missing.

        Parameters
        ----------
        open_executor
            Called once, if there is work, with the pools that it needs.
        """
        known = self.scores.known(self.name)
        with ExitStack() as stack:
            for one in self.asked:
                if one.refused or not missing_of(one, known, self.options.retry):
                    continue
                held = digest_text(f"{self.name} {one.dimension.name} {one.settings}")[:32]
                path = self.store.cache / "suites" / f"{held}.held"
                if not stack.enter_context(only_one(path)):
                    one.busy = True
                    one.refused = "another run scores it now: run this again when that one has ended"
                    self.progress.say(f"{one.dimension.name} is left out: {one.refused}")
            return self._run(open_executor)

    def _run(self, open_executor: Callable[[Collection[str]], Executor]) -> SuiteResult:
        tasks = self._tasks()
        if tasks:
            self.progress.watch(
                self.work.spending, sum(len(unit.videos) for item in tasks for unit in item.source.units)
            )
            for item in tasks:
                self.progress.expect(item.source.dimension, 1)
            with open_executor({item.next.pool for item in tasks}) as executor:
                while tasks:
                    self._again = []
                    through_stages(executor, self.work, tasks, self.progress, self._came, self._died)
                    tasks = self._again
                    for item in tasks:
                        self.progress.expect(item.source.dimension, 1)
            self.copy_known()
        self.keep_reasons()
        self.scores.pack(lambda task: task.startswith(self.run_id))
        result = self._result()
        self.work.spending.remove()
        return result

    def _tasks(self) -> list[Item[SuiteTask]]:
        items: list[Item[SuiteTask]] = []
        known = self.scores.known(self.name)
        for one in self.asked:
            if one.scorer is None or one.refused:
                continue
            threads = self.options.concurrency or one.scorer.concurrency
            stage = Stage(one.dimension.name, one.scorer.pool, cast(Any, score_stage))
            left = iter(missing_of(one, known, self.options.retry))
            while units := tuple(islice(left, _ROUNDS * threads)):
                first = units[0]
                title = f"{one.dimension.name} of {first.prompt.prompt_id}"
                task = SuiteTask(f"{self.run_id}-{len(items)}", title, one.dimension.name, units)
                items.append(Item(task, (), [stage]))
        return items

    def _came(self, outcome: SuiteOutcome) -> bool:
        """Note what a process lacks, so that rows say why there is no score; no task has a next stage."""
        (one,) = [one for one in self.asked if one.dimension.name == outcome.dimension]
        if outcome.unusable and not one.refused:
            one.refused = outcome.unusable
            self.progress.say(f"{outcome.dimension} cannot be used: {one.refused}")
        return False

    def _died(self, item: Item[SuiteTask], message: str) -> SuiteOutcome:
        """Make failures of the units that their processes died of, and let the others be scored again."""
        task = item.source
        self.progress.say(message)
        suspects = self.scores.begun(task.id)
        known = self.scores.known(self.name)
        (one,) = [one for one in self.asked if one.dimension.name == task.dimension]
        open_ = [unit for unit in task.units if not settled(unit, known, self.options.retry)]
        lost = [unit for unit in open_ if unit.key in suspects]
        others = tuple(unit for unit in open_ if unit.key not in suspects)
        for unit in lost:
            self.scores.add(failed_rows(self.name, unit, Failure.INTERNAL_ERROR, message))
        one.deaths += 1
        if one.deaths >= MOST_DEAD_TASKS:
            why = f"its processes died again and again; the last time: {message}"
            self.work.spending.stop(task.dimension, why)
        elif lost and others:
            rest = replace(task, id=f"{task.id}-{one.deaths}", units=others)
            self._again.append(Item(rest, (), list(item.stages)))
        return SuiteOutcome(task.id, task.dimension, rows=tuple(key for unit in lost for key in unit.keys))

    def _result(self) -> SuiteResult:
        known, counts = self.scores.known(self.name), self.work.spending.counts()
        found = []
        for one in self.asked:
            spent = counts.get(one.dimension.name, {})
            result = DimensionResult(
                dimension=one.dimension.name,
                found_before=one.found_before,
                asked=spent.get("asked", 0),
                tokens=spent.get("tokens", 0),
                usd=None if spent.get("unpriced") else spent.get("usd", 0.0),
                stopped=one.refused or spent.get("stopped", ""),
            )
            for id_ in (id_ for unit in one.units for id_ in unit.ids):
                failure = known.get(id_)
                result.videos += 1
                result.scored += failure == ""
                result.left += failure is None
                if failure:
                    result.failures[failure] += 1
            found.append(result)
        return SuiteResult(
            self.name,
            self.suite.title,
            self.material.count,
            tuple(found),
            tuple(self.left_out),
            self.progress.seconds,
        )


def suite_inline(options: SuiteOptions, progress: RequestProgress | None = None) -> SuiteResult:
    """Run a suite in this process, without any executor: for tests and small things."""
    with progress or RequestProgress(quiet=True) as shown:
        run = SuiteRun(options, shown)
        run.prepare()
        return run.run(lambda _pools: InlineExecutor())


class SuiteExecutor(Executor):
    """Runs items of each pool in processes of its own.

    Parameters
    ----------
    workers
        Processes for everything but loaded models.
    pools
        Those that are needed.
    """

    def __init__(self, workers: int, pools: Collection[str]) -> None:
        self.workers = workers
        self._pools = {pool: ProcessExecutor(1 if pool == LOADED else workers) for pool in pools}
        self._pool_of: dict[Handle, ProcessExecutor] = {}

    def room(self, pool: str, wanted: int) -> int:
        """Return how many items may be in flight in a pool now."""
        return self._pools[pool].room(pool, wanted)

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start the function in a process of the pool."""
        handle = self._pools[pool].submit(name, pool, function, *arguments)
        self._pool_of[handle] = self._pools[pool]
        return handle

    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        """Block until at least one is done, or the time is over; return all that are done."""
        return wait(list(handles), timeout_s, return_when=FIRST_COMPLETED).done

    def result(self, handle: Handle) -> Any:
        """Return what the function returned; raise WorkerDied if its process is gone."""
        return self._pool_of.pop(handle).result(handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes; after an error at once."""
        for pool in self._pools.values():
            pool.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools.values():
            pool.close()
