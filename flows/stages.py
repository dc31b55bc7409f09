"""Move sources through the stages, a bounded number at once, each stage in its worker pool."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from infra.executor import Executor, Handle, WorkerDied
from infra.progress import BuildProgress
from storage_schemas.errors import AWAY_REASONS, SetAside
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import Source
from storage_schemas.store_wait import StoreWait
from tasks.pairs.stages import BuildWork, Stage, StageResult

log = logging.getLogger(__name__)

#: Number of worker deaths with a single source after which that source is set aside.
MOST_DEATHS = 2
#: Maximum interval between the driver's checks of the number of workers, seconds.
LOOK_EVERY_S = 1.0


class Named(Protocol):
    """An object that passes through stages, such as a source."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def title(self) -> str:
        """Its name for messages."""


class Ended(Protocol):
    """Outcome of a stage for one source."""

    @property
    def source_id(self) -> str:
        """The source's id."""

    @property
    def rows(self) -> Sequence[object]:
        """The rows set aside."""


W = TypeVar("W")
S = TypeVar("S", bound=Named)
E = TypeVar("E", bound=Ended)


@dataclass(eq=False)
class Item(Generic[W, S, E]):
    """One source, the aspects it is built for, and its remaining stages."""

    source: S
    aspects: tuple[str, ...]
    stages: list[Stage[W, S, E]]
    deaths: int = 0
    deaths_alone: int = 0

    @property
    def next(self) -> Stage[W, S, E]:
        """The next stage."""
        return self.stages[0]


#: A source of a build.
StageItem = Item[BuildWork, Source, StageResult]


@dataclass(eq=False)
class StageBatch(Generic[W, S, E]):
    """Items whose next stage runs as one task."""

    items: list[Item[W, S, E]]
    alone: bool = False

    @property
    def stage(self) -> Stage[W, S, E]:
        """Their common stage."""
        return self.items[0].next

    @property
    def name(self) -> str:
        """Display name."""
        more = f" and {len(self.items) - 1} more" if len(self.items) > 1 else ""
        return f"{self.stage.name} {self.items[0].source.title}{more}"


@dataclass
class _Queues(Generic[W, S, E]):
    """The waiting batches by pool, and those that were running when a worker died.

    A dying worker may take other items with it, so the cause is unknown: each source is retried, finally on
    its own, and only deaths on its own count.
    """

    batch: int
    ready: dict[str, deque[StageBatch[W, S, E]]] = field(default_factory=dict)
    suspects: deque[StageBatch[W, S, E]] = field(default_factory=deque)
    running: dict[Handle, StageBatch[W, S, E]] = field(default_factory=dict)

    def add(self, items: Iterable[Item[W, S, E]], first: bool = False) -> None:
        """Queue items for their next stage, in order, in batches of one stage each."""
        open_: dict[str, StageBatch[W, S, E]] = {}
        by_pool: dict[str, list[StageBatch[W, S, E]]] = {}
        for item in items:
            batch = open_.get(item.next.name)
            if batch is None or len(batch.items) >= self.batch:
                batch = open_[item.next.name] = StageBatch([])
                by_pool.setdefault(item.next.pool, []).append(batch)
            batch.items.append(item)
        for pool, batches in by_pool.items():
            queue = self.ready.setdefault(pool, deque())
            if first:
                queue.extendleft(reversed(batches))
            else:
                queue.extend(batches)

    def left(self) -> bool:
        """Return whether anything waits or runs."""
        return bool(self.suspects or self.running or any(self.ready.values()))

    def startable(self, executor: Executor) -> Iterable[StageBatch[W, S, E]]:
        """Yield the batches to start now; start each before requesting the next."""
        if any(batch.alone for batch in self.running.values()):
            return
        in_flight: Counter[str] = Counter(batch.stage.pool for batch in self.running.values())
        for pool, queue in self.ready.items():
            room = executor.room(pool, in_flight[pool] + len(queue))
            while queue and in_flight[pool] < room:
                in_flight[pool] += 1
                yield queue.popleft()
        waits = bool(self.suspects) and not self.running and not any(self.ready.values())
        if waits and executor.room(self.suspects[0].stage.pool, 1):
            yield self.suspects.popleft()


def through_stages(
    executor: Executor,
    work: W,
    items: Sequence[Item[W, S, E]],
    progress: BuildProgress,
    goes_on: Callable[[E], bool],
    died: Callable[[Item[W, S, E], str], E],
    batch: int = 1,
    store_wait: StoreWait | None = None,
    unfinished: Callable[[E], bool] = lambda _: False,
) -> None:
    """Run every item through its stages.

    Parameters
    ----------
    goes_on
        Called with each outcome; returns whether the source continues to its next stage.
    died
        Called with an item that repeatedly killed its worker, and a message; returns its outcome.
    batch
        Number of sources per task.
    store_wait
        Repeats a stage whose store was away; by default no stage is repeated.
    unfinished
        Called with each outcome; returns whether its stage has to run again, which waits behind all others.

    Raises
    ------
    StoreError
        If the store was away for too long.
    """
    queues = _Queues[W, S, E](batch)
    queues.add(items)
    while queues.left():
        for started in queues.startable(executor):
            calls = tuple((item.source, item.aspects) for item in started.items)
            stage = started.stage
            handle = executor.submit(
                started.name, stage.pool, run_batch, stage.function, work, calls, store_wait
            )
            queues.running[handle] = started
        progress.note_pools(executor.state())
        if not queues.running:
            time.sleep(LOOK_EVERY_S)  # until workers are available
            continue
        for handle in executor.wait_any(queues.running, LOOK_EVERY_S):
            ended = queues.running.pop(handle)
            try:
                outcomes: Sequence[E] = executor.result(handle)
            except WorkerDied as problem:
                outcomes = _after_death(queues, ended, problem, executor.deaths_before_alone, died)
            _go_on(queues, ended, outcomes, progress, goes_on, unfinished)


class _HasRows(SetAside):
    """An outcome with rows, which may be due to the store."""

    def __init__(self, outcome: Ended, rows: Sequence[SetAsideRow]) -> None:
        # one row that names the store is enough to repeat the stage
        row = next((row for row in rows if row.reason in AWAY_REASONS), rows[0])
        super().__init__(row.reason, row.message)
        self.outcome = outcome


def run_batch(
    function: Callable[[W, S, tuple[str, ...]], E],
    work: W,
    calls: Sequence[tuple[S, tuple[str, ...]]],
    store_wait: StoreWait | None = None,
) -> list[E]:
    """Run one stage of several items, one after the other; called on the worker.

    Raises
    ------
    StoreError
        If the store was away for too long.
    """
    if store_wait is None:
        return [function(work, source, aspects) for source, aspects in calls]
    return [_repeated(store_wait, partial(function, work, source, aspects)) for source, aspects in calls]


def _repeated(store_wait: StoreWait, stage: Callable[[], E]) -> E:
    """Run a stage, again if it failed because the store was away."""

    def call() -> E:
        outcome = stage()
        rows = [row for row in outcome.rows if isinstance(row, SetAsideRow)]
        if rows:
            raise _HasRows(outcome, rows)
        return outcome

    try:
        return store_wait.until_done(call)
    except _HasRows as failed:
        return cast(E, failed.outcome)


def _go_on(
    queues: _Queues[W, S, E],
    ended: StageBatch[W, S, E],
    outcomes: Sequence[E],
    progress: BuildProgress,
    goes_on: Callable[[E], bool],
    unfinished: Callable[[E], bool],
) -> None:
    """Process the outcomes of a batch, and queue continuing items for their next stage."""
    by_source = {item.source.id: item for item in ended.items}
    further, again = [], []
    for outcome in outcomes:
        item = by_source[outcome.source_id]
        if unfinished(outcome):
            again.append(item)
            continue
        stage = item.stages.pop(0)
        progress.done(stage.name, item.source.title, len(outcome.rows))
        if goes_on(outcome) and item.stages:
            further.append(item)
    if ended.alone:
        queues.suspects.extendleft(StageBatch([item], alone=True) for item in further)
    else:
        # started items go first, so that their frames are used while still cached
        queues.add(further, first=True)
    queues.add(again)


def _after_death(
    queues: _Queues[W, S, E],
    ended: StageBatch[W, S, E],
    problem: WorkerDied,
    before_alone: int,
    died: Callable[[Item[W, S, E], str], E],
) -> list[E]:
    """Queue the items of a dead worker for a retry; return the outcomes of those that exceeded the limit."""
    log.warning("%s: %s", ended.name, problem)
    outcomes = []
    for item in ended.items:
        item.deaths += 1
        item.deaths_alone += ended.alone
        if item.deaths_alone >= MOST_DEATHS:
            message = f"{item.next.name} of {item.source.title}: {problem}, {item.deaths} times"
            outcomes.append(died(item, f"{message}; see the worker's log"))
        elif item.deaths > before_alone:
            queues.suspects.append(StageBatch([item], alone=True))
        else:
            queues.ready.setdefault(item.next.pool, deque()).append(StageBatch([item]))
    return outcomes
