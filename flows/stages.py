"""Move sources through the stages, a bounded number at once, each stage in its worker pool."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from flows.batches import MAX_SHARE, Batching, ItemSizes, Waiting
from infra.executor import Executor, Handle, WorkerDied
from infra.progress import BuildProgress
from storage_schemas.errors import AWAY_REASONS, SetAside
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import Source
from storage_schemas.store_wait import StoreWait
from tasks.pairs.stages import BuildWork, Stage, StageResult

log = logging.getLogger(__name__)

#: Number of worker deaths with a single source after which that source is set aside.
MAX_DEATHS = 2
#: Maximum interval between the driver's checks of the number of workers, in seconds.
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
    """Items whose next stages, by default one, run as one task."""

    items: list[Item[W, S, E]]
    alone: bool = False
    number: int = 1

    @property
    def stages(self) -> list[Stage[W, S, E]]:
        """Their common stages."""
        return self.items[0].stages[: self.number]

    @property
    def pool(self) -> str:
        """Their pool."""
        return self.items[0].next.pool

    @property
    def name(self) -> str:
        """Display name."""
        more = f" and {len(self.items) - 1} more" if len(self.items) > 1 else ""
        return f"{'+'.join(stage.name for stage in self.stages)} {self.items[0].source.title}{more}"


#: Ranks of waiting work. Started sources come first, so that their frames are used while still cached; a
#: stage that has to run again waits behind all others.
_STARTED, _NEW, _AGAIN = range(3)


@dataclass
class _Queues(Generic[W, S, E]):
    """Waiting work by pool, and the batches that were running when a worker died.

    A dying worker may take other items with it, so the cause is unknown: each source is retried in a
    separate task, finally stage by stage while nothing else runs, and only those deaths count.
    """

    executor: Executor
    batching: Batching
    #: Whether every stage of every source is a task.
    single: bool
    waiting: dict[str, Waiting[Item[W, S, E]]] = field(default_factory=dict)
    retries: dict[str, deque[StageBatch[W, S, E]]] = field(default_factory=dict)
    suspects: deque[StageBatch[W, S, E]] = field(default_factory=deque)
    running: dict[Handle, StageBatch[W, S, E]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = ItemSizes(self.batching.items)

    def add(self, items: Iterable[Item[W, S, E]], rank: int = _NEW) -> None:
        """Queue items for their next stages, in order."""
        for item in items:
            if item.deaths:
                self.retry(item)
                continue
            stages = item.stages[: self._together(item)]
            waiting = self.waiting.setdefault(item.next.pool, Waiting())
            waiting.add(item, rank, tuple(stage.name for stage in stages), self.seconds(item, stages))

    def retry(self, item: Item[W, S, E]) -> None:
        """Queue an item for its next stages separately."""
        batch = StageBatch([item], number=self._together(item))
        self.retries.setdefault(item.next.pool, deque()).append(batch)

    def _together(self, item: Item[W, S, E]) -> int:
        """Return how many of the item's next stages run as one task: one, or all of a pool if necessary."""
        if self.single:
            return 1
        stages = list(takewhile(lambda stage: stage.pool == item.next.pool, item.stages))
        most_s = self.executor.limits(item.next.pool).longest_s * MAX_SHARE
        return len(stages) if self.seconds(item, stages) <= most_s else 1

    def seconds(self, item: Item[W, S, E], stages: Iterable[Stage[W, S, E]]) -> float:
        """Return how long stages of an item take, by the estimate."""
        return sum(self.batching.seconds(stage.name, item.source.id) for stage in stages)

    def plan(self, items: Iterable[Item[W, S, E]]) -> None:
        """Record the work of further items, with all their stages."""
        self.sizes.work_s += sum(self.seconds(item, item.stages) for item in items)

    def left(self) -> bool:
        """Return whether anything waits or runs."""
        return bool(self.suspects or self.running or self._any_waits())

    def _any_waits(self) -> bool:
        return any(self.waiting.values()) or any(self.retries.values())

    def startable(self) -> Iterable[StageBatch[W, S, E]]:
        """Yield the batches to start now; start each before requesting the next."""
        if any(batch.alone for batch in self.running.values()):
            return
        in_flight: Counter[str] = Counter(batch.pool for batch in self.running.values())
        for pool in {**self.waiting, **self.retries}:
            waiting, retries = self.waiting.get(pool, Waiting()), self.retries.get(pool, deque())
            room = self.executor.room(pool, in_flight[pool] + self._tasks(waiting) + len(retries))
            while (waiting or retries) and in_flight[pool] < room:
                in_flight[pool] += 1
                yield self._next(pool, waiting) if waiting else retries.popleft()
        waits = bool(self.suspects) and not self.running and not self._any_waits()
        if waits and self.executor.room(self.suspects[0].pool, 1):
            yield self.suspects.popleft()

    def _tasks(self, waiting: Waiting[Item[W, S, E]]) -> int:
        """Return the number of tasks that waiting work will form."""
        if self.single or not waiting:
            return len(waiting)
        return self.sizes.share(waiting.seconds, len(waiting))

    def _next(self, pool: str, waiting: Waiting[Item[W, S, E]]) -> StageBatch[W, S, E]:
        about_s = most_s = 0.0
        if not self.single:
            limits = self.executor.limits(pool)
            about_s, most_s = self.sizes.next(pool, waiting.seconds, len(waiting), limits)
        before_s = waiting.seconds
        kind, items = waiting.take(about_s, most_s)
        self.sizes.began(before_s - waiting.seconds)
        return StageBatch(items, number=len(kind))


def through_stages(
    executor: Executor,
    work: W,
    items: Sequence[Item[W, S, E]],
    progress: BuildProgress,
    should_continue: Callable[[E], bool],
    on_worker_death: Callable[[Item[W, S, E], str], E],
    batching: Batching | None = None,
    store_wait: StoreWait | None = None,
    unfinished: Callable[[E], bool] = lambda _: False,
) -> int:
    """Run every item through its stages; return the number of tasks.

    Parameters
    ----------
    should_continue
        Called with each outcome; returns whether the source continues to its next stage.
    on_worker_death
        Called with an item that repeatedly killed its worker, and a message; returns its outcome.
    batching
        How items form tasks; by default each stage of each item is a task.
    store_wait
        Repeats a stage whose store was unavailable; by default no stage is repeated.
    unfinished
        Called with each outcome; returns whether its stage has to run again, behind all others.

    Raises
    ------
    StoreError
        If the store was unavailable for too long.
    """
    single = batching is None or sum(len(item.stages) for item in items) <= batching.items
    queues = _Queues[W, S, E](executor, batching or Batching(0), single)
    queues.plan(items)
    queues.add(items)
    tasks = 0
    while queues.left():
        for started in queues.startable():
            calls = tuple((item.source, item.aspects) for item in started.items)
            functions = tuple(stage.function for stage in started.stages)
            # some executors do the work within the call
            oldest = next(iter(queues.running.values()), started)
            progress.working_on(oldest.name, len(queues.running))
            handle = executor.submit(
                started.name, started.pool, run_batch, functions, work, calls, store_wait
            )
            queues.running[handle] = started
            tasks += 1
        progress.note_pools(executor.state())
        if not queues.running:
            progress.working_on("the wait for workers")
            time.sleep(LOOK_EVERY_S)
            continue
        progress.working_on(next(iter(queues.running.values())).name, len(queues.running) - 1)
        for handle in executor.wait_any(queues.running, LOOK_EVERY_S):
            ended = queues.running.pop(handle)
            try:
                outcomes: Sequence[Timed[E]] = executor.result(handle)
            except WorkerDied as problem:
                outcomes = _after_death(queues, ended, problem, executor.deaths_before_alone, on_worker_death)
            _advance(queues, ended, outcomes, progress, should_continue, unfinished)
    progress.working_on()
    return tasks


class Timed(NamedTuple, Generic[E]):
    """An outcome, and how long its stage took in seconds."""

    outcome: E
    seconds: float


class _HasRows(SetAside):
    """An outcome with rows, which may be due to the store."""

    def __init__(self, outcome: Ended, rows: Sequence[SetAsideRow]) -> None:
        # one row about the store is enough to repeat the stage
        row = next((row for row in rows if row.reason in AWAY_REASONS), rows[0])
        super().__init__(row.reason, row.message)
        self.outcome = outcome


def run_batch(
    functions: Sequence[Callable[[W, S, tuple[str, ...]], E]],
    work: W,
    calls: Sequence[tuple[S, tuple[str, ...]]],
    store_wait: StoreWait | None = None,
) -> list[Timed[E]]:
    """Run one or more stages of several items, one item after the other; called on the worker.

    A source that is set aside, or whose stage has to run again, has no later stage here.

    Raises
    ------
    StoreError
        If the store was unavailable for too long.
    """
    outcomes = []
    for source, aspects in calls:
        for function in functions:
            began = time.monotonic()
            stage = partial(function, work, source, aspects)
            outcome = stage() if store_wait is None else _repeated(store_wait, stage)
            outcomes.append(Timed(outcome, time.monotonic() - began))
            set_aside = any(not getattr(row, "aspect", "") for row in outcome.rows)
            if set_aside or getattr(outcome, "unfinished", False):
                break
    return outcomes


def _repeated(store_wait: StoreWait, stage: Callable[[], E]) -> E:
    """Run a stage, again if it failed because the store was unavailable."""

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


def _advance(
    queues: _Queues[W, S, E],
    ended: StageBatch[W, S, E],
    outcomes: Sequence[Timed[E]],
    progress: BuildProgress,
    should_continue: Callable[[E], bool],
    unfinished: Callable[[E], bool],
) -> None:
    """Process the outcomes of a batch, and queue continuing items for their next stages."""
    pool, begun = ended.pool, {stage.name for stage in ended.stages}
    by_source = {item.source.id: item for item in ended.items}
    further: dict[str, Item[W, S, E]] = {}
    again = []
    for outcome, seconds in outcomes:
        item = by_source[outcome.source_id]
        queues.sizes.ran(pool, queues.seconds(item, item.stages[:1]), seconds)
        queues.batching.ran(item.next.name, item.source.id, seconds)
        if unfinished(outcome):
            again.append(item)
            continue
        stage = item.stages.pop(0)
        progress.done(stage.name, item.source.title, len(outcome.rows))
        further.pop(item.source.id, None)
        if not should_continue(outcome):
            later = [stage for stage in item.stages if stage.name not in begun]
            queues.sizes.dropped(queues.seconds(item, later))
        elif item.stages:
            further[item.source.id] = item
    if ended.alone:
        queues.suspects.extendleft(StageBatch([item], alone=True) for item in further.values())
    else:
        queues.add(further.values(), _STARTED)
    queues.plan(again)
    queues.add(again, _AGAIN)


def _after_death(
    queues: _Queues[W, S, E],
    ended: StageBatch[W, S, E],
    problem: WorkerDied,
    before_alone: int,
    on_worker_death: Callable[[Item[W, S, E], str], E],
) -> list[Timed[E]]:
    """Queue the items of a dead worker for a retry; return the outcomes of those that exceeded the limit."""
    log.warning("%s: %s", ended.name, problem)
    outcomes = []
    for item in ended.items:
        item.deaths += 1
        item.deaths_alone += ended.alone
        if item.deaths_alone >= MAX_DEATHS:
            message = f"{item.next.name} of {item.source.title}: {problem}, {item.deaths} times"
            outcomes.append(Timed(on_worker_death(item, f"{message}; see the worker's log"), 0.0))
        elif item.deaths > before_alone:
            queues.suspects.append(StageBatch([item], alone=True))
        else:
            queues.retry(item)
    return outcomes
