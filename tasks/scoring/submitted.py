"""Units that are handed over many at once and collected later, as a provider's batch API has it.

What is handed over is written down first: after a kill, another process collects it, and nothing is paid
for twice. A :class:`BatchService` speaks to the provider; everything else is the engine's.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic

from storage_schemas.commit import write_atomic
from storage_schemas.row_store import RowId
from tasks.llm.meter import Reservation
from tasks.llm.shared_state import SharedState
from tasks.scoring.engine import CannotGoOn, Form, Row, TaskRun, U

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchAnswers:
    """What a batch has given so far.

    Parameters
    ----------
    rows
        By key of a unit, its rows; a unit's own error is a row with a failure.
    ended
        Whether nothing more will come. Units without rows expired then: the next run hands them over anew.
    """

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    ended: bool = False


class BatchService(ABC, Generic[U]):
    """A provider that takes many units at once.

    Class attributes
    ----------------
    most
        Most units of one batch.
    patience_s, poll_s
        How long a task waits for its batches, and how often it looks, in seconds. What has not come by then
        is left, and collected by the next run.
    """

    most: ClassVar[int] = 10_000
    patience_s: float = 0.0
    poll_s: float = 60.0

    @abstractmethod
    def hand_over(self, name: str, units: Sequence[U]) -> str:
        """Hand units over, and return the provider's handle.

        Parameters
        ----------
        name
            A new name, which is on disk; the provider keeps it with the batch, for :meth:`find`.

        Raises
        ------
        CannotGoOn
            If no unit can be handed over.
        """

    @abstractmethod
    def find(self, name: str) -> str | None:
        """Return the handle of the batch that was handed over under a name; None where none arrived."""

    @abstractmethod
    def collect(self, handle: str, units: Sequence[U]) -> BatchAnswers:
        """Return what there is of some units of a batch; asked for again, it gives the same again."""


@dataclass
class Batch:
    """Units of one batch that this task wants; `path` is the batch's record."""

    path: Path
    handle: str
    keys: set[str]


class BatchRecords:
    """What was handed over and not collected yet: a file for each batch, beside the rows of a store.

    Parameters
    ----------
    rows
        Folder of the rows.
    """

    def __init__(self, rows: Path) -> None:
        self.folder = rows / "submitted"

    def hand_over(self, service: BatchService[U], units: Sequence[U]) -> Batch:
        """Hand units over; that it was tried is on disk before, and the handle before this returns."""
        path = self.folder / f"{uuid.uuid4().hex}.json"
        keys = [unit.key for unit in units]
        self._write(path, {"handle": "", "keys": keys})
        try:
            handle = service.hand_over(path.stem, units)
        except CannotGoOn:
            path.unlink()
            raise
        self._write(path, {"handle": handle, "keys": keys})
        return Batch(path, handle, set(keys))

    def of(self, service: BatchService[U], keys: Collection[str]) -> list[Batch]:
        """Return the batches in which some units were handed over, by whichever process."""
        batches = []
        for path in sorted(self.folder.glob("*.json")):
            record = SharedState(path).read()
            mine = set(keys) & set(record.get("keys", ()))
            if not mine:
                continue
            # a kill between the two notes: only the provider knows whether the batch arrived
            handle = record["handle"] or service.find(path.stem)
            if handle is None:
                self.forget(path, mine)
            else:
                batches.append(Batch(path, handle, mine))
        return batches

    def forget(self, path: Path, keys: Iterable[str]) -> None:
        """Note that units of a batch are settled, or will not come; its record goes with the last one."""
        state = SharedState(path)
        with state.change() as record:
            left = set(record.get("keys", ())) - set(keys)
            record["keys"] = sorted(left)
        if not left:
            state.remove()

    def forget_settled(self, known: Callable[[], Mapping[RowId, str]]) -> None:
        """Forget units that have rows; a process that was killed may have kept these and noted nothing.

        Parameters
        ----------
        known
            Reads the rows; called only where there are batches.
        """
        paths = sorted(self.folder.glob("*.json"))
        keys = {id_[0] for id_ in known()} if paths else set()
        for path in paths:
            if set(SharedState(path).read().get("keys", ())) & keys:
                self.forget(path, keys)

    def _write(self, path: Path, record: Mapping[str, object]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(record).encode())


@dataclass(frozen=True)
class Submitted(Form[U]):
    """Hands units over in batches, after it has collected what an earlier process handed over."""

    service: BatchService[U]
    paced: ClassVar[bool] = False

    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer units as far as they come in time."""
        records = BatchRecords(run.store.path)
        waiting = {unit.key: unit for unit in units}
        held: dict[str, Reservation] = {}
        try:
            batches = records.of(self.service, waiting)
            there = {key for batch in batches for key in batch.keys}
            new = [unit for unit in units if unit.key not in there]
            for begin in range(0, len(new), self.service.most):
                some = self._reserved(new[begin : begin + self.service.most], run, held)
                if some:
                    batches.append(records.hand_over(self.service, some))
            self._collect(batches, records, waiting, held, run)
        except CannotGoOn as problem:
            run.give_up(problem)
        finally:
            # what has not come yet is counted by whoever collects it
            for one in held.values():
                run.meter.release(one)

    @staticmethod
    def _reserved(units: Sequence[U], run: TaskRun[U], held: dict[str, Reservation]) -> list[U]:
        """Return those of some units that the limits allow, with what is set aside for them."""
        reserved = []
        for unit in units:
            mine = run.reserve(unit)
            if mine is None:
                break
            held[unit.key] = mine
            reserved.append(unit)
        return reserved

    def _collect(
        self,
        batches: list[Batch],
        records: BatchRecords,
        waiting: dict[str, U],
        held: dict[str, Reservation],
        run: TaskRun[U],
    ) -> None:
        until = time.monotonic() + self.service.patience_s
        while batches:
            for batch in list(batches):
                collected = self.service.collect(batch.handle, [waiting[key] for key in batch.keys])
                keys = [key for key in collected.rows if key in batch.keys]
                for key in keys:
                    run.keep(collected.rows[key], held.pop(key, Reservation()))
                records.forget(batch.path, batch.keys if collected.ended else keys)
                batch.keys -= set(keys)
                if collected.ended or not batch.keys:
                    batches.remove(batch)
                if collected.ended and batch.keys:
                    log.warning("batch %s expired: %d units are left", batch.handle, len(batch.keys))
            if not batches or time.monotonic() >= until:
                return
            time.sleep(self.service.poll_s)
