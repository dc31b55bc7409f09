"""A run of a suite: which videos are scored in which dimensions, and what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from flows.score.results import DimensionResult, RequestProgress, SuiteResult
from flows.score.scoring_run import RunPart, ScoringRun
from flows.score.suite_options import SuiteOptions
from infra.executor import Executor, Handle, InlineExecutor, ProcessExecutor
from infra.pool import GPU_POOL
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Failure
from storage_schemas.row_store import RowId
from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.llm.usage import Prices, load_prices
from tasks.models.device import require_gpu
from tasks.scoring.engine import reason_of
from tasks.scoring.suites.base import Dimension, Suite
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
from tasks.scoring.suites.score_store import ScoresStore
from tasks.scoring.suites.scoring import SuiteWork, VideoScoring, failed_rows
from tasks.scoring.user_files import UnusedLine

#: Stands for the settings of a dimension whose scorer cannot even be made.
UNKNOWN_SETTINGS = "unknown"


@dataclass
class DimensionPart(RunPart[ScoringUnit]):
    """One dimension of the run with its units."""

    dimension: Dimension = field(kw_only=True)


@dataclass
class SuiteRun(ScoringRun[ScoringUnit]):
    """One run; call :meth:`prepare`, then :meth:`run`."""

    options: SuiteOptions
    progress: RequestProgress
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    store: Store = field(init=False)
    suite: Suite = field(init=False)
    prices: Prices = field(init=False)
    work: SuiteWork = field(init=False)
    material: Material = field(init=False)
    asked: list[DimensionPart] = field(default_factory=list)
    left_out: list[UnusedLine] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What rows call the suite; scores of changed videos stand apart."""
        return self.work.name

    @property
    def parts(self) -> Sequence[DimensionPart]:
        """The dimensions."""
        return self.asked

    @property
    def scores(self) -> ScoresStore:
        """The scores."""
        return self.work.rows()

    def held(self, part: RunPart[ScoringUnit]) -> Path:
        """Return what is held while a dimension is scored."""
        held = digest_text(f"{self.name} {part.name} {part.units[0].settings}")[:32]
        return self.store.cache / "suites" / f"{held}.held"

    def rows_by_id(self, keys: Collection[str]) -> Mapping[RowId, SuiteScore]:
        """Return the scores of some keys."""
        rows = self.scores.rows(self.name)
        return {(row.key, row.model, row.prompt_id, row.sample): row for row in rows if row.key in keys}

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
            store_path=options.store,
            choice=options.choice,
            sampling=sampling,
            prices=self.prices,
            limits=options.limits,
            retry=options.retry,
            allow_cpu_models=options.allow_cpu_models,
            concurrency=options.concurrency,
        )
        videos = Path(options.videos)
        manifest = Path(options.manifest) if options.manifest else find_manifest(videos)
        prompts = load_prompts(Path(options.prompts), self.suite)
        self.material = bring_together(prompts, load_manifest(manifest, videos, options.generators))
        self.left_out = list(self.material.left_out)
        self.asked = [self._part(dimension, ask_servers) for dimension in self._dimensions()]
        if all(not part.units and not part.refused for part in self.asked):
            first = f": {self.left_out[0].where}: {self.left_out[0].message}" if self.left_out else ""
            raise UserInputError(f"no video of {manifest} belongs to a prompt of {options.prompts}{first}")
        self.find_known()

    def _dimensions(self) -> list[Dimension]:
        there = {dimension.name: dimension for dimension in self.suite.dimensions}
        for name in self.options.dimensions:
            if name not in there:
                raise UserInputError(f"{self.name} has no dimension {name!r}: it has {', '.join(there)}")
        return [
            there[name] for name in there if not self.options.dimensions or name in self.options.dimensions
        ]

    def _part(self, dimension: Dimension, ask_servers: bool) -> DimensionPart:
        part = DimensionPart(dimension.name, dimension=dimension)
        wanted, lacking = applicable(self.material, dimension)
        self.left_out += lacking
        if self.options.mini is not None:
            wanted = mini(wanted, dimension.name, self.options.mini, self.options.seed)
        repeats = self.options.repeats
        try:
            kind = part.kind = self.work.kind(dimension.name)
            settings = settings_of(self.name, kind.scorer, self.work.sampling)
            together = kind.scorer.batch == "prompt"
            part.units = units_of(self.material, wanted, dimension.name, settings, together, repeats)
            if ask_servers and part.units:
                self._check_pool(kind.pool)
                kind.scorer.check()
        except UserInputError:
            raise
        except Exception as problem:  # noqa: BLE001 - perhaps another package's code, which harms no other one
            part.refused = reason_of(problem)
            self.progress.say(f"{dimension.name} cannot be used: {part.refused}")
        if not part.units:
            # its settings are unknown here: these rows say why there is no score
            part.units = units_of(self.material, wanted, dimension.name, UNKNOWN_SETTINGS, repeats=repeats)
        return part

    def _check_pool(self, pool: str) -> None:
        """Raise PrerequisiteError where there is no place for a pool's work."""
        pools = self.options.pools
        if pools and pool not in pools:
            raise PrerequisiteError(
                f"the profile has no pool {pool!r}, in which it runs: add a table [pools.{pool}]"
            )
        # where there are pools, each worker looks for a GPU of its own: this machine needs none
        if not pools and pool == GPU_POOL and not self.options.allow_cpu_models:
            require_gpu()

    def estimate(
        self, sample: int | None = None, step: Callable[[str], None] = lambda _: None
    ) -> list[EstimateRow]:
        """Return what the missing scores would take, by dimension; nobody is asked."""
        paid: set[str] = set()
        videos = OpenVideos(self.work.sampling)
        found = []
        known = self.rows.known()
        for part in self.asked:
            units = self.missing(part, known)
            if isinstance(part.kind, VideoScoring) and units:
                step(part.name)
                found.append(estimate_dimension(part.kind.scorer, units, videos, self.prices, paid, sample))
        return found

    def keep_reasons(self) -> None:
        """Write rows with the reason for what has no score because its dimension cannot be used."""
        known = self.rows.known()
        rows = []
        for part in self.asked:
            if not part.refused or part.busy:
                continue
            for unit in part.units:
                missing = failed_rows(self.name, unit, Failure.PREREQUISITE_MISSING, part.refused)
                ids = zip(unit.ids, missing, strict=True)
                # a reason that is there already is not written again
                rows += [row for id_, row in ids if known.get(id_) is None]
        self.rows.add(rows)

    def run(self, open_executor: Callable[[Collection[str]], Executor]) -> SuiteResult:
        """Score what is missing.

        Parameters
        ----------
        open_executor
            Called once, if there is work, with the pools that it needs.
        """
        self.answer_missing(open_executor)
        result = self._result()
        self.work.spending.remove()
        return result

    def _result(self) -> SuiteResult:
        known = self.rows.known()
        found = []
        for part in self.asked:
            result = DimensionResult(part.name, found_before=part.found_before, **self.spent(part))
            for id_ in (id_ for unit in part.units for id_ in unit.ids):
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
        self._pools = {pool: ProcessExecutor(1 if pool == GPU_POOL else workers) for pool in pools}
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
