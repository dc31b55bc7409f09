"""Where judgements are kept: a folder of append-only files beside the releases, one writer a file.

::

    judgements/running/<host>.<pid>.<task>.<n>.jsonl   what a process is asking now, a line an answer
    judgements/parts/<time>-<n>.parquet                finished batches

An answer that was paid for is on the disk before the next request is made. A process that ends well packs its
lines into a part; those of a process that was killed are read as they are, and packed by the next run. A row
is known by its request's key and its pair; where there are several, the latest answer counts.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.judgement import JUDGEMENTS, TRANSIENT_FAILURES, Judgement, preferred
from storage_schemas.judgement_files import (
    LinesFile,
    as_table,
    owner_alive,
    read_part,
    rows_of_lines,
    settled,
    task_of,
    unanswered,
    write_part,
)
from storage_schemas.provenance import utc_now
from storage_schemas.store import Store

T = TypeVar("T")
#: Parts with fewer rows are joined when a run ends.
SMALL_PART = 50_000
#: How often reading begins anew where files were packed meanwhile.
_TRIES = 5

#: Key of a request, and id of the pair that it was made for.
RowId = tuple[str, str]


class JudgementsStore:
    """The judgements of one store.

    Parameters
    ----------
    store
        The store; nothing is written into it before the first answer.
    """

    def __init__(self, store: Store) -> None:
        self.path = store.root / "judgements"
        self._keys: dict[str, dict[RowId, str]] = {}

    @property
    def running(self) -> Path:
        """Folder of what is being asked."""
        return self.path / "running"

    @property
    def parts(self) -> Path:
        """Folder of the finished batches."""
        return self.path / "parts"

    def rows(
        self, evaluators: Collection[str] = (), pair_ids: Collection[str] = (), keys: Collection[str] = ()
    ) -> list[Judgement]:
        """Return one row a request, by evaluator, settings, pair, order and repeat.

        Parameters
        ----------
        evaluators, pair_ids, keys
            Only of these; where there are none, of all.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """
        return _models(self.table(evaluators, pair_ids, keys))

    def table(
        self, evaluators: Collection[str] = (), pair_ids: Collection[str] = (), keys: Collection[str] = ()
    ) -> pa.Table:
        """Return the same as an Arrow table of the schema `JUDGEMENTS`."""
        wanted = {"evaluator": evaluators, "pair_id": pair_ids, "key": keys}

        def read() -> pa.Table:
            # first what runs: it becomes a part, never the other way round
            found = [as_table(rows_of_lines(path)) for path in self._lines()]
            found += [read_part(path) for path in self._parts()]
            return pa.concat_tables([JUDGEMENTS.empty_table(), *found])

        table = _anew(read)
        for name, some in wanted.items():
            if some:
                table = table.filter(pc.is_in(table[name], value_set=pa.array(list(some), pa.string())))
        return settled(table)

    def known(self) -> dict[RowId, str]:
        """Return of every row why there is no answer, empty where there is one; see :func:`is_settled`."""

        def read() -> dict[RowId, str]:
            found: dict[RowId, str] = {}
            for path in self._lines():
                for row in rows_of_lines(path):
                    _note(found, (row["key"], row["pair_id"]), row["failure"])
            for path in self._parts():
                for id_, failure in self._keys_of(path).items():
                    _note(found, id_, failure)
            return found

        return _anew(read)

    def _keys_of(self, path: Path) -> dict[RowId, str]:
        """Return the keys of a part; a part never changes, so they are read once."""
        if path.name not in self._keys:
            columns = read_part(path, ["key", "pair_id", "failure"]).to_pydict()
            keys: dict[RowId, str] = {}
            for key, pair_id, failure in zip(*columns.values(), strict=True):
                _note(keys, (key, pair_id), failure)
            self._keys[path.name] = keys
        return self._keys[path.name]

    @contextmanager
    def writer(self, task: str) -> Iterator[LinesFile]:
        """Give what adds the answers of one process; they are packed when it ends, also by an error."""
        lines = LinesFile(self.running, task)
        try:
            yield lines
        finally:
            lines.close()
            self._finish(lines.path)

    def begun(self, task: str) -> Counter[str]:
        """Return by key how often a request was begun, but not answered, by earlier tries of a task.

        The process of such a try is dead: one that ends well leaves no lines.
        """
        return Counter(key for path in self._lines() if task_of(path) == task for key in unanswered(path))

    def add(self, rows: Iterable[Judgement]) -> int:
        """Add rows as a finished batch; return how many."""
        batch = [row.model_dump(mode="json") for row in rows]
        if batch:
            self._write(as_table(batch))
        return len(batch)

    def pack(self, ended: Callable[[str], bool] = lambda _: False) -> None:
        """Pack what killed processes left, and join small parts; run it when a run ends.

        Parameters
        ----------
        ended
            Says of a task whether its processes are gone for sure; of those of this machine that is known.
        """
        for path in self._lines():
            if ended(task_of(path)) or not owner_alive(path):
                # another run that ends at the same moment packs them as well
                with suppress(FileNotFoundError):
                    self._finish(path)
        _anew(self._join_small)

    def _join_small(self) -> None:
        small = [path for path in self._parts() if pq.read_metadata(path).num_rows < SMALL_PART]
        if len(small) > 1:
            self._write(settled(pa.concat_tables([read_part(path) for path in small])))
            for path in small:
                # another run may join the same ones at the same moment; then both hold the same rows
                path.unlink(missing_ok=True)

    def _finish(self, lines: Path) -> None:
        """Make a part of the lines of a process that has ended, and remove them."""
        rows = rows_of_lines(lines)
        if rows:
            self._write(as_table(rows))
        lines.unlink(missing_ok=True)

    def export(self, path: Path) -> int:
        """Write all rows as one Parquet file, for others; return how many.

        Raises
        ------
        StoreError
            If there are none.
        """
        found = self.table()
        if not found.num_rows:
            raise StoreError(f"there are no judgements in {self.path}: `slvmeval evaluate` makes them")
        write_part(path, found)
        return int(found.num_rows)

    def take(self, path: Path) -> int:
        """Add the rows of an exported file that are not here yet; return how many.

        Raises
        ------
        UserInputError
            If it is no such file, or a row does not fit; nothing is added then.
        """
        given = read_export(path)
        known = self.known()
        return self.add(row for row in given if not is_settled(known.get((row.key, row.pair_id))))

    def _lines(self) -> list[Path]:
        return sorted(self.running.glob("*.jsonl")) if self.running.is_dir() else []

    def _parts(self) -> list[Path]:
        # while it is written its name begins with a dot
        return sorted(self.parts.glob("[!.]*.parquet")) if self.parts.is_dir() else []

    def _write(self, table: pa.Table) -> None:
        stamp = utc_now().replace(":", "").replace("+0000", "Z")
        write_part(self.parts / f"{stamp}-{uuid.uuid4().hex[:8]}.parquet", table)


def read_export(path: Path) -> list[Judgement]:
    """Read a file of judgements that somebody exported.

    Raises
    ------
    UserInputError
        If it is missing, no Parquet file, or its rows do not fit.
    """
    try:
        rows = _models(read_part(path).select(JUDGEMENTS.names).cast(JUDGEMENTS))
        for row in rows:
            if row.choice is not None and row.preferred != preferred(row.choice, row.order):
                raise ValueError(
                    f"judgement {row.key[:12]} says {row.choice} in the order {row.order}, which is not "
                    f"{row.preferred}"
                )
        return rows
    except FileNotFoundError as problem:
        raise UserInputError(f"there is no file {path}") from problem
    except (pa.ArrowException, KeyError, ValueError, IntegrityError) as problem:
        raise UserInputError(
            f"{path} is no file of judgements: {problem}. `slvmeval judgements export` writes one"
        ) from problem


def _models(table: pa.Table) -> list[Judgement]:
    try:
        rows = [Judgement.model_validate(row) for row in table.to_pylist()]
    except ValidationError as problem:
        raise IntegrityError(f"a judgement does not fit: {problem}") from problem
    for row in rows:
        if row.answered == (row.failure is not None):
            raise IntegrityError(f"judgement {row.key[:12]} has to have either an answer or a failure")
    return rows


def _anew(read: Callable[[], T]) -> T:
    """Read, and begin anew where a file was packed between listing and opening it."""
    for left in reversed(range(_TRIES)):
        try:
            return read()
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("unreachable")


def is_settled(failure: str | None, retry: bool = False) -> bool:
    """Return whether a request need not be made again.

    Parameters
    ----------
    failure
        Why it has no answer; empty where it has one, None where it was never made.
    retry
        Make those again too that failed for a reason that lies with the evaluator.
    """
    if failure is None:
        return False
    return not failure or (failure not in TRANSIENT_FAILURES and not retry)


def _note(found: dict[RowId, str], id_: RowId, failure: str | None) -> None:
    """Note a row; an answer counts more than a failure, and one that would come again more than another."""
    before = found.get(id_)
    if before is None or not failure or (before and not is_settled(before)):
        found[id_] = failure or ""
