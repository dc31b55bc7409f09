"""A run of units of any kind on an executor: missing units, tasks, and deaths of processes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from flows.release.run import MAX_TASKS
from flows.score.results import RequestProgress
from flows.stages import Item, through_stages
from infra.executor import Executor
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Failure, is_settled
from storage_schemas.locks import only_one
from storage_schemas.row_store import RowId, RowStore
from tasks.pairs.stages import Stage
from tasks.scoring.engine import (
    Kind,
    Outcome,
    Row,
    Task,
    U,
    Work,
    answer_stage,
    batches,
    reason_of,
    unit_settled,
)
from tasks.scoring.submitted import BatchRecords

#: Number of tasks with repeated deaths of processes that ends the run of their kind.
MAX_DEAD_TASKS = 5

Result = TypeVar("Result")
_TaskItem = Item[Work[U], Task[U], Outcome]


@dataclass
class RunPart(Generic[U]):
    """The work of one evaluator or one dimension in a run.

    Parameters
    ----------
    name
        Its name in counts and tables.
    kind
        Its kind of work; None if it cannot be used.
    units
        All requested units, including those that have answers.
    refused
        Why it cannot be used; empty if it can.
    busy
        Whether another run is answering it now.
    found_before
        Rows that already existed.
    deaths
        Number of tasks with repeated deaths of processes.
    """

    name: str
    kind: Kind[U] | None = None
    units: list[U] = field(default_factory=list)
    refused: str = ""
    busy: bool = False
    found_before: int = 0
    deaths: int = 0

    @property
    def usable(self) -> bool:
        """Whether its units can be answered."""
        return self.kind is not None and not self.refused


class ScoringRun(ABC, Generic[U, Result]):
    """A run; subclasses define its parts and its result."""

    progress: RequestProgress
    run_id: str
    work: Work[U]
    #: Number of tasks of earlier rounds.
    tasks_made: int = 0

    @property
    @abstractmethod
    def parts(self) -> Collection[RunPart[U]]:
        """The parts, in order."""

    @abstractmethod
    def lock_file(self, part: RunPart[U]) -> Path:
        """Return the file that is locked while a part is answered, so that two runs do not pay twice."""

    @property
    def rows(self) -> RowStore:
        """The store of rows."""
        return self.work.rows()

    def missing(self, part: RunPart[U], failures: Mapping[RowId, str] | None = None) -> list[U]:
        """Return the units without an answer; for units with the same key only the first.

        Parameters
        ----------
        failures
            As :meth:`RowStore.failures`; read if not given.
        """
        failures = self.rows.failures() if failures is None else failures
        first: dict[str, U] = {}
        for unit in part.units:
            if not unit_settled(unit, failures, self.work.retry):
                first.setdefault(unit.key, unit)
        return list(first.values())

    def idle(self) -> bool:
        """Return whether no unit needs an answer."""
        failures = self.rows.failures()
        return not any(part.usable and self.missing(part, failures) for part in self.parts)

    def find_known(self) -> None:
        """Copy the answers of identical units, and count the existing rows."""
        self.copy_known()
        failures = self.rows.failures()
        for part in self.parts:
            part.found_before = sum(
                is_settled(failures.get(id_), self.work.retry) for unit in part.units for id_ in unit.ids
            )

    def pool_of(self, kind: Kind[U]) -> str:
        """Return the pool of a kind of work.

        Raises
        ------
        PrerequisiteError
            If the site has no suitable pool.
        """
        try:
            return self.work.placement.pool(kind.hardware, kind.placement_name)
        except UserInputError as problem:
            raise PrerequisiteError(str(problem)) from problem

    @abstractmethod
    def check_part(self, part: RunPart[U]) -> None:
        """Raise if something that a part needs is missing; nothing is loaded."""

    def check_missing(self) -> None:
        """Check the parts that have something left to answer."""
        failures = self.rows.failures()
        for part in self.parts:
            if not part.usable or not self.missing(part, failures):
                continue
            try:
                self.check_part(part)
            except UserInputError:
                raise
            except Exception as problem:  # noqa: BLE001 - may be code of another package
                self.refuse(part, problem)

    def refuse(self, part: RunPart[U], problem: Exception) -> None:
        """Record why a part cannot be used, reporting each reason once: one model may serve many parts."""
        part.refused = reason_of(problem)
        if not any(one.refused == part.refused for one in self.parts if one is not part):
            self.progress.say(f"{part.name} cannot be used: {part.refused}")

    def copy_known(self) -> None:
        """Copy answers, and failures that a new attempt would not change, to identical units in any set."""
        failures, retry = self.rows.failures(), self.work.retry
        by_key: dict[str, RowId] = {}
        # an answer takes precedence over a failure
        for id_, failure in sorted(failures.items(), key=lambda item: bool(item[1])):
            if is_settled(failure, retry):
                by_key.setdefault(id_[0], id_)

        def wants(id_: RowId) -> bool:
            given = by_key.get(id_[0])
            if given is None:
                return False
            better = failures.get(id_) != "" and failures[given] == ""
            return better or not is_settled(failures.get(id_), retry)

        wanted = [
            (part.kind, unit, index, by_key[id_[0]])
            for part in self.parts
            if part.kind is not None
            for unit in part.units
            for index, id_ in enumerate(unit.ids)
            if wants(id_)
        ]
        if wanted:
            rows = self.rows_by_id({id_[0] for *_, id_ in wanted})
            self.rows.add(kind.copied(rows[id_], unit, index) for kind, unit, index, id_ in wanted)

    @abstractmethod
    def rows_by_id(self, keys: Collection[str]) -> Mapping[RowId, Row]:
        """Return the rows of some keys."""

    @abstractmethod
    def result(self) -> Result:
        """Return the result of all parts."""

    def run(self, open_executor: Callable[[Collection[str]], Executor]) -> Result:
        """Answer the missing units; a part that another run is answering is left out.

        Parameters
        ----------
        open_executor
            Called once with the pools that the work needs; not called without work.
        """
        failures = self.rows.failures()
        with ExitStack() as stack:
            for part in self.parts:
                if not part.usable or not self.missing(part, failures):
                    continue
                if not stack.enter_context(only_one(self.lock_file(part))):
                    part.busy = True
                    part.refused = "another run is answering it now: run this again when that run has ended"
                    self.progress.say(f"{part.name} is left out: {part.refused}")
            self._answer(open_executor)
            self.wait_for_batches()
            self.keep_reasons()
            self.rows.pack(lambda task: task.startswith(self.run_id))
            BatchRecords(self.rows.path).forget_settled(self.rows.failures)
        result = self.result()
        self.work.spending.remove()
        return result

    def wait_for_batches(self) -> None:
        """Collect submitted batches in this process; by default there are none."""

    def keep_reasons(self) -> None:
        """Store why the units of unusable parts have no answer, if such rows include reasons."""

    def _answer(self, open_executor: Callable[[Collection[str]], Executor]) -> None:
        items = self._items()
        if not items:
            return
        self.progress.watch(
            self.work.spending, sum(len(unit.ids) for item in items for unit in item.source.units)
        )
        with open_executor({item.next.pool for item in items}) as executor:
            while items:
                for name, count in Counter(item.source.name for item in items).items():
                    self.progress.expect(name, count)
                again: list[_TaskItem[U]] = []

                def on_worker_death(
                    item: _TaskItem[U], message: str, again: list[_TaskItem[U]] = again
                ) -> Outcome:
                    return self._on_worker_death(item, message, again)

                through_stages(executor, self.work, items, self.progress, self._came, on_worker_death)
                items = again
                if not items and self.next_round():
                    items = self._items()
                    units = [unit for item in items for unit in item.source.units]
                    self.progress.add_requests(sum(len(unit.ids) for unit in units))
        self.copy_known()

    def next_round(self) -> bool:
        """Add the units that follow from the answers; return whether there are any (by default not)."""
        return False

    def display_name(self, shares: str) -> str:
        """Return what progress calls the thing that units share (by default its name)."""
        return shares

    def _items(self) -> list[_TaskItem[U]]:
        """Return the tasks, with those that share something expensive next to each other."""
        failures = self.rows.failures()
        usable = [part for part in self.parts if part.usable]
        most = math.ceil(MAX_TASKS / max(len(usable), 1))
        ranks: dict[str, int] = {}
        placed = []
        for index, part in enumerate(usable):
            assert part.kind is not None
            stage = Stage[Work[U], Task[U], Outcome](part.name, self.pool_of(part.kind), answer_stage)
            kind = part.kind
            missing = kind.in_order(self.missing(part, failures))
            for units in batches(missing, kind.concurrency, most, kind.splits_shared, kind.form.most_units):
                rank = ranks.setdefault(units[0].shares, len(ranks))
                # a video is decoded once for all parts; loading weights takes longer than decoding videos
                on_gpu = self.work.placement.known[stage.pool] == "gpu"
                order = (index, rank) if on_gpu else (rank, index)
                placed.append((order, units, part, stage))
        placed.sort(key=lambda one: one[0])
        items = []
        first, self.tasks_made = self.tasks_made, self.tasks_made + len(placed)
        for number, (_, units, part, stage) in enumerate(placed, first):
            shared = len({unit.shares for unit in units})
            title = self.display_name(units[0].shares) + (f" and {shared - 1} more" if shared > 1 else "")
            items.append(Item(Task(f"{self.run_id}-{number}", title, part.name, units), (), [stage]))
        return items

    def part(self, name: str) -> RunPart[U]:
        """Return a part by its name."""
        (part,) = [one for one in self.parts if one.name == name]
        return part

    def _came(self, outcome: Outcome) -> bool:
        """Record what a process lacks; tasks have no next stage."""
        part = self.part(outcome.name)
        for note in outcome.notes:
            self.progress.say(note)
        if outcome.unusable and not part.refused:
            part.refused = outcome.unusable
            self.progress.say(f"{outcome.name} cannot be used: {part.refused}")
        return False

    def _on_worker_death(self, item: _TaskItem[U], message: str, again: list[_TaskItem[U]]) -> Outcome:
        """Store failures for the units that killed a task's processes, and retry the others."""
        task, part = item.source, self.part(item.source.name)
        self.progress.say(message)
        suspects, failures = self.rows.begun(task.id), self.rows.failures()
        open_ = [unit for unit in task.units if not unit_settled(unit, failures, self.work.retry)]
        lost = [unit for unit in open_ if unit.key in suspects]
        others = tuple(unit for unit in open_ if unit.key not in suspects)
        if part.kind is not None:
            for unit in lost:
                self.rows.add(part.kind.failed(unit, Failure.INTERNAL_ERROR, message))
        part.deaths += 1
        if part.deaths >= MAX_DEAD_TASKS:
            why = f"its processes died repeatedly; the last time: {message}"
            self.work.spending.stop(task.name, why)
        elif lost and others:
            rest = replace(task, id=f"{task.id}-{part.deaths}", units=others)
            again.append(Item(rest, (), list(item.stages)))
        return Outcome(task.id, task.name, rows=tuple(id_[0] for unit in lost for id_ in unit.ids))

    def spent(self, part: RunPart[U]) -> dict[str, Any]:
        """Return a part's requests, tokens and dollars in this run, and why it stopped."""
        counts = self.work.spending.counts().get(part.name, {})
        return {
            "asked": counts.get("asked", 0),
            "tokens": counts.get("tokens", 0),
            "usd": None if counts.get("unpriced") else counts.get("usd", 0.0),
            "estimated": counts.get("estimated", 0),
            "stopped": part.refused or counts.get("stopped", ""),
        }
