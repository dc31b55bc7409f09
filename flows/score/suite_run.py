"""The flow `suite-slvmeval`: which videos are scored in which dimensions, and the result."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from flows.declaration import Artifact, FlowDeclaration, RunLabel, artifact_key
from flows.score.options import SuiteOptions, suite_options
from flows.score.parameters import SuiteParameters
from flows.score.results import DimensionResult, RequestProgress, SuiteResult
from flows.score.scoring_run import RunPart, ScoringRun
from infra.executor import Executor, Handle, ProcessExecutor
from infra.prefect_server import SUITE_FLOW_NAME
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Failure
from storage_schemas.row_store import RowId
from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.llm.prompt_files import require_prompts
from tasks.llm.usage import Prices, load_prices
from tasks.models.device import require_gpu
from tasks.report.suite_leaderboard import board_table
from tasks.scoring.suites.base import Dimension, Suite
from tasks.scoring.suites.estimate import DimensionEstimate, estimate_dimension
from tasks.scoring.suites.file_video import FrameRate, OpenVideos
from tasks.scoring.suites.leaderboard import board_of, current, means_of, prompts_sent
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

#: Settings of a dimension whose scorer cannot be created.
UNKNOWN_SETTINGS = "unknown"


@dataclass
class DimensionPart(RunPart[ScoringUnit]):
    """One dimension of the run with its units."""

    dimension: Dimension = field(kw_only=True)


@dataclass
class SuiteRun(ScoringRun[ScoringUnit, SuiteResult]):
    """One run; call :meth:`prepare`, then :meth:`run`."""

    options: SuiteOptions
    progress: RequestProgress
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    store: Store = field(init=False)
    suite: Suite = field(init=False)
    prices: Prices = field(init=False)
    work: SuiteWork = field(init=False)
    material: Material = field(init=False)
    dimension_parts: list[DimensionPart] = field(default_factory=list)
    left_out: list[UnusedLine] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The suite's name in rows; scores of variants and of blurred videos have separate names."""
        return self.work.name

    @property
    def parts(self) -> Sequence[DimensionPart]:
        """The dimensions."""
        return self.dimension_parts

    @property
    def scores(self) -> ScoresStore:
        """The scores."""
        return self.work.rows()

    def lock_file(self, part: RunPart[ScoringUnit]) -> Path:
        """Return the file that is locked while a dimension is scored."""
        name = digest_text(f"{self.name} {part.name} {part.units[0].settings}")[:32]
        return self.store.cache / "suites" / f"{name}.held"

    def rows_by_id(self, keys: Collection[str]) -> Mapping[RowId, SuiteScore]:
        """Return the scores of some keys."""
        rows = self.scores.rows(self.name)
        return {(row.key, row.model, row.prompt_id, row.sample): row for row in rows if row.key in keys}

    def prepare(self, ask_servers: bool = True) -> None:
        """Read the files, create the suite, and find the existing scores.

        Parameters
        ----------
        ask_servers
            Whether scorers check that everything they need is present.

        Raises
        ------
        UserInputError, StoreError, IntegrityError, PrerequisiteError
            If the run cannot start; no request was made.
        """
        options = self.options
        require_prompts(options.prompts)
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
            placement=options.placement,
            allow_cpu_models=options.allow_cpu_models,
            concurrency=options.concurrency,
        )
        videos = Path(options.videos)
        manifest = Path(options.manifest) if options.manifest else find_manifest(videos)
        prompts = load_prompts(Path(options.prompt_suite), self.suite)
        self.material = bring_together(prompts, load_manifest(manifest, videos, options.generators))
        self.left_out = list(self.material.left_out)
        for dimension in self._dimensions():
            self.dimension_parts.append(self._part(dimension))
        if all(not part.units and not part.refused for part in self.dimension_parts):
            first = f": {self.left_out[0].where}: {self.left_out[0].message}" if self.left_out else ""
            raise UserInputError(
                f"no video of {manifest} belongs to a prompt of {options.prompt_suite}{first}"
            )
        self.find_known()
        if ask_servers:
            self.check_missing()

    def _dimensions(self) -> list[Dimension]:
        wanted = {self.suite.dimension(name).name for name in self.options.dimensions}
        return [one for one in self.suite.dimensions if not wanted or one.name in wanted]

    def _part(self, dimension: Dimension) -> DimensionPart:
        part = DimensionPart(dimension.name, dimension=dimension)
        wanted, lacking = applicable(self.material, dimension)
        self.left_out += lacking
        if self.options.mini is not None:
            wanted = mini(wanted, dimension.name, self.options.mini, self.options.seed)
        repeats = self.options.repeats
        refusal: Exception | None = None
        try:
            kind = part.kind = self.work.kind(dimension.name)
            settings = settings_of(self.name, kind.scorer, self.work.sampling)
            together = kind.scorer.batch == "prompt"
            part.units = units_of(self.material, wanted, dimension.name, settings, together, repeats)
        except UserInputError:
            raise
        except Exception as problem:  # noqa: BLE001 - may be code of another package
            refusal = problem
        if not part.units:
            # the settings are unknown; these rows give the reason for the missing score
            part.units = units_of(self.material, wanted, dimension.name, UNKNOWN_SETTINGS, repeats=repeats)
        if refusal is not None and part.units:
            self.refuse(part, refusal)
        return part

    def check_part(self, part: RunPart[ScoringUnit]) -> None:
        """Check a dimension's models and servers, then its pool: missing weights are reported first."""
        assert isinstance(part.kind, VideoScoring)
        part.kind.scorer.check()
        pool = self.pool_of(part.kind)
        # with pools, each worker finds its own GPU; this machine needs none
        if not self.work.placement.pools and pool == "gpu" and not self.options.allow_cpu_models:
            require_gpu()

    def estimate(
        self, sample: int | None = None, step: Callable[[str], None] = lambda _: None
    ) -> list[DimensionEstimate]:
        """Return the cost of the missing scores, by dimension, without asking any model."""
        counted: set[str] = set()
        videos = OpenVideos(self.work.sampling)
        rows = []
        failures = self.rows.failures()
        for part in self.dimension_parts:
            units = self.missing(part, failures)
            if isinstance(part.kind, VideoScoring) and units:
                step(part.name)
                scorer = part.kind.scorer
                rows.append(estimate_dimension(scorer, units, videos, self.prices, counted, sample))
        return rows

    def assumes(self) -> list[str]:
        """Return the assumptions of the estimates about models that the user named."""
        kinds = [part.kind for part in self.dimension_parts if isinstance(part.kind, VideoScoring)]
        return list(dict.fromkeys(text for kind in kinds for text in kind.scorer.assumes()))

    def keep_reasons(self) -> None:
        """Store the reason for scores that are missing because their dimension cannot be used."""
        failures = self.rows.failures()
        rows = []
        for part in self.dimension_parts:
            if not part.refused or part.busy:
                continue
            for unit in part.units:
                missing = failed_rows(self.name, unit, Failure.PREREQUISITE_MISSING, part.refused)
                ids = zip(unit.ids, missing, strict=True)
                # a stored reason is not stored again
                rows += [row for id_, row in ids if failures.get(id_) is None]
        self.rows.add(rows)

    def result(self) -> SuiteResult:
        """Return what has been scored."""
        failures = self.rows.failures()
        results = []
        for part in self.dimension_parts:
            result = DimensionResult(part.name, found_before=part.found_before, **self.spent(part))
            for id_ in (id_ for unit in part.units for id_ in unit.ids):
                failure = failures.get(id_)
                result.videos += 1
                result.scored += failure == ""
                result.left += failure is None
                if failure:
                    result.failures[failure] += 1
            results.append(result)
        return SuiteResult(
            self.name,
            self.suite.title,
            self.material.count,
            tuple(results),
            tuple(self.left_out),
            self.progress.seconds,
        )


class SuiteExecutor(Executor):
    """Runs items of each pool in separate processes.

    Parameters
    ----------
    workers
        Number of processes; items that load models always share one.
    pools
        The pools that the work needs.
    """

    def __init__(self, workers: int, pools: Collection[str]) -> None:
        self.workers = workers
        self._pools = {pool: ProcessExecutor(1 if pool == "gpu" else workers) for pool in pools}
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
        """Block until at least one is done or the timeout expires; return all that are done."""
        return wait(list(handles), timeout_s, return_when=FIRST_COMPLETED).done

    def result(self, handle: Handle) -> Any:
        """Return what the function returned; raise WorkerDied if its process died."""
        return self._pool_of.pop(handle).result(handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes, after an error immediately."""
        for pool in self._pools.values():
            pool.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools.values():
            pool.close()


#: Maximum number of unusable rows that are shown.
_SHOWN_LEFT_OUT = 200


class SuiteFlow(FlowDeclaration[SuiteOptions, SuiteRun, SuiteResult]):
    """Lets a suite score videos."""

    name = SUITE_FLOW_NAME
    runs_as = "suite"
    parameters = SuiteParameters
    progress = RequestProgress
    # each process would load the same models
    one_loads = True

    def options(self, parameters: SuiteParameters, site: Profile) -> SuiteOptions:
        """Resolve parameters into options."""
        return suite_options(parameters, site)

    @contextmanager
    def prepared(self, options: SuiteOptions, progress: BuildProgress) -> Iterator[SuiteRun]:
        """Yield a prepared run."""
        assert isinstance(progress, RequestProgress)
        run = SuiteRun(options, progress)
        run.prepare()
        yield run

    def label(self, run: SuiteRun) -> RunLabel:
        """Return the label: the suite, and the numbers of videos and dimensions."""
        name = f"{run.name} · {run.material.count} videos · {len(run.dimension_parts)} dimensions"
        return RunLabel(name, (f"suite:{run.name}",), f"suite-{run.options.suite}")

    def artifacts(self, run: SuiteRun, result: SuiteResult) -> Iterator[Artifact]:
        """Yield the scores in words, by dimension and as a leaderboard, and the rows left out."""
        key, summary = artifact_key(run.name), result.in_words()
        yield Artifact(f"scored-{key}", summary, markdown=summary)
        left_out = [vars(one) for one in result.left_out[:_SHOWN_LEFT_OUT]]
        first = f"Rows of the files left out, the first {_SHOWN_LEFT_OUT} of {len(result.left_out)}"
        for name, title, rows in (
            ("dimensions", result.title, result.rows()),
            ("leaderboard", f"{result.title}: leaderboard", leaderboard_rows(run)),
            ("left-out", first, left_out),
        ):
            if rows:
                yield Artifact(f"{name}-{key}", title, rows=rows)

    def processes(self, workers: int, pools: Collection[str] = ()) -> Executor:
        """Return processes of this machine, with a single one for loaded models."""
        return SuiteExecutor(workers, pools)


SUITE = SuiteFlow()


def leaderboard_rows(run: SuiteRun) -> list[dict[str, Any]]:
    """Return the leaderboard of all scores of the run's suite, one row per model."""
    rows, others = current(run.scores.rows(run.name))
    dimensions = run.suite.dimensions_of(rows)
    table = board_table(board_of(run.suite.title, dimensions, means_of(rows), others, prompts_sent(rows)))
    titles = [column.title for column in table.shown]
    return [dict(zip(titles, cells, strict=True)) for cells in table.cells()]
