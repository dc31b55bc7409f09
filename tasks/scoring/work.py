"""One task: some requests of one evaluator, put by several threads, each answer kept before the next request.

Only paths, ids and small frozen models go in and come out, so that any executor can run it in any process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from storage_schemas.errors import SlvmevalError
from storage_schemas.json_lines import LinesFile
from storage_schemas.judgements import TRANSIENT_FAILURES, Failure, Judgement, JudgementsStore, is_settled
from storage_schemas.store import Store
from tasks.llm.limits import Limits, RateLimit, Spending
from tasks.llm.usage import Prices
from tasks.models.device import require_gpu
from tasks.pairs.view import Pair
from tasks.scoring.ask import Asker, CannotGoOn
from tasks.scoring.base import AspectText, Evaluator
from tasks.scoring.registry import EvaluatorChoice, make_evaluator
from tasks.scoring.request import PairSet, Request
from tasks.scoring.scorer_as_judge import ScoreCache
from tasks.scoring.setup import Setup

log = logging.getLogger(__name__)

#: So many failures in a row that lie with the machine or the evaluator itself end an evaluator's run.
MOST_IN_A_ROW = 20
#: How often a process may die of one request in one run.
MOST_DEATHS = 2
#: How long a process may not notice that its evaluator was stopped elsewhere, in seconds.
_LOOK_EVERY_S = 1.0
_OPEN_PAIRS = 16
_NO_PRICE = "the limit in dollars cannot be kept: model {!r} has no price; add it with --prices"


@dataclass(frozen=True)
class EvaluationWork:
    """What every task of a run needs to know.

    Parameters
    ----------
    run
        Id of the run.
    pairs
        The pairs; frozen, and the same in every process.
    changed_texts
        By aspect, checksums of the texts in place of ours.
    """

    run: str
    setup: Setup
    pairs: PairSet
    prices: Prices
    limits: Limits
    descriptions: str | None = None
    changed_texts: Mapping[str, str] = field(default_factory=dict)
    retry: bool = False
    allow_cpu_models: bool = False

    @property
    def spending(self) -> Spending:
        """What the run spends."""
        return Spending(
            Path(self.setup.store_path) / "cache" / "evaluations" / f"{self.run}.json", self.limits
        )

    def text(self, aspect: str, dimension: str) -> AspectText:
        """Return an aspect as evaluators are told of it."""
        return self.pairs.text(aspect, dimension, self.descriptions)


@dataclass(frozen=True)
class EvaluationTask:
    """Requests of one evaluator that one process makes; `id` is a word without dots."""

    id: str
    title: str
    chosen: EvaluatorChoice
    label: str
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class EvaluationOutcome:
    """What a task did: the requests that it made, and the keys of those without an answer."""

    source_id: str
    made: int = 0
    rows: tuple[str, ...] = ()


@cache
def _evaluator(chosen: str, setup: str) -> Evaluator:
    """Return this process's evaluator: what it loaded serves all tasks."""
    return make_evaluator(EvaluatorChoice.model_validate_json(chosen), Setup.model_validate_json(setup))


def evaluator_of(chosen: EvaluatorChoice, setup: Setup) -> Evaluator:
    """Return this process's evaluator of some settings."""
    return _evaluator(chosen.model_dump_json(), setup.model_dump_json())


def evaluate_stage(
    work: EvaluationWork, task: EvaluationTask, _aspects: tuple[str, ...]
) -> EvaluationOutcome:
    """Make the requests of a task that nobody has made yet.

    Raises
    ------
    StoreError, IntegrityError
        If the judgements cannot be read: then nobody's can.
    """
    spending = work.spending
    if spending.stopped(task.label):
        return EvaluationOutcome(task.id)
    try:
        evaluator = evaluator_of(task.chosen, work.setup)
        if evaluator.pool == "h100" and not work.allow_cpu_models:
            require_gpu()
    except Exception as problem:  # noqa: BLE001 - it was made where the run began: what is missing here is said
        spending.stop(task.label, f"it cannot be used on a worker ({type(problem).__name__}: {problem})")
        return EvaluationOutcome(task.id)
    return _Run(work, task, evaluator, spending).all()


class _Run:
    """The requests of one task under way."""

    def __init__(
        self, work: EvaluationWork, task: EvaluationTask, evaluator: Evaluator, spending: Spending
    ) -> None:
        self.work, self.task, self.evaluator, self.spending = work, task, evaluator, spending
        self.judgements = JudgementsStore(Store(Path(work.setup.store_path)))
        self.asker = Asker(evaluator, task.label, work.prices, ScoreCache(), work.changed_texts)
        folder = self.judgements.path.parent / "cache" / "rates"
        chosen = task.chosen
        self.rate = RateLimit(folder, task.label, chosen.requests_per_minute, chosen.tokens_per_minute)
        self._lock = threading.Lock()
        self._pairs: dict[str, Pair] = {}
        self._texts = {
            request.pair.aspect: work.text(request.pair.aspect, request.pair.dimension)
            for request in task.requests
        }
        self._failed: list[str] = []
        self._made = self._in_a_row = 0
        self._stopped, self._looked = False, time.monotonic()

    def all(self) -> EvaluationOutcome:
        """Make the requests: first those that no process has died of, then the others one by one."""
        known, deaths = self.judgements.known(), self.judgements.begun(self.task.id)
        open_ = [
            request
            for request in self.task.requests
            if not is_settled(known.get((request.key, request.pair.pair_id)), self.work.retry)
        ]
        with self.judgements.writer(self.task.id) as lines, ExitStack() as at_end:
            at_end.callback(self.spending.flush)
            threads = self.task.chosen.concurrency or self.evaluator.concurrency
            self._make([request for request in open_ if not deaths[request.key]], threads, lines)
            suspects = [request for request in open_ if deaths[request.key]]
            self._make([request for request in suspects if deaths[request.key] < MOST_DEATHS], 1, lines)
            for request in suspects:
                if deaths[request.key] >= MOST_DEATHS:
                    self._keep(request, self._died(request), lines, 0.0, 0)
        return EvaluationOutcome(self.task.id, self._made, tuple(self._failed))

    def _make(self, requests: Iterable[Request], threads: int, lines: LinesFile) -> None:
        left = deque(requests)

        def work() -> None:
            while not self._is_stopped():
                try:
                    request = left.popleft()
                except IndexError:
                    return
                self._one(request, lines)

        count = min(threads, len(left))
        if count <= 1:
            work()
            return
        with ThreadPoolExecutor(count, thread_name_prefix=self.task.label) as pool:
            running = [pool.submit(work) for _ in range(count)]
        for ended in running:
            ended.result()

    def _one(self, request: Request, lines: LinesFile) -> None:
        text = self._texts[request.pair.aspect]
        try:
            pair = self._open(request.pair.pair_id)
        except (SlvmevalError, OSError) as problem:
            self._keep(request, self._unreadable(request, problem), lines, 0.0, 0)
            return
        # it costs time to reckon, so only where a limit wants it
        limited = self.spending.limited or self.rate.limited
        estimates = self.asker.estimates(request, pair, text) if limited else ()
        usd = self.work.prices.of(estimates)
        if usd is None and self.work.limits.usd is not None:
            priceless = (one.model for one in estimates if self.work.prices.of([one]) is None)
            self._stop(_NO_PRICE.format(next(priceless)))
            return
        usd = usd or 0.0
        tokens = sum(one.tokens_in + one.tokens_out for one in estimates)
        if not self.spending.reserve(self.task.label, usd, tokens):
            self._stopped = True
            return
        if not self.rate.wait(tokens, self._is_stopped):
            self.spending.release(self.task.label, usd, tokens)
            return
        lines.begin(request.key)
        try:
            row = self.asker.ask(request, pair, text)
        except CannotGoOn as problem:
            self.spending.release(self.task.label, usd, tokens)
            self._stop(str(problem))
            return
        self.rate.correct(tokens, row.tokens_in + row.tokens_out)
        self._keep(request, row, lines, usd, tokens)

    def _keep(self, request: Request, row: Judgement, lines: LinesFile, usd: float, tokens: int) -> None:
        if row.failure is Failure.LIMIT_REACHED:
            # no answer of the judge's: the request is left for the next run
            self.spending.release(self.task.label, usd, tokens)
            self._stop(row.message or "a limit is reached")
            return
        lines.add(row)
        self.spending.count(self.task.label, row, usd, tokens)
        with self._lock:
            self._made += 1
            self._in_a_row = self._in_a_row + 1 if row.failure in TRANSIENT_FAILURES else 0
            many = self._in_a_row >= MOST_IN_A_ROW
            if row.failure is not None:
                self._failed.append(request.key)
        if row.failure is Failure.NOT_ALLOWED:
            self._stop(row.message)
        elif many:
            self._stop(f"{MOST_IN_A_ROW} requests in a row failed; the last one: {row.message}")
        elif self.work.limits.usd is not None and row.cost_usd is None:
            self._stop(_NO_PRICE.format(row.model))

    def _open(self, pair_id: str) -> Pair:
        """Return a pair; those in use are opened once."""
        with self._lock:
            if pair_id not in self._pairs:
                while len(self._pairs) >= _OPEN_PAIRS:
                    self._pairs.pop(next(iter(self._pairs)))
                self._pairs[pair_id] = self.work.pairs.open(pair_id)
            return self._pairs[pair_id]

    def _unreadable(self, request: Request, problem: Exception) -> Judgement:
        log.error("pair %s cannot be opened: %s", request.pair.pair_id, problem)
        fields = {"failure": Failure.VIDEO_UNREADABLE, "message": f"{type(problem).__name__}: {problem}"}
        return self.asker.row(request, {**fields, "cost_usd": 0.0})

    def _died(self, request: Request) -> Judgement:
        message = f"the process that made it died, {MOST_DEATHS} times; see the worker's log"
        fields = {"failure": Failure.INTERNAL_ERROR, "message": message, "cost_usd": 0.0}
        return self.asker.row(request, fields)

    def _stop(self, message: str) -> None:
        self._stopped = True
        self.spending.stop(self.task.label, message)

    def _is_stopped(self) -> bool:
        if not self._stopped and time.monotonic() - self._looked > _LOOK_EVERY_S:
            self._looked = time.monotonic()
            self._stopped = bool(self.spending.stopped(self.task.label))
        return self._stopped
