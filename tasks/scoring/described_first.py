"""Comparisons of descriptions in batches: first the missing descriptions, then the comparisons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from storage_schemas.ids import digest_text
from storage_schemas.judgements import Judgement
from storage_schemas.locks import alone
from storage_schemas.row_store import RowId
from tasks.llm.answer_store import AnswerStore
from tasks.llm.meter import Reservation
from tasks.pairs.view import Pair, Side
from tasks.scoring.engine import CannotContinue, Form, Row, TaskRun
from tasks.scoring.request import Request
from tasks.scoring.submitted import BatchRecords, BatchService, Submitted


@dataclass(frozen=True)
class Description:
    """A missing description.

    Parameters
    ----------
    key
        Its key among the kept answers.
    low
        Whether it is of `low` of the first comparison's pair.
    wanted_by
        The comparisons that need it; the row of the first counts its cost.
    """

    key: str
    low: bool
    wanted_by: tuple[Request, ...]

    @property
    def ids(self) -> tuple[RowId]:
        """Its id."""
        return ((self.key, ""),)

    def of(self, pair: Pair) -> Side:
        """Return the video of a pair that it describes."""
        return pair.low if self.low else pair.high

    @property
    def shares(self) -> str:
        """Id of the source."""
        return self.wanted_by[0].shares


class Comparisons(Protocol):
    """The comparisons of one judge."""

    def missing_descriptions(self, units: Iterable[Request]) -> tuple[list[Description], list[Judgement]]:
        """Return what is missing for some units, and the rows of those whose videos cannot be read."""


@dataclass
class _OfDescriptions:
    """Keeps rows of comparisons without a description; their reservations hold for both steps.

    Attributes
    ----------
    settled
        Keys of the comparisons that have rows.
    """

    run: TaskRun[Request]
    reservations: dict[str, Reservation]
    settled: set[str] = field(default_factory=set)

    def reserve(self, _: Description) -> Reservation:
        return Reservation()

    def release(self, reservation: Reservation) -> None:
        """Release nothing: a description alone has no reservation."""

    def keep(self, rows: Sequence[Row], _: Reservation) -> None:
        self.settle(rows)

    def settle(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.run.keep([row], self.reservations.pop(row.key, Reservation()))
            self.settled.add(row.key)

    def give_up(self, problem: CannotContinue) -> None:
        self.run.give_up(problem)

    def note(self, text: str) -> None:
        self.run.note(text)


@dataclass
class _OfReserved:
    """Keeps rows of comparisons that were reserved with their descriptions."""

    run: TaskRun[Request]
    reservations: dict[str, Reservation]

    def reserve(self, unit: Request) -> Reservation:
        return self.reservations.pop(unit.key, Reservation())

    def release(self, reservation: Reservation) -> None:
        self.run.release(reservation)

    def keep(self, rows: Sequence[Row], reservation: Reservation) -> None:
        self.run.keep(rows, reservation)

    def give_up(self, problem: CannotContinue) -> None:
        self.run.give_up(problem)

    def note(self, text: str) -> None:
        self.run.note(text)


@dataclass(frozen=True)
class DescribedFirst(Form[Request]):
    """Submits missing descriptions, and then the comparisons that have theirs.

    Parameters
    ----------
    comparisons
        Finds what is missing.
    descriptions, service
        The batches of the two steps.
    answers
        Where descriptions are kept; the records of their batches are next to them.
    locks
        Folder of lock files, one for some of the sources: two judges may need the same descriptions.
    collect_only
        Whether no descriptions are submitted. Comparisons are: they were reserved with their descriptions.
    threads
        Number of units prepared concurrently.
    """

    comparisons: Comparisons
    descriptions: BatchService[Description]
    service: BatchService[Request]
    answers: AnswerStore
    locks: Path
    collect_only: bool = False
    threads: int = 1
    paced: ClassVar[bool] = False

    @property
    def most_units(self) -> int:
        """A task is as large as a batch may be."""
        return self.service.most

    def answer(self, units: Sequence[Request], run: TaskRun[Request]) -> None:
        """Answer the units whose answers arrive in time."""
        reservations: dict[str, Reservation] = {}
        described = _OfDescriptions(run, reservations)
        records, rows = BatchRecords(self.answers.folder), BatchRecords(run.store.path)
        with ExitStack() as stack:
            # in order, so that no two processes wait for each other
            for name in sorted({digest_text(unit.shares)[:2] for unit in units}):
                stack.enter_context(alone(self.locks / f"{name}.held"))
            # another process may have kept some, and one that was killed left records of them
            self.answers.read_on()
            records.forget_settled(lambda: {(key,): "" for key in self.answers.stored_keys()})
            missing, unreadable = self.comparisons.missing_descriptions(units)
            described.settle(unreadable)
            if not self.collect_only:
                waits = rows.waiting() | _units_of(missing, records.waiting())
                units = self._reserved(units, waits, run, reservations)
            allowed = {unit.key for unit in units}
            wanted = [one for one in missing if allowed & {unit.key for unit in one.wanted_by}]
            Submitted(self.descriptions, self.collect_only, self.threads).submit(wanted, described, records)
        left = [unit for unit in units if unit.key not in described.settled]
        missing, _ = self.comparisons.missing_descriptions(left)
        lacking = _units_of(missing)
        ready = [unit for unit in left if unit.key not in lacking]
        Submitted(self.service, threads=self.threads).submit(ready, _OfReserved(run, reservations), rows)
        # what waits for a description stays reserved
        for key in reservations.keys() - _units_of(missing, records.waiting()):
            run.release(reservations[key])

    def _reserved(
        self,
        units: Sequence[Request],
        waits: Collection[str],
        run: TaskRun[Request],
        reservations: dict[str, Reservation],
    ) -> list[Request]:
        """Reserve units, those that wait first; return those that the limits allow, and what waits anyway."""
        ordered = sorted(units, key=lambda unit: unit.key not in waits)
        for unit in ordered:
            reservation = run.reserve(unit)
            if reservation is None:
                break
            reservations[unit.key] = reservation
        return [unit for unit in ordered if unit.key in reservations or unit.key in waits]


def _units_of(missing: Iterable[Description], among: Collection[str] | None = None) -> set[str]:
    """Return the keys of the comparisons that lack one of some descriptions; of those `among`, if given."""
    return {unit.key for one in missing if among is None or one.key in among for unit in one.wanted_by}
