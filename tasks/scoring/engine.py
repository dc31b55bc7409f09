"""The engine that answers units of work: key, kept answer, limits, row. Every kind of scoring uses it.

A *unit* is answered at once: one request to a judge, one video in one dimension. A *kind* of work defines how
its units are estimated, answered and stored. A *task* holds units that one process answers; its input and
output are paths, ids and small frozen models, so that any executor can run it in any process.

Rules, the same for every kind:

- A unit is settled when each of its rows has an answer, or a failure that a new attempt would not change.
- A unit whose process died is retried alone; after :data:`MOST_DEATHS` deaths it fails.
- A stop (limit, missing price, refused key, failures in a row) leaves the remaining units to the next run.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.json_lines import LinesFile, StoredRow
from storage_schemas.judgements import Failure, is_settled
from storage_schemas.row_store import RowId, RowStore
from tasks.aspects.base import Pool
from tasks.llm.limits import Limits, RateLimit, Spending
from tasks.llm.meter import CountedRow, Meter, Reservation
from tasks.llm.usage import Estimate, Prices
from tasks.models.device import require_gpu

#: Maximum number of processes that may die of one unit in one run.
MOST_DEATHS = 2


class CannotGoOn(Exception):
    """No unit of this kind can be answered here, because something that all need is missing."""


class Row(StoredRow, CountedRow, Protocol):
    """A row of a store, with its cost."""

    @property
    def key(self) -> str:
        """Checksum of all that the answer depends on."""


class Unit(Protocol):
    """What is answered at once."""

    @property
    def key(self) -> str:
        """Checksum of all that its answer depends on."""

    @property
    def ids(self) -> Sequence[RowId]:
        """Ids of its rows in the store; the first part of each is the row's key."""

    @property
    def shares(self) -> str:
        """Name of something expensive that it shares with other units, such as a decoded video."""


U = TypeVar("U", bound=Unit)


class Form(ABC, Generic[U]):
    """How the units of a task are answered: :class:`Live`, or :class:`~tasks.scoring.submitted.Submitted`.

    Class attributes
    ----------------
    paced
        Whether requests wait for the kind's rate.
    """

    paced: ClassVar[bool] = True

    @abstractmethod
    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer units, each with `run.reserve` and `run.keep`; units that cannot be answered now are
        left."""


class Kind(ABC, Generic[U]):
    """A kind of work: how its units are answered.

    Parameters
    ----------
    name
        Its name in counts and messages.
    pool
        Which workers run it.
    concurrency
        Number of concurrent units in one process.
    """

    name: str
    pool: Pool
    concurrency: int

    #: Limit of requests and tokens per minute, shared by all processes.
    rate: RateLimit | None = None
    #: Whether units that share something may be split over several tasks, each of which makes it again.
    splits_shared: bool = False

    @property
    def form(self) -> Form[U]:
        """How units are answered: live by default."""
        return Live(self.concurrency)

    @abstractmethod
    def estimates(self, unit: U) -> Sequence[Estimate]:
        """Return the estimated cost of a unit; empty if it is unknown or nothing is paid for."""

    @abstractmethod
    def answer(self, unit: U) -> Sequence[Row]:
        """Return a row for each of the unit's ids; a failure is a row too.

        Raises
        ------
        CannotGoOn
            If no unit of this kind can be answered.
        """

    @abstractmethod
    def failed(self, unit: U, failure: Failure, message: str) -> Sequence[Row]:
        """Return failure rows of a unit for which nothing was paid."""

    @abstractmethod
    def copied(self, row: Row, unit: U, place: int) -> Row:
        """Return the row of an identical unit as the unit's row at a place, without its cost."""


@dataclass(frozen=True)
class Work(ABC, Generic[U]):
    """Context of all tasks of a run.

    Parameters
    ----------
    run
        Id of the run, a word without dots or hyphens.
    store_path
        Folder of the store.
    retry
        Whether settled failures are retried.
    allow_cpu_models
        Whether loaded models may run without a GPU.
    """

    #: Folder below the store's cache with the counts of runs.
    counts_folder: ClassVar[str]

    run: str
    store_path: str
    prices: Prices = field(default_factory=Prices)
    limits: Limits = field(default_factory=Limits)
    retry: bool = False
    allow_cpu_models: bool = False

    @property
    def cache(self) -> Path:
        """The store's folder of reproducible files."""
        return Path(self.store_path) / "cache"

    @property
    def spending(self) -> Spending:
        """The requests, tokens and dollars of the run."""
        return Spending(self.cache / self.counts_folder / f"{self.run}.json", self.limits)

    @abstractmethod
    def rows(self) -> RowStore:
        """Return this process's store of rows; all tasks share what it has read of finished files."""

    @abstractmethod
    def kind(self, name: str) -> Kind[U]:
        """Return a kind of work by its name; all tasks of this process share what it loads."""


@dataclass(frozen=True)
class Task(Generic[U]):
    """Units of one kind that one process answers.

    Parameters
    ----------
    id
        A word without dots that begins with the run's id.
    name
        Name of the kind.
    """

    id: str
    title: str
    name: str
    units: tuple[U, ...]


@dataclass(frozen=True)
class Outcome:
    """Result of a task.

    Parameters
    ----------
    source_id
        Id of the task.
    made
        Number of rows that it made.
    rows
        Keys of those without an answer.
    unusable
        What its process lacks to answer any unit of the kind; empty if nothing.
    """

    source_id: str
    name: str
    made: int = 0
    rows: tuple[str, ...] = ()
    unusable: str = ""


def reason_of(problem: Exception) -> str:
    """Return a message that says why a kind of work cannot be used."""
    for_people = isinstance(problem, PrerequisiteError | UserInputError | CannotGoOn)
    return str(problem) if for_people else f"{type(problem).__name__}: {problem}"


def answer_stage(work: Work[U], task: Task[U], _aspects: tuple[str, ...] = ()) -> Outcome:
    """Answer the units of a task that no earlier attempt has answered.

    Raises
    ------
    StoreError, IntegrityError
        If rows cannot be read.
    """
    spending = work.spending
    if spending.stopped(task.name):
        return Outcome(task.id, task.name)
    try:
        kind = work.kind(task.name)
        if kind.pool == "h100" and not work.allow_cpu_models:
            require_gpu()
    except Exception as problem:  # noqa: BLE001 - it was made when the run began: report what is missing here
        why = reason_of(problem)
        spending.stop(task.name, why)
        return Outcome(task.id, task.name, unusable=why)
    return TaskRun(work, task, kind, spending).all()


class TaskRun(Generic[U]):
    """The running units of one task, used by a :class:`Form`; its methods may be called by threads.

    Parameters
    ----------
    deaths
        By key, the number of processes of earlier attempts that died of a unit.
    """

    def __init__(self, work: Work[U], task: Task[U], kind: Kind[U], spending: Spending) -> None:
        self.task, self.kind, self.form = task, kind, kind.form
        self.store, self._retry = work.rows(), work.retry
        self.deaths = self.store.begun(task.id)
        self.meter = Meter(task.name, spending, work.prices, kind.rate if self.form.paced else None)
        self._lock = threading.Lock()
        self._made = 0
        self._failed: list[str] = []
        self._unusable = ""
        self._lines: LinesFile

    def all(self) -> Outcome:
        """Answer the units that no earlier attempt has settled."""
        known = self.store.known_to(self.task.id, [id_ for unit in self.task.units for id_ in unit.ids])
        open_ = [unit for unit in self.task.units if not unit_settled(unit, known, self._retry)]
        with self.store.writer(self.task.id) as self._lines, ExitStack() as at_end:
            at_end.callback(self.meter.spending.flush)
            self.form.answer(open_, self)
        return Outcome(self.task.id, self.task.name, self._made, tuple(self._failed), self._unusable)

    @property
    def stopped(self) -> bool:
        """Whether the kind's run has stopped."""
        return self.meter.stopped is not None

    def reserve(self, unit: U) -> Reservation | None:
        """Reserve the estimated cost of a unit; None if the run has stopped."""
        # estimates take time, so they are made only for limits
        return self.meter.reserve(self.kind.estimates(unit) if self.meter.limited else ())

    def begin(self, unit: U) -> None:
        """Note that a unit is being answered, so that a death of this process is attributed to it."""
        self._lines.begin(unit.key)

    def keep(self, rows: Sequence[Row], held: Reservation) -> None:
        """Store and count the rows of a unit."""
        if self.meter.refuses(held, rows):
            return
        for row in rows:
            self._lines.add(row)
        self.meter.count(held, rows)
        with self._lock:
            self._made += len(rows)
            self._failed += [row.key for row in rows if row.failure is not None]

    def give_up(self, problem: CannotGoOn, *held: Reservation) -> None:
        """End the kind's run: no unit of it can be answered."""
        for one in held:
            self.meter.release(one)
        self._unusable = str(problem)
        self.meter.stop(str(problem), Failure.PREREQUISITE_MISSING)


@dataclass(frozen=True)
class Live(Form[U]):
    """Answers units one after the other in threads, those that killed a process last."""

    concurrency: int

    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer units."""
        self._some([unit for unit in units if not run.deaths[unit.key]], self.concurrency, run)
        suspects = [unit for unit in units if run.deaths[unit.key]]
        self._some([unit for unit in suspects if run.deaths[unit.key] < MOST_DEATHS], 1, run)
        for unit in suspects:
            if run.deaths[unit.key] >= MOST_DEATHS:
                message = f"its process died, {MOST_DEATHS} times; see the worker's log"
                run.keep(run.kind.failed(unit, Failure.INTERNAL_ERROR, message), Reservation())

    def _some(self, units: Iterable[U], threads: int, run: TaskRun[U]) -> None:
        left = deque(units)

        def work() -> None:
            while not run.stopped:
                try:
                    unit = left.popleft()
                except IndexError:
                    return
                _answer_one(unit, run)

        count = min(threads, len(left))
        if count <= 1:
            work()
            return
        with ThreadPoolExecutor(count, thread_name_prefix=run.task.name) as pool:
            running = [pool.submit(work) for _ in range(count)]
        for ended in running:
            ended.result()


def _answer_one(unit: U, run: TaskRun[U]) -> None:
    held = run.reserve(unit)
    if held is None:
        return
    run.begin(unit)
    try:
        rows = run.kind.answer(unit)
    except CannotGoOn as problem:
        run.give_up(problem, held)
        return
    run.keep(rows, held)


def unit_settled(unit: Unit, known: Mapping[RowId, str], retry: bool) -> bool:
    """Return whether a unit needs no new attempt; `known` as in :meth:`RowStore.known`."""
    return all(is_settled(known.get(id_), retry) for id_ in unit.ids)


#: Units of a task per concurrent unit, so that few threads wait for the slowest at the end.
_ROUNDS = 8


def batches(
    units: Sequence[U], concurrency: int, most: int, splits_shared: bool = False
) -> list[tuple[U, ...]]:
    """Return units in batches; those that share something stay together, in order of first appearance.

    Parameters
    ----------
    concurrency
        Number of concurrent units in one process.
    most
        Approximate maximum number of tasks.
    splits_shared
        Split units that share something too; see :class:`Kind`.
    """
    by_shared: dict[str, list[U]] = {}
    for unit in units:
        by_shared.setdefault(unit.shares, []).append(unit)
    fair = math.ceil(len(units) / max(most, 1))
    if splits_shared:
        size = max(_ROUNDS * concurrency, fair)
        ordered = [unit for some in by_shared.values() for unit in some]
        return [tuple(ordered[start : start + size]) for start in range(0, len(ordered), size)]
    least = max(_ROUNDS * concurrency if concurrency > 1 else 1, fair)
    tasks: list[tuple[U, ...]] = []
    batch: list[U] = []
    for some in by_shared.values():
        batch += some
        if len(batch) >= least:
            tasks.append(tuple(batch))
            batch = []
    return [*tasks, tuple(batch)] if batch else tasks
