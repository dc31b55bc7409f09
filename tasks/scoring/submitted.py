"""Units that are submitted in batches and collected later, for a provider's batch API.

Each submission is recorded first: after a kill, another process collects it, and nothing is paid for twice. A
:class:`BatchService` communicates with the provider; the engine does everything else.
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
    """Answers of a batch so far.

    Parameters
    ----------
    rows
        Rows by key of a unit; an error of a single unit is a row with a failure.
    ended
        Whether the batch is finished. Units without rows have expired then: the next run submits them again.
    """

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    ended: bool = False


class BatchService(ABC, Generic[U]):
    """A provider's batch API.

    Class attributes
    ----------------
    most
        Maximum units of one batch.
    patience_s, poll_s
        How long a task waits for its batches, and the interval between checks, in seconds. The next run
        collects what has not arrived by then.
    """

    most: ClassVar[int] = 10_000
    patience_s: float = 0.0
    poll_s: float = 60.0

    @abstractmethod
    def hand_over(self, name: str, units: Sequence[U]) -> str:
        """Submit units, and return the provider's handle.

        Parameters
        ----------
        name
            A new name, already on disk; the provider stores it with the batch, for :meth:`find`.

        Raises
        ------
        CannotGoOn
            If no unit can be submitted.
        """

    @abstractmethod
    def find(self, name: str) -> str | None:
        """Return the handle of the batch submitted under a name; None if the provider does not have it."""

    @abstractmethod
    def collect(self, handle: str, units: Sequence[U]) -> BatchAnswers:
        """Return the available answers of some units of a batch; repeated calls return them again."""


@dataclass
class Batch:
    """The units of a batch that belong to this task; `path` is the batch's record."""

    path: Path
    handle: str
    keys: set[str]


class BatchRecords:
    """Records of batches that were submitted and not collected yet: one file each, beside a store's rows.

    Parameters
    ----------
    rows
        Folder of the rows.
    """

    def __init__(self, rows: Path) -> None:
        self.folder = rows / "submitted"

    def hand_over(self, service: BatchService[U], units: Sequence[U]) -> Batch:
        """Submit units; the attempt is on disk before, and the handle when this returns."""
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
        """Return the batches in which some units were submitted, by any process."""
        batches = []
        for path in sorted(self.folder.glob("*.json")):
            record = SharedState(path).read()
            mine = set(keys) & set(record.get("keys", ()))
            if not mine:
                continue
            # after a kill between both writes, only the provider knows whether the batch arrived
            handle = record["handle"] or service.find(path.stem)
            if handle is None:
                self.forget(path, mine)
            else:
                batches.append(Batch(path, handle, mine))
        return batches

    def forget(self, path: Path, keys: Iterable[str]) -> None:
        """Remove units from a batch's record, because they are settled or expired; remove an empty record."""
        state = SharedState(path)
        with state.change() as record:
            left = set(record.get("keys", ())) - set(keys)
            record["keys"] = sorted(left)
        if not left:
            state.remove()

    def forget_settled(self, known: Callable[[], Mapping[RowId, str]]) -> None:
        """Remove units that have rows: a killed process may have stored these without updating the record.

        Parameters
        ----------
        known
            Reads the rows; called only if there are batches.
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
    """Submits units in batches, and first collects what an earlier process submitted."""

    service: BatchService[U]
    paced: ClassVar[bool] = False

    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer the units whose answers arrive in time."""
        records = BatchRecords(run.store.path)
        waiting = {unit.key: unit for unit in units}
        held: dict[str, Reservation] = {}
        try:
            batches = records.of(self.service, waiting)
            submitted = {key for batch in batches for key in batch.keys}
            new = [unit for unit in units if unit.key not in submitted]
            for begin in range(0, len(new), self.service.most):
                some = self._reserved(new[begin : begin + self.service.most], run, held)
                if some:
                    batches.append(records.hand_over(self.service, some))
            self._collect(batches, records, waiting, held, run)
        except CannotGoOn as problem:
            run.give_up(problem)
        finally:
            # the process that collects the remaining units counts them
            for one in held.values():
                run.meter.release(one)

    @staticmethod
    def _reserved(units: Sequence[U], run: TaskRun[U], held: dict[str, Reservation]) -> list[U]:
        """Return the units that the limits allow, and add their reservations to `held`."""
        allowed = []
        for unit in units:
            reservation = run.reserve(unit)
            if reservation is None:
                break
            held[unit.key] = reservation
            allowed.append(unit)
        return allowed

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
                answers = self.service.collect(batch.handle, [waiting[key] for key in batch.keys])
                arrived = [key for key in answers.rows if key in batch.keys]
                for key in arrived:
                    run.keep(answers.rows[key], held.pop(key, Reservation()))
                records.forget(batch.path, batch.keys if answers.ended else arrived)
                batch.keys -= set(arrived)
                if answers.ended or not batch.keys:
                    batches.remove(batch)
                if answers.ended and batch.keys:
                    log.warning("batch %s expired: %d units are left", batch.handle, len(batch.keys))
            if not batches or time.monotonic() >= until:
                return
            time.sleep(self.service.poll_s)
