"""Units that are submitted in batches and collected later, as in a provider's batch API.

A batch is recorded before it is submitted: after a kill, another process collects it, and nothing is paid for
twice. A :class:`BatchService` talks to the provider; the engine does the rest.
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
    """Results of a batch so far.

    Parameters
    ----------
    rows
        Rows by key of the unit; a unit's own error is a row with a failure.
    ended
        Whether the batch is complete. Units without rows have expired; the next run submits them again.
    """

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    ended: bool = False


class BatchService(ABC, Generic[U]):
    """A provider's batch interface.

    Class attributes
    ----------------
    most
        Maximum units per batch.
    patience_s, poll_s
        Maximum wait of a task for its batches, and interval between looks, seconds. The next run collects
        what is not ready by then.
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
            A new name, already recorded; the provider stores it with the batch, for :meth:`find`.

        Raises
        ------
        CannotGoOn
            If no unit can be handed over.
        """

    @abstractmethod
    def find(self, name: str) -> str | None:
        """Return the handle of the batch submitted under a name; None if none arrived."""

    @abstractmethod
    def collect(self, handle: str, units: Sequence[U]) -> BatchAnswers:
        """Return the results of some units of a batch; repeated calls give the same results."""


@dataclass
class Batch:
    """Units of one batch that this task wants; `path` is the batch's record."""

    path: Path
    handle: str
    keys: set[str]


class BatchRecords:
    """Records of submitted batches that are not collected yet: a file per batch, beside the rows of a store.

    Parameters
    ----------
    rows
        Folder of the rows.
    """

    def __init__(self, rows: Path) -> None:
        self.folder = rows / "submitted"

    def hand_over(self, service: BatchService[U], units: Sequence[U]) -> Batch:
        """Submit units; the attempt is recorded before, and the handle before this returns."""
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
        """Return the batches with which any process submitted some units."""
        batches = []
        for path in sorted(self.folder.glob("*.json")):
            record = SharedState(path).read()
            mine = set(keys) & set(record.get("keys", ()))
            if not mine:
                continue
            # killed between the two records: only the provider knows whether the batch arrived
            handle = record["handle"] or service.find(path.stem)
            if handle is None:
                self.forget(path, mine)
            else:
                batches.append(Batch(path, handle, mine))
        return batches

    def forget(self, path: Path, keys: Iterable[str]) -> None:
        """Remove settled or expired units from a batch's record; the record is deleted with the last one."""
        state = SharedState(path)
        with state.change() as record:
            left = set(record.get("keys", ())) - set(keys)
            record["keys"] = sorted(left)
        if not left:
            state.remove()

    def forget_settled(self, known: Callable[[], Mapping[RowId, str]]) -> None:
        """Forget units that have rows, which a killed process may have stored without a note.

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
    """Submits units in batches, after collecting those of earlier processes."""

    service: BatchService[U]
    paced: ClassVar[bool] = False

    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer the units that are ready in time."""
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
            # units that are not ready are counted by the process that collects them
            for one in held.values():
                run.meter.release(one)

    @staticmethod
    def _reserved(units: Sequence[U], run: TaskRun[U], held: dict[str, Reservation]) -> list[U]:
        """Return the units that the limits allow; what is reserved for them goes into `held`."""
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
