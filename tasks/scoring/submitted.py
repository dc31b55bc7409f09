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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic

from storage_schemas.commit import write_atomic
from storage_schemas.row_store import RowId
from tasks.llm.meter import Reservation
from tasks.llm.shared_state import SharedState
from tasks.scoring.engine import CannotGoOn, Form, Row, TaskRun, U

log = logging.getLogger(__name__)


class HandOverUnknown(CannotGoOn):
    """A batch may have reached the provider, which did not say so: the next run looks for it."""


@dataclass(frozen=True)
class BatchAnswers:
    """Answers of a batch so far.

    Parameters
    ----------
    rows
        Rows by key of a unit; an error of a single unit is a row with a failure.
    ended
        Whether the batch is finished. Units without rows have expired then: the next run submits them again.
    failed
        Why the provider took no unit of it; empty if it did.
    """

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    ended: bool = False
    failed: str = ""


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

    def prepare(self, unit: U) -> Sequence[Row]:
        """Make a unit ready to be submitted; return its rows if it cannot be.

        Raises
        ------
        CannotGoOn
            If no unit can be submitted.
        """
        return ()

    def fits(self, units: Sequence[U]) -> bool:
        """Return whether one batch takes some prepared units."""
        return len(units) <= self.most

    @abstractmethod
    def hand_over(self, name: str, units: Sequence[U]) -> str:
        """Submit units, and return the provider's handle.

        Parameters
        ----------
        name
            A new name, already on disk; the provider stores it with the batch, for :meth:`find`.

        Raises
        ------
        HandOverUnknown
            If the provider may have the units.
        CannotGoOn
            If no unit can be submitted.
        """

    @abstractmethod
    def find(self, name: str, count: int, taken: Collection[str]) -> str | None:
        """Return the handle of the batch submitted under a name; None if the provider does not have it.

        Parameters
        ----------
        count
            Number of its units.
        taken
            Handles that are known to be other batches.
        """

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
        self._write(path, {"handle": "", "keys": keys, "count": len(keys)})
        try:
            handle = service.hand_over(path.stem, units)
        except HandOverUnknown:
            raise
        except CannotGoOn:
            path.unlink()
            raise
        self._write(path, {"handle": handle, "keys": keys, "count": len(keys)})
        return Batch(path, handle, set(keys))

    def of(self, service: BatchService[U], keys: Collection[str]) -> list[Batch]:
        """Return the batches in which some units were submitted, by any process."""
        batches = []
        records = {path: SharedState(path).read() for path in sorted(self.folder.glob("*.json"))}
        taken = {record.get("handle", "") for record in records.values()}
        for path, record in records.items():
            mine = set(keys) & set(record.get("keys", ()))
            if not mine:
                continue
            # after a kill between both writes, only the provider knows whether the batch arrived
            handle = record["handle"] or service.find(path.stem, record["count"], taken)
            if handle is None:
                self.forget(path, mine)
            else:
                batches.append(Batch(path, handle, mine))
        return batches

    def waiting(self) -> set[str]:
        """Return the keys of all units that were submitted and not collected."""
        return {
            key for path in self.folder.glob("*.json") for key in SharedState(path).read().get("keys", ())
        }

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
    """Submits units in batches, and first collects what an earlier process submitted.

    A run reserves the estimated cost of what waits, whoever submitted it, until its answers are counted; so
    its limits hold over everything that its answers will cost.

    Parameters
    ----------
    service
        The provider.
    collect_only
        Whether nothing is submitted; what waits was reserved before.
    """

    service: BatchService[U]
    collect_only: bool = False
    paced: ClassVar[bool] = False

    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer the units whose answers arrive in time."""
        records = BatchRecords(run.store.path)
        waiting = {unit.key: unit for unit in units}
        held: dict[str, Reservation] = {}
        batches: list[Batch] = []
        try:
            batches = records.of(self.service, waiting)
            if not self.collect_only:
                submitted = {key for batch in batches for key in batch.keys}
                some: list[U] = []
                for unit in self._allowed(units, submitted, run, held):
                    if not self.service.fits([*some, unit]):
                        batches.append(records.hand_over(self.service, some))
                        some = []
                    some.append(unit)
                if some:
                    batches.append(records.hand_over(self.service, some))
            self._collect(batches, records, waiting, held, run)
        except CannotGoOn as problem:
            run.give_up(problem)
        finally:
            # what waits stays reserved in this run
            still = {key for batch in batches for key in batch.keys}
            for key, one in held.items():
                if key not in still:
                    run.meter.release(one)

    def _allowed(
        self, units: Sequence[U], submitted: Collection[str], run: TaskRun[U], held: dict[str, Reservation]
    ) -> Iterator[U]:
        """Reserve what waits, then each other unit; yield those that the limits and the service allow."""
        for unit in sorted(units, key=lambda unit: unit.key not in submitted):
            reservation = run.reserve(unit)
            if reservation is None:
                return
            held[unit.key] = reservation
            if unit.key in submitted:
                continue
            try:
                rows = self.service.prepare(unit)
            except CannotGoOn:
                run.meter.release(held.pop(unit.key))
                raise
            if rows:
                run.keep(rows, held.pop(unit.key))
            else:
                yield unit

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
                if answers.failed:
                    records.forget(batch.path, batch.keys)
                    batches.remove(batch)
                    raise CannotGoOn(answers.failed)
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
