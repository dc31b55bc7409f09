"""Units that are submitted in batches and collected later, for a provider's batch API.

Each submission is recorded first: after a kill, another process collects it, and nothing is paid for twice. A
:class:`BatchService` communicates with the provider; the engine does everything else.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from storage_schemas.commit import write_atomic
from storage_schemas.provenance import utc_now
from storage_schemas.row_store import RowId
from storage_schemas.store import Store
from tasks.llm.meter import Reservation
from tasks.llm.providers.batches import PERHAPS, Attempt
from tasks.llm.shared_state import SharedState
from tasks.scoring.engine import CannotContinue, Form, Row, TaskRun, U, Unit

#: Folder of kept descriptions below the store; their batches are recorded next to it.
DESCRIPTIONS = "judgements/captions"


class HandOverUnknown(CannotContinue):
    """A batch may have reached the provider, which did not say so: the next run looks for it."""


@dataclass(frozen=True)
class BatchAnswers:
    """Answers of a batch so far.

    Parameters
    ----------
    rows
        Rows by key of a unit; an error of a single unit is a row with a failure.
    state
        The provider's word for how far it is.
    notes
        Notes for people, such as lines that could not be read.
    ended
        Whether the batch is finished. Units without rows have expired then: the next run submits them again.
    failed
        Why the provider took no unit of it; empty if it did.
    """

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    ended: bool = False
    failed: str = ""
    state: str = ""
    notes: tuple[str, ...] = ()


class BatchService(ABC, Generic[U]):
    """A provider's batch API.

    Class attributes
    ----------------
    name
        Whose batches they are, for people.
    most, most_bytes
        Maximum units of one batch, and bytes of them by :meth:`size`.
    patience_s, poll_s
        How long a task waits for its batches, and the interval between checks, in seconds. The next run
        collects what has not arrived until then.
    """

    name: str = ""
    most: int = 10_000
    most_bytes: float = math.inf
    patience_s: float = 0.0
    poll_s: float = 60.0

    def prepare(self, unit: U) -> Sequence[Row]:
        """Make a unit ready to be submitted; return its rows if it cannot be.

        Raises
        ------
        CannotContinue
            If no unit can be submitted.
        """
        return ()

    def size(self, unit: U) -> int:
        """Return the bytes of a prepared unit."""
        return 0

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
        CannotContinue
            If no unit can be submitted.
        """

    @abstractmethod
    def find(self, attempt: Attempt, taken: Collection[str]) -> str | None:
        """Return the handle of a batch that was submitted; None if the provider does not have it.

        Parameters
        ----------
        taken
            Handles that are known to be other batches. :data:`PERHAPS` is returned while a batch that still
            runs may be the one.
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


@dataclass(frozen=True)
class WaitingBatch:
    """A batch that waits for its answers.

    Parameters
    ----------
    id, by
        The provider's id, or our name if that is not known; and whose it is.
    units, at, state
        Number of its units, when it was submitted, and what the provider last said of it.
    """

    id: str
    by: str
    units: int
    at: datetime
    state: str

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-serialisable."""
        return {
            "id": self.id,
            "of": self.by,
            "requests": self.units,
            "at": self.at.isoformat(),
            "state": self.state,
        }

    def in_words(self) -> str:
        """Return it as a sentence, with its age."""
        minutes = int((datetime.now(UTC) - self.at).total_seconds() // 60)
        age = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
        return f"batch {self.id} of {self.by}: {self.units} requests, handed over {age} ago, {self.state}"


def _attempt(path: Path, record: Mapping[str, Any]) -> Attempt:
    at = datetime.fromisoformat(record["at"]) if "at" in record else datetime.fromtimestamp(0, UTC)
    return Attempt(path.stem, frozenset(record["keys"]), record["count"], at)


class BatchRecords:
    """Records of batches that were submitted and not collected yet: one file each, next to a store's rows.

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
        record = {"handle": "", "keys": keys, "count": len(keys), "at": utc_now(), "by": service.name}
        self._write(path, record)
        try:
            handle = service.hand_over(path.stem, units)
        except HandOverUnknown:
            raise
        except CannotContinue:
            path.unlink()
            raise
        self._write(path, {**record, "handle": handle, "state": "handed over"})
        return Batch(path, handle, set(keys))

    def of(self, service: BatchService[U], keys: Collection[str]) -> list[Batch]:
        """Return the batches in which some units were submitted, by any process."""
        batches = []
        records = {path: SharedState(path).read() for path in sorted(self.folder.glob("*.json"))}
        taken = {record.get("handle", "") for record in records.values()}
        for path, record in records.items():
            shared = set(keys) & set(record.get("keys", ()))
            if not shared:
                continue
            handle = record["handle"]
            if not handle:
                # after a kill between both writes, only the provider knows whether the batch arrived
                found = service.find(_attempt(path, record), taken)
                if found is None:
                    self.forget(path, shared)
                    continue
                if found != PERHAPS:
                    # no other record may find it, too
                    self.note(path, handle=found)
                    taken.add(found)
                handle = found
            batches.append(Batch(path, handle, shared))
        return batches

    def note(self, path: Path, **fields: str) -> None:
        """Change fields of a batch's record, unless it is gone."""
        if path.exists():
            with SharedState(path).change() as record:
                record.update(fields)

    def batches(self) -> list[WaitingBatch]:
        """Return all batches that were submitted and not collected, the oldest first."""
        found = []
        for path in self.folder.glob("*.json"):
            record = SharedState(path).read()
            if record.get("keys"):
                state = record.get("state") or "not known to have arrived"
                id_ = record["handle"] or path.stem
                found.append(
                    WaitingBatch(
                        id_, record.get("by", ""), len(record["keys"]), _attempt(path, record).at, state
                    )
                )
        return sorted(found, key=lambda batch: batch.at)

    def give_up(self, id_: str) -> int:
        """Remove the record of a batch by its handle or name; return the number of its units, or 0.

        The next run submits them again.
        """
        for path in self.folder.glob("*.json"):
            record = SharedState(path).read()
            if id_ in (path.stem, record.get("handle")):
                SharedState(path).remove()
                return len(record.get("keys", ()))
        return 0

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

    def forget_settled(self, failures: Callable[[], Mapping[RowId, str]]) -> None:
        """Remove units that have rows: a killed process may have stored these without updating the record.

        Parameters
        ----------
        failures
            Reads the rows; called only if there are batches.
        """
        paths = sorted(self.folder.glob("*.json"))
        keys = {id_[0] for id_ in failures()} if paths else set()
        for path in paths:
            if set(SharedState(path).read().get("keys", ())) & keys:
                self.forget(path, keys)

    def _write(self, path: Path, record: Mapping[str, object]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(record).encode())


#: Units that are prepared ahead, per thread.
_AHEAD = 4

_Kept = TypeVar("_Kept", bound=Unit, contravariant=True)


def batch_records(store: Store) -> list[BatchRecords]:
    """Return the records of the batches of a store: those of judgements, and of descriptions."""
    return [BatchRecords(store.root / "judgements"), BatchRecords(store.root / DESCRIPTIONS)]


class Keeper(Protocol[_Kept]):
    """Who reserves the cost of units and keeps their rows: a task's run, or a part of it."""

    def reserve(self, unit: _Kept) -> Reservation | None:
        """Reserve the estimated cost of a unit; return None if no more units may be answered."""

    def release(self, reservation: Reservation) -> None:
        """Release the reservation of a unit that was not answered."""

    def keep(self, rows: Sequence[Row], reservation: Reservation) -> None:
        """Store and count the rows of a unit."""

    def give_up(self, problem: CannotContinue) -> None:
        """Stop, because no unit can be answered here."""

    def note(self, text: str) -> None:
        """Add a note to the run's result."""


@dataclass(frozen=True)
class Submitted(Form[U]):
    """Submits units in batches, and first collects what an earlier process submitted.

    A run reserves the estimated cost of all that waits, also of what others submitted, until its answers are
    counted; so its limits hold over everything that its answers will cost.

    Parameters
    ----------
    service
        The provider.
    collect_only
        Whether nothing is submitted; what waits was reserved before.
    threads
        Number of units prepared concurrently.
    """

    service: BatchService[U]
    collect_only: bool = False
    threads: int = 1
    paced: ClassVar[bool] = False

    @property
    def most_units(self) -> int:
        """A task is as large as a batch may be."""
        return self.service.most

    def answer(self, units: Sequence[U], run: TaskRun[U]) -> None:
        """Answer the units whose answers arrive in time."""
        self.submit(units, run, BatchRecords(run.store.path))

    def submit(self, units: Sequence[U], run: Keeper[U], records: BatchRecords) -> None:
        """Submit units and collect, as :meth:`answer`, with records and rows kept by the caller."""
        waiting = {unit.key: unit for unit in units}
        reservations: dict[str, Reservation] = {}
        batches: list[Batch] = []
        try:
            batches = records.of(self.service, waiting)
            if not self.collect_only:
                submitted = {key for batch in batches for key in batch.keys}
                some: list[U] = []
                size = 0
                for unit in self._allowed(units, submitted, run, reservations):
                    more = self.service.size(unit)
                    if some and (len(some) >= self.service.most or size + more > self.service.most_bytes):
                        batches.append(records.hand_over(self.service, some))
                        some, size = [], 0
                    some.append(unit)
                    size += more
                if some:
                    batches.append(records.hand_over(self.service, some))
            self._collect(batches, records, waiting, reservations, run)
        except CannotContinue as problem:
            run.give_up(problem)
        finally:
            # what waits stays reserved in this run
            still = {key for batch in batches for key in batch.keys}
            for key, one in reservations.items():
                if key not in still:
                    run.release(one)

    def _allowed(
        self,
        units: Sequence[U],
        submitted: Collection[str],
        run: Keeper[U],
        reservations: dict[str, Reservation],
    ) -> Iterator[U]:
        """Reserve what waits, then each other unit; yield those that the limits and the service allow."""
        ordered = sorted(units, key=lambda unit: unit.key not in submitted)
        some = max(1, self.threads) * _AHEAD
        with ThreadPoolExecutor(max(1, self.threads), thread_name_prefix="prepare") as pool:
            for first in range(0, len(ordered), some):
                within = []
                for unit in ordered[first : first + some]:
                    reservation = run.reserve(unit)
                    if reservation is None:
                        break
                    reservations[unit.key] = reservation
                    within.append(unit)
                new = [unit for unit in within if unit.key not in submitted]
                for unit, rows in zip(new, pool.map(self.service.prepare, new), strict=True):
                    if rows:
                        run.keep(rows, reservations.pop(unit.key))
                    else:
                        yield unit
                if len(within) < len(ordered[first : first + some]):
                    return

    def _collect(
        self,
        batches: list[Batch],
        records: BatchRecords,
        waiting: dict[str, U],
        reservations: dict[str, Reservation],
        run: Keeper[U],
    ) -> None:
        until = time.monotonic() + self.service.patience_s
        while batches:
            for batch in [one for one in batches if one.handle != PERHAPS]:
                answers = self.service.collect(batch.handle, [waiting[key] for key in batch.keys])
                if answers.failed:
                    records.forget(batch.path, batch.keys)
                    batches.remove(batch)
                    raise CannotContinue(answers.failed)
                for note in answers.notes:
                    run.note(note)
                if answers.state and not answers.ended:
                    records.note(batch.path, state=answers.state)
                arrived = [key for key in answers.rows if key in batch.keys]
                for key in arrived:
                    run.keep(answers.rows[key], reservations.pop(key, Reservation()))
                records.forget(batch.path, batch.keys if answers.ended else arrived)
                batch.keys -= set(arrived)
                if answers.ended or not batch.keys:
                    batches.remove(batch)
                if answers.ended and batch.keys:
                    run.note(
                        f"batch {batch.handle} ended without {len(batch.keys)} answers: the same command "
                        "asks for them again"
                    )
            if not batches or time.monotonic() >= until:
                return
            time.sleep(self.service.poll_s)
