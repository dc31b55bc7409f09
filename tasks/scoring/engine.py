"""The engine that answers units of work: key, kept answer, limits, row. All scoring runs on it.

A *unit* is answered as a whole: one request to a judge, or one video in one dimension. A *kind* of work
estimates and answers its units, and makes their rows. A *task* is a set of units for one process; its
inputs and outputs are paths, ids and small frozen models, so that any executor can run it in any process.

These rules hold for every kind:

- A unit is settled when each of its rows has an answer, or a failure that a new attempt would not change.
- A unit during which its process died is retried alone; after :data:`MAX_DEATHS` deaths it fails.
- A stop (limit, missing price, refused key, failures in a row) leaves the remaining units to the next run.
"""

from __future__ import annotations

import logging
import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.json_lines import LinesFile, StoredRow
from storage_schemas.judgements import Failure, is_settled
from storage_schemas.placement import Hardware, Placement
from storage_schemas.row_store import RowId, RowStore
from tasks.llm.limits import Limits, RateLimit, Spending
from tasks.llm.meter import CountedRow, Meter, Reservation
from tasks.llm.usage import Estimate, Prices
from tasks.models.device import require_gpu

log = logging.getLogger(__name__)

#: Maximum deaths of a process on one unit in one run.
MAX_DEATHS = 2


class CannotContinue(Exception):
    """No unit of this kind can be answered here: a requirement of all of them is missing."""


class Row(StoredRow, CountedRow, Protocol):
    """A row of a store, with its cost."""

    @property
    def key(self) -> str:
        """Checksum of everything the answer depends on."""


class Unit(Protocol):
    """A piece of work that is answered as a whole."""

    @property
    def key(self) -> str:
        """Checksum of everything the answer depends on."""

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
        Whether units wait for the kind's rate limit.
    """

    paced: ClassVar[bool] = True

    @property
    def most_units(self) -> int | None:
        """Maximum number of units of a task; None to derive it from the number of concurrent units."""
        return None

    @abstractmethod
    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer units, each by `run.reserve` and `run.keep`; skip those that cannot be answered now."""


class Kind(ABC, Generic[U]):
    """A kind of work, which answers units.

    Parameters
    ----------
    name
        Name in counts and messages.
    hardware
        Hardware that its workers must have.
    placement_name
        Its name in the profile's placement.
    concurrency
        Number of units answered concurrently in one process.
    """

    name: str
    hardware: Hardware
    placement_name: str
    concurrency: int

    #: Requests and tokens per minute, over all processes.
    rate: RateLimit | None = None
    #: Whether units that share something may be split into several tasks, each of which makes it again.
    splits_shared: bool = False

    @property
    def form(self) -> Form[U]:
        """How units are answered: live, unless a kind submits batches."""
        return Live(self.concurrency)

    @abstractmethod
    def estimates(self, unit: U) -> Sequence[Estimate]:
        """Return the estimated cost of a unit; empty if it is unknown or free."""

    @abstractmethod
    def answer(self, unit: U) -> Sequence[Row]:
        """Return a row for each of the unit's ids, even without an answer.

        Raises
        ------
        CannotContinue
            If no unit of this kind can be answered.
        """

    def in_order(self, units: Sequence[U]) -> Sequence[U]:
        """Return units in the order in which they are best answered; by default as they are."""
        return units

    def leaders(self, units: Sequence[U]) -> Collection[str]:
        """Return the keys of units to answer first, since others reuse their answers; by default none."""
        return ()

    @abstractmethod
    def failed(self, unit: U, failure: Failure, message: str) -> Sequence[Row]:
        """Return rows with the reason why a unit has no answer; they cost nothing."""

    @abstractmethod
    def copied(self, row: Row, unit: U, index: int) -> Row:
        """Return the row of an identical unit, as the row at an index of the unit's ids; it costs nothing."""


@dataclass(frozen=True)
class Work(ABC, Generic[U]):
    """Context shared by all tasks of a run.

    Parameters
    ----------
    run
        Id of the run, a word without dots or hyphens.
    store_path
        Folder of the store.
    retry
        Kinds of failures that are retried although a new attempt would normally not change them.
    placement
        Where work runs.
    allow_cpu_models
        Whether work of a GPU pool may run without a GPU.
    """

    #: Folder below the store's cache for the counts of runs.
    counts_folder: ClassVar[str]

    run: str
    store_path: str
    prices: Prices = field(default_factory=Prices)
    limits: Limits = field(default_factory=Limits)
    retry: frozenset[str] = frozenset()
    placement: Placement = field(default_factory=Placement)
    allow_cpu_models: bool = False

    @property
    def cache(self) -> Path:
        """The store's folder of files that can be recreated."""
        return Path(self.store_path) / "cache"

    @property
    def spending(self) -> Spending:
        """The run's counts and limits."""
        return Spending(self.cache / self.counts_folder / f"{self.run}.json", self.limits)

    @property
    def collects(self) -> bool:
        """Whether it only collects answers requested by an earlier run; a stop does not interrupt that."""
        return False

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
        A word without dots that starts with the run's id.
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
        Number of rows made.
    rows
        Keys of rows without an answer.
    unusable
        If no unit of the kind can be answered in its process, what is missing there.
    notes
        Notes for people.
    """

    source_id: str
    name: str
    made: int = 0
    rows: tuple[str, ...] = ()
    unusable: str = ""
    notes: tuple[str, ...] = ()


def reason_of(problem: Exception) -> str:
    """Return a readable reason why a kind of work cannot be used."""
    readable = isinstance(problem, PrerequisiteError | UserInputError | CannotContinue)
    return str(problem) if readable else f"{type(problem).__name__}: {problem}"


def answer_stage(work: Work[U], task: Task[U], _aspects: tuple[str, ...] = ()) -> Outcome:
    """Answer the units of a task that no earlier attempt has answered.

    Raises
    ------
    StoreError, IntegrityError
        If the store's rows cannot be read.
    """
    spending = work.spending
    if spending.stopped(task.name) and not work.collects:
        return Outcome(task.id, task.name)
    try:
        kind = work.kind(task.name)
        if work.placement.runs_on(kind.hardware, kind.placement_name) == "gpu" and not work.allow_cpu_models:
            require_gpu()
        run = TaskRun(work, task, kind, spending)
    except Exception as problem:  # noqa: BLE001 - it could be made where the run began, so this worker lacks something
        why = reason_of(problem)
        spending.stop(task.name, why)
        return Outcome(task.id, task.name, unusable=why)
    return run.all()


class TaskRun(Generic[U]):
    """One execution of a task, which a :class:`Form` works with; its methods are thread-safe.

    Attributes
    ----------
    deaths
        By key of a unit, how many processes of earlier attempts died on it.
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
        self._notes: list[str] = []
        self._lines: LinesFile

    def all(self) -> Outcome:
        """Answer the units that no earlier attempt has settled."""
        failures = self.store.failures_of(self.task.id, [id_ for unit in self.task.units for id_ in unit.ids])
        open_ = [unit for unit in self.task.units if not unit_settled(unit, failures, self._retry)]
        with self.store.writer(self.task.id) as self._lines, ExitStack() as at_end:
            at_end.callback(self.meter.spending.flush)
            self.form.answer(open_, self)
        failed, notes = tuple(self._failed), tuple(self._notes)
        return Outcome(self.task.id, self.task.name, self._made, failed, self._unusable, notes)

    @property
    def stopped(self) -> bool:
        """Whether no more units may be answered."""
        return self.meter.stopped is not None

    def reserve(self, unit: U) -> Reservation | None:
        """Reserve the estimated cost of a unit; return None if no more units may be answered."""
        # estimates cost time, so they are made only if a limit needs them
        return self.meter.reserve(self.kind.estimates(unit) if self.meter.limited else ())

    def release(self, reservation: Reservation) -> None:
        """Release the reservation of a unit that was not answered."""
        self.meter.release(reservation)

    def begin(self, unit: U) -> None:
        """Record that a unit is started, so that a death of this process is attributed to it."""
        self._lines.begin(unit.key)

    def keep(self, rows: Sequence[Row], reservation: Reservation) -> None:
        """Store and count the rows of a unit."""
        if self.meter.refuses(reservation, rows):
            return
        for row in rows:
            self._lines.add(row)
        self.meter.count(reservation, rows)
        with self._lock:
            self._made += len(rows)
            self._failed += [row.key for row in rows if row.failure is not None]

    def note(self, text: str) -> None:
        """Add a note to the run's result."""
        log.warning("%s", text)
        self._notes.append(text)

    def give_up(self, problem: CannotContinue, *reservations: Reservation) -> None:
        """Stop the kind, because no unit of it can be answered here."""
        for one in reservations:
            self.meter.release(one)
        self._unusable = str(problem)
        self.meter.stop(str(problem), Failure.PREREQUISITE_MISSING)


@dataclass(frozen=True)
class Live(Form[U]):
    """Answers units one after the other, in threads.

    Leaders come first; units on which a process died come last, alone.
    """

    concurrency: int

    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer units."""
        leaders = run.kind.leaders(units)
        for leads in (True, False):
            some = [unit for unit in units if not run.deaths[unit.key] and (unit.key in leaders) == leads]
            self._some(some, self.concurrency, run)
        suspects = [unit for unit in units if run.deaths[unit.key]]
        self._some([unit for unit in suspects if run.deaths[unit.key] < MAX_DEATHS], 1, run)
        for unit in suspects:
            if run.deaths[unit.key] >= MAX_DEATHS:
                message = f"its process died {MAX_DEATHS} times; see the worker's log"
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
    reservation = run.reserve(unit)
    if reservation is None:
        return
    run.begin(unit)
    try:
        rows = run.kind.answer(unit)
    except CannotContinue as problem:
        run.give_up(problem, reservation)
        return
    run.keep(rows, reservation)


def unit_settled(unit: Unit, failures: Mapping[RowId, str], retry: Collection[str]) -> bool:
    """Return whether a unit needs no further attempt; `failures` is from :meth:`RowStore.failures`."""
    return all(is_settled(failures.get(id_), retry) for id_ in unit.ids)


#: Units of a task per concurrent unit, so that few threads idle while the last ones finish.
_ROUNDS = 8


def batches(
    units: Sequence[U],
    concurrency: int,
    most: int,
    splits_shared: bool = False,
    most_units: int | None = None,
) -> list[tuple[U, ...]]:
    """Group units into tasks: units that share something stay together, in order of first occurrence.

    Parameters
    ----------
    concurrency
        Number of units answered concurrently in one process.
    most
        Approximate maximum number of tasks.
    splits_shared
        Whether units that share something may be split; see :class:`Kind`.
    most_units
        Number of units that one process answers together, see :class:`Form`; the others do not count then.
    """
    if most_units is not None:
        return [tuple(units[first : first + most_units]) for first in range(0, len(units), most_units)]
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
