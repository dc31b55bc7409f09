"""One task of a suite's run: some units of one dimension, each score kept before the next is begun.

Only paths, ids and small frozen models go in and come out, so that any executor can run it in any process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.json_lines import LinesFile
from storage_schemas.judgements import TRANSIENT_FAILURES, Failure, is_settled
from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.llm.limits import Limits, Spending
from tasks.llm.usage import Estimate, Prices
from tasks.models.device import require_gpu
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Scorer, Suite
from tasks.scoring.suites.file_video import FrameRate, OpenVideos
from tasks.scoring.suites.plan import ScoringUnit
from tasks.scoring.suites.registry import make_suite
from tasks.scoring.suites.score_store import ScoresStore
from tasks.scoring.suites.score_unit import estimates_of, failed_rows, score_unit

log = logging.getLogger(__name__)

#: So many failures in a row that lie with the machine or the scorer itself end a dimension's run.
MOST_IN_A_ROW = 20
#: How often a process may die of one unit in one run.
MOST_DEATHS = 2
#: How long a process may not notice that its dimension was stopped elsewhere, in seconds.
_LOOK_EVERY_S = 1.0
_NO_PRICE = "the limit in dollars cannot be kept: model {!r} has no price; add it with --prices"


class SuiteChoice(Setup):
    """A suite with its settings, and what a site has.

    Parameters
    ----------
    suite
        Its name in the table of suites.
    settings_json
        Its settings, as JSON.
    """

    suite: str
    settings_json: str = "{}"

    def make(self) -> Suite:
        """Return this process's suite: what it loaded serves all tasks."""
        return _suite(self.model_dump_json())


@cache
def _suite(choice: str) -> Suite:
    import json

    made = SuiteChoice.model_validate_json(choice)
    fields = made.model_dump(exclude={"suite", "settings_json"})
    return make_suite(made.suite, Setup.model_validate(fields), json.loads(made.settings_json))


@cache
def _scorer(choice: str, dimension: str) -> Scorer:
    return _suite(choice).scorer(dimension)


@dataclass(frozen=True)
class SuiteWork:
    """What every task of a run needs to know; `run` is the run's id."""

    run: str
    choice: SuiteChoice
    sampling: FrameRate
    prices: Prices
    limits: Limits
    retry: bool = False
    allow_cpu_models: bool = False
    concurrency: int | None = None

    @property
    def name(self) -> str:
        """What rows call the suite; scores of changed videos stand apart."""
        return f"{self.choice.suite}{self.sampling.suffix}"

    @property
    def spending(self) -> Spending:
        """What the run spends."""
        return Spending(Path(self.choice.store_path) / "cache" / "suites" / f"{self.run}.json", self.limits)

    def scorer(self, dimension: str) -> Scorer:
        """Return this process's scorer of a dimension."""
        return _scorer(self.choice.model_dump_json(), dimension)


@dataclass(frozen=True)
class SuiteTask:
    """Units of one dimension that one process scores; `id` is a word without dots."""

    id: str
    title: str
    dimension: str
    units: tuple[ScoringUnit, ...]


@dataclass(frozen=True)
class SuiteOutcome:
    """What a task did: the scores that it made, and the keys of those that failed.

    `unusable` says what its process lacks, where the dimension cannot be scored there.
    """

    source_id: str
    dimension: str
    made: int = 0
    rows: tuple[str, ...] = ()
    unusable: str = ""


def score_stage(work: SuiteWork, task: SuiteTask, _aspects: tuple[str, ...]) -> SuiteOutcome:
    """Score the units of a task that nobody has scored yet.

    Raises
    ------
    StoreError, IntegrityError
        If the scores cannot be read: then nobody's can.
    """
    spending = work.spending
    if spending.stopped(task.dimension):
        return SuiteOutcome(task.id, task.dimension)
    try:
        scorer = work.scorer(task.dimension)
        if scorer.pool == "h100" and not work.allow_cpu_models:
            require_gpu()
    except Exception as problem:  # noqa: BLE001 - it was made where the run began: what is missing here is said
        said = isinstance(problem, PrerequisiteError | UserInputError)
        why = str(problem) if said else f"{type(problem).__name__}: {problem}"
        spending.stop(task.dimension, why)
        return SuiteOutcome(task.id, task.dimension, unusable=why)
    return _Run(work, task, scorer, spending).all()


class _Run:
    """The units of one task under way."""

    def __init__(self, work: SuiteWork, task: SuiteTask, scorer: Scorer, spending: Spending) -> None:
        self.work, self.task, self.scorer, self.spending = work, task, scorer, spending
        self.scores = ScoresStore(Store(Path(work.choice.store_path)))
        self.threads = work.concurrency or scorer.concurrency
        self.videos = OpenVideos(work.sampling)
        self._lock = threading.Lock()
        self._failed: list[str] = []
        self._set_aside: set[str] = set()
        self._made = self._in_a_row = 0
        self._unusable = ""
        self._stopped, self._looked = False, time.monotonic()

    def all(self) -> SuiteOutcome:
        """Score the units: first those that no process has died of, then the others one by one."""
        known, deaths = self.scores.known(self.work.name), self.scores.begun(self.task.id)
        open_ = [
            unit
            for unit in self.task.units
            if not all(is_settled(known.get(id_), self.work.retry) for id_ in unit.ids)
        ]
        with self.scores.writer(self.task.id) as lines, ExitStack() as at_end:
            at_end.callback(self.spending.flush)
            self._score([unit for unit in open_ if not deaths[unit.key]], self.threads, lines)
            suspects = [unit for unit in open_ if deaths[unit.key]]
            self._score([unit for unit in suspects if deaths[unit.key] < MOST_DEATHS], 1, lines)
            for unit in suspects:
                if deaths[unit.key] >= MOST_DEATHS:
                    message = f"the process that scored it died, {MOST_DEATHS} times; see the worker's log"
                    rows = failed_rows(self.work.name, unit, Failure.INTERNAL_ERROR, message)
                    self._keep(rows, lines, 0.0, 0)
        task = self.task
        return SuiteOutcome(task.id, task.dimension, self._made, tuple(self._failed), self._unusable)

    def _score(self, units: Iterable[ScoringUnit], threads: int, lines: LinesFile) -> None:
        left = deque(units)

        def work() -> None:
            while not self._is_stopped():
                try:
                    unit = left.popleft()
                except IndexError:
                    return
                self._one(unit, lines)

        count = min(threads, len(left))
        if count <= 1:
            work()
            return
        with ThreadPoolExecutor(count, thread_name_prefix=self.task.dimension) as pool:
            running = [pool.submit(work) for _ in range(count)]
        for ended in running:
            ended.result()

    def _one(self, unit: ScoringUnit, lines: LinesFile) -> None:
        # it costs time to reckon, so only where a limit wants it
        said = estimates_of(self.scorer, unit, self.videos) if self.spending.limited else ()
        estimates = self._not_yet(said)
        usd = self.work.prices.of(estimates)
        if usd is None and self.work.limits.usd is not None:
            priceless = (one.model for one in estimates if self.work.prices.of([one]) is None)
            self._stop(_NO_PRICE.format(next(priceless)))
            return
        usd, tokens = usd or 0.0, sum(one.tokens_in + one.tokens_out for one in estimates)
        if not self.spending.reserve(self.task.dimension, usd, tokens):
            self._stopped = True
            return
        lines.begin(unit.key)
        try:
            rows = score_unit(self.work.name, self.scorer, unit, self.videos, self.work.prices)
        except (PrerequisiteError, UserInputError) as problem:
            self.spending.release(self.task.dimension, usd, tokens)
            self._unusable = str(problem)
            self._stop(str(problem))
            return
        self._keep(rows, lines, usd, tokens)

    def _not_yet(self, estimates: Sequence[Estimate]) -> list[Estimate]:
        """Return what is to be set aside: work that several units share once."""
        with self._lock:
            found = [one for one in estimates if not one.once or one.once not in self._set_aside]
            self._set_aside.update(one.once for one in estimates if one.once)
        return found

    def _keep(self, rows: Sequence[SuiteScore], lines: LinesFile, usd: float, tokens: int) -> None:
        if any(row.failure is Failure.LIMIT_REACHED for row in rows):
            # no score: the unit is left for the next run
            self.spending.release(self.task.dimension, usd, tokens)
            self._stop(next(row.message for row in rows if row.failure) or "a limit is reached")
            return
        for place, row in enumerate(rows):
            lines.add(row)
            self.spending.count(self.task.dimension, row, *((0.0, 0) if place else (usd, tokens)))
        transient = [row for row in rows if row.failure in TRANSIENT_FAILURES]
        with self._lock:
            self._made += len(rows)
            self._in_a_row = self._in_a_row + 1 if transient else 0
            many = self._in_a_row >= MOST_IN_A_ROW
            self._failed += [row.key for row in rows if row.failure is not None]
        for row in rows:
            if row.failure is Failure.NOT_ALLOWED:
                self._stop(row.message)
            elif self.work.limits.usd is not None and row.cost_usd is None:
                self._stop(_NO_PRICE.format("of a score"))
        if many:
            self._stop(f"{MOST_IN_A_ROW} scores in a row failed; the last one: {transient[-1].message}")

    def _stop(self, message: str) -> None:
        self._stopped = True
        self.spending.stop(self.task.dimension, message)

    def _is_stopped(self) -> bool:
        if not self._stopped and time.monotonic() - self._looked > _LOOK_EVERY_S:
            self._looked = time.monotonic()
            self._stopped = bool(self.spending.stopped(self.task.dimension))
        return self._stopped
