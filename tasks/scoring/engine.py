"""The engine that answers units of work: key, kept answer, limits, row. Every kind of scoring runs on it.

A *unit* is what is answered at once: one request to a judge, one video in one dimension. A *kind* of work
knows how its units are estimated, answered and written down. A *task* holds units that one process answers;
only paths, ids and small frozen models go in and come out, so that any executor can run it in any process.

Rules, the same for every kind:

- A unit is settled when each of its rows has an answer, or a failure that would come again.
- A unit during which its process died is tried once more, alone; after :data:`MOST_DEATHS` deaths it fails.
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

#: How often a process may die of one unit in one run.
MOST_DEATHS = 2


class CannotGoOn(Exception):
    """No unit of this kind can be answered here: something is missing that each of them needs."""


class Row(StoredRow, CountedRow, Protocol):
    """A row of a store that says what it took."""

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
        """By which its rows are known in the store; the first part of each is the row's key."""

    @property
    def shares(self) -> str:
        """Name of what it shares with other units and is expensive to make, such as a decoded video."""


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
        """Answer units, each by `run.reserve` and `run.keep`; what cannot be answered now is left."""


class Kind(ABC, Generic[U]):
    """A kind of work: who answers its units, and how.

    Parameters
    ----------
    name
        What counts and messages call it.
    pool
        Which workers run it.
    concurrency
        Units under way at once in one process.
    """

    name: str
    pool: Pool
    concurrency: int

    #: Requests and tokens a minute that all processes share.
    rate: RateLimit | None = None
    #: Whether units that share something may be put into several tasks, each of which makes it again.
    splits_shared: bool = False

    @property
    def form(self) -> Form[U]:
        """How units are answered: one after the other, unless a kind hands many over at once."""
        return Live(self.concurrency)

    @abstractmethod
    def estimates(self, unit: U) -> Sequence[Estimate]:
        """Return what a unit is expected to take; empty where that is unknown, or nothing is paid."""

    @abstractmethod
    def answer(self, unit: U) -> Sequence[Row]:
        """Return a row for each of the unit's ids, also where there is no answer.

        Raises
        ------
        CannotGoOn
            If no unit of this kind can be answered.
        """

    @abstractmethod
    def failed(self, unit: U, failure: Failure, message: str) -> Sequence[Row]:
        """Return rows that say why a unit has no answer; nothing was paid for it."""

    @abstractmethod
    def copied(self, row: Row, unit: U, place: int) -> Row:
        """Return another unit's row as that of the unit's id at a place: identical, and paid for there."""


@dataclass(frozen=True)
class Work(ABC, Generic[U]):
    """What every task of a run needs to know.

    Parameters
    ----------
    run
        Id of the run, a word without dots or hyphens.
    store_path
        Folder of the store.
    retry
        Whether failures that would come again are tried again.
    allow_cpu_models
        Whether loaded models may run where there is no GPU.
    """

    #: Folder below the store's cache for the counts of runs.
    counts_folder: ClassVar[str]

    run: str
    store_path: str
    prices: Prices = field(default_factory=Prices)
    limits: Limits = field(default_factory=Limits)
    retry: bool = False
    allow_cpu_models: bool = False

    @property
    def cache(self) -> Path:
        """The store's folder for what can be made again."""
        return Path(self.store_path) / "cache"

    @property
    def spending(self) -> Spending:
        """What the run spends."""
        return Spending(self.cache / self.counts_folder / f"{self.run}.json", self.limits)

    @abstractmethod
    def rows(self) -> RowStore:
        """Return this process's store of rows; what it read of finished files is kept for all tasks."""

    @abstractmethod
    def kind(self, name: str) -> Kind[U]:
        """Return a kind of work by its name; what it loads serves all tasks of this process."""


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
    """What a task did.

    Parameters
    ----------
    source_id
        Id of the task.
    made
        Rows that it made.
    rows
        Keys of those without an answer.
    unusable
        What its process lacks where no unit of the kind can be answered there.
    """

    source_id: str
    name: str
    made: int = 0
    rows: tuple[str, ...] = ()
    unusable: str = ""


def reason_of(problem: Exception) -> str:
    """Return for a person why a kind of work cannot be used."""
    for_people = isinstance(problem, PrerequisiteError | UserInputError | CannotGoOn)
    return str(problem) if for_people else f"{type(problem).__name__}: {problem}"


def answer_stage(work: Work[U], task: Task[U], _aspects: tuple[str, ...] = ()) -> Outcome:
    """Answer the units of a task that no earlier try of it has answered.

    Raises
    ------
    StoreError, IntegrityError
        If rows cannot be read: then nobody can read them.
    """
    spending = work.spending
    if spending.stopped(task.name):
        return Outcome(task.id, task.name)
    try:
        kind = work.kind(task.name)
        if kind.pool == "h100" and not work.allow_cpu_models:
            require_gpu()
    except Exception as problem:  # noqa: BLE001 - it was made where the run began: what is missing here is told
        why = reason_of(problem)
        spending.stop(task.name, why)
        return Outcome(task.id, task.name, unusable=why)
    return TaskRun(work, task, kind, spending).all()


class TaskRun(Generic[U]):
    """The units of one task under way: what a :class:`Form` works with; its methods may be called by threads.

    Parameters
    ----------
    deaths
        By key, how often the process of an earlier try of the task died of a unit.
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
        """Answer the units that no earlier try has settled."""
        known = self.store.known_to(self.task.id, [id_ for unit in self.task.units for id_ in unit.ids])
        open_ = [unit for unit in self.task.units if not unit_settled(unit, known, self._retry)]
        with self.store.writer(self.task.id) as self._lines, ExitStack() as at_end:
            at_end.callback(self.meter.spending.flush)
            self.form.answer(open_, self)
        return Outcome(self.task.id, self.task.name, self._made, tuple(self._failed), self._unusable)

    @property
    def stopped(self) -> bool:
        """Whether no more units are to be answered."""
        return self.meter.stopped is not None

    def reserve(self, unit: U) -> Reservation | None:
        """Set aside what a unit is expected to take; None where no unit may be answered any more."""
        # estimates cost time, so they are made only where a limit needs them
        return self.meter.reserve(self.kind.estimates(unit) if self.meter.limited else ())

    def begin(self, unit: U) -> None:
        """Note that a unit is answered now: if this process dies of it, that is known."""
        self._lines.begin(unit.key)

    def keep(self, rows: Sequence[Row], held: Reservation) -> None:
        """Keep and count the rows of a unit."""
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
    """Units one after the other, by some threads: first those of which no process has died."""

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
    """Return whether a unit need not be answered again; `known` as :meth:`RowStore.known`."""
    return all(is_settled(known.get(id_), retry) for id_ in unit.ids)


#: Units of a task for each one that may be under way: few wait for the slowest at its end.
_ROUNDS = 8


def batches(
    units: Sequence[U], concurrency: int, most: int, splits_shared: bool = False
) -> list[tuple[U, ...]]:
    """Return units in tasks: those that share something together, in the order in which that first comes.

    Parameters
    ----------
    concurrency
        How many units are under way at once in one process.
    most
        About how many tasks there may be.
    splits_shared
        Cut also between units that share something; see :class:`Kind`.
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
