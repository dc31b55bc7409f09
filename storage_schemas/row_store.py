"""Storage of rows that each cost money: append-only JSON Lines while a process writes, then Parquet.

A Parquet file is written atomically and never changed.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from storage_schemas.away import is_away
from storage_schemas.commit import refuse_special_target, storage_errors, sync_path
from storage_schemas.errors import IntegrityError
from storage_schemas.ids import digest_file
from storage_schemas.json_lines import (
    LinesFile,
    StoredRow,
    lines_since,
    owner_alive,
    rows_of_lines,
    task_of,
    unanswered,
)
from storage_schemas.parquet import read_table
from storage_schemas.regular_files import entries, why_unread
from storage_schemas.secrets import strike_out_row

T = TypeVar("T")
#: What identifies a row: the values of :attr:`RowStore.ids`, the row's key first.
RowId = tuple[Any, ...]
#: Number of retries of reading if files were replaced meanwhile.
_TRIES = 5
#: Digits of the content's SHA-256 in the name of a file.
_DIGITS = 32
_DIGEST = re.compile(rf"(?:^|-)([0-9a-f]{{{_DIGITS}}})(?:~[^.]*)?\.(?:parquet|json)$")


def read_part(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file of rows.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    IntegrityError
        If it is damaged.
    """
    try:
        return read_table(path, columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as problem:
        if is_away(problem):
            raise
        why = why_unread(problem) if isinstance(problem, OSError) else problem
        raise IntegrityError(f"{path} is damaged ({why}): restore it from a copy or remove it") from problem


def write_part(
    path: Path, table: pa.Table, named: Callable[[Path], Path] | None = None, mode: int | None = None
) -> None:
    """Write a Parquet file of rows atomically; `named` gives its path from that of the written draft.

    A given `mode` applies from the moment the file appears.
    """
    refuse_special_target(path)
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        try:
            pq.write_table(table, draft, compression="zstd")
            if mode is not None:
                draft.chmod(mode)
            sync_path(draft)
            draft.replace(named(draft) if named is not None else path)
        finally:
            draft.unlink(missing_ok=True)
        sync_path(path.parent)


def names_of_parts(folder: Path) -> list[str]:
    """Return the names of the finished files in a folder, the oldest first."""
    # while a file is being written, its name begins with a dot
    names = (entry.name for entry in entries(folder))
    return sorted(name for name in names if name.endswith(".parquet") and not name.startswith("."))


def parts_of(folder: Path) -> list[Path]:
    """Return the finished files in a folder, the oldest first; empty if the folder does not exist."""
    return [folder / name for name in names_of_parts(folder)]


def add_part(folder: Path, table: pa.Table, task: str = "", mode: int | None = None) -> None:
    """Write rows as another file of a folder, named after its content and the task that made it, if any."""
    ending = f"~{task}.parquet" if task else ".parquet"
    write_part(folder / "part", table, lambda draft: folder / new_name(digest_file(draft), ending), mode)


def new_name(digest: str, ending: str) -> str:
    """Return a unique file name from the time and the SHA-256 of the file's content."""
    stamp = datetime.now(UTC).isoformat(timespec="microseconds").replace(":", "").replace("+0000", "Z")
    return f"{stamp}-{digest[:_DIGITS]}{ending}"


def is_sound(path: Path) -> bool:
    """Return whether a file's content has the checksum that :func:`new_name` put into its name."""
    named = _DIGEST.search(path.name)
    return named is not None and digest_file(path).startswith(named[1])


def retry_read(read: Callable[[], T]) -> T:
    """Call `read`, retrying if a file was replaced between listing and opening it."""
    for left in reversed(range(_TRIES)):
        try:
            return read()
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("unreachable")


def best_rows(table: pa.Table, ids: Sequence[str], answer: str, order: Sequence[str]) -> pa.Table:
    """Return one row per id, preferring answers over failures, then later over earlier rows.

    Parameters
    ----------
    table
        Rows, with the creation time in column ``at`` (ISO 8601, UTC).
    ids
        Columns that identify a row.
    answer
        Column that is null in a failure.
    order
        Sort columns of the result.
    """
    if not table.num_rows:
        return table
    ranked = table.append_column("answered", table[answer].is_valid()).sort_by(
        [*((name, "ascending") for name in ids), ("answered", "descending"), ("at", "descending")]
    )
    keys = list(zip(*(ranked[name].to_pylist() for name in ids), strict=True))
    first = [n for n in range(len(keys)) if not n or keys[n] != keys[n - 1]]
    return ranked.take(first).drop_columns(["answered"]).sort_by([(name, "ascending") for name in order])


#: Parts with fewer rows are merged when a run ends.
SMALL_PART = 50_000


class RowStore:
    """The rows of one schema in a folder; nothing is written before the first row.

    Files of finished runs never change, so an instance reads each once; from growing files it reads only the
    added rows.

    Parameters
    ----------
    path
        The folder.

    Class attributes
    ----------------
    ids
        The columns that identify rows, ``key`` first.
    answer
        The column that is null in a failure.
    order
        Columns by which rows are sorted.
    transient
        Failures caused by the machine or the budget: retried by the next run.
    """

    schema: ClassVar[pa.Schema]
    ids: ClassVar[tuple[str, ...]]
    answer: ClassVar[str]
    order: ClassVar[tuple[str, ...]]
    transient: ClassVar[Collection[str]]

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts_read: dict[str, dict[RowId, str]] = {}
        self._lines_read: dict[Path, tuple[int, dict[RowId, str]]] = {}

    def settled(self, table: pa.Table) -> pa.Table:
        """Return the rows that count, in order: one for each id."""
        return best_rows(table, self.ids, self.answer, self.order)

    @property
    def running(self) -> Path:
        """Folder of the files being written."""
        return self.path / "running"

    @property
    def parts(self) -> Path:
        """Folder of the finished files."""
        return self.path / "parts"

    def all_rows(self) -> pa.Table:
        """Return every row of every file.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """

        def read() -> pa.Table:
            # read running files first: they become parts, never the other way round
            tables = [self._table(rows_of_lines(path)) for path in self.lines_files()]
            tables += [read_part(path) for path in self.part_files()]
            return pa.concat_tables([self.schema.empty_table(), *tables])

        return retry_read(read)

    def failures(self) -> dict[RowId, str]:
        """Return every row's failure by id; empty for answered rows."""

        def read() -> dict[RowId, str]:
            failures: dict[RowId, str] = {}
            for rows in [*map(self._of_lines, self.lines_files()), *map(self._of_part, self.part_files())]:
                for id_, failure in rows.items():
                    self._note(failures, id_, failure)
            return failures

        return retry_read(read)

    def failures_of(self, task: str, ids: Collection[RowId]) -> dict[RowId, str]:
        """Return the same for some rows, as needed by one task.

        Its run left out rows that were settled before, and no other task of that run has the same rows. So
        only rows that earlier attempts of this task wrote are read, even if another run has packed them
        meanwhile.
        """
        run = task.partition("-")[0]

        def concerns(part: str) -> bool:
            maker = part.partition("~")[2].removesuffix(".parquet")
            return maker == task or maker.partition("-")[0] != run

        def read() -> dict[RowId, str]:
            failures: dict[RowId, str] = {}
            lines = [path for path in self.lines_files() if task_of(path) == task]
            parts = [self.parts / name for name in names_of_parts(self.parts) if concerns(name)]
            for rows in [*map(self._of_lines, lines), *map(self._of_part, parts)]:
                for id_ in ids:
                    if id_ in rows:
                        self._note(failures, id_, rows[id_])
            return failures

        return retry_read(read)

    def _note(self, failures: dict[RowId, str], id_: RowId, failure: str | None) -> None:
        """Record a row; an answer takes precedence over a failure, a lasting failure over a transient one."""
        before = failures.get(id_)
        if before is None or not failure or (before and before in self.transient):
            failures[id_] = failure or ""

    def _of_part(self, path: Path) -> dict[RowId, str]:
        if path.name not in self._parts_read:
            rows = read_part(path, [*self.ids, "failure"]).select([*self.ids, "failure"]).to_pydict()
            failures: dict[RowId, str] = {}
            for *id_, failure in zip(*rows.values(), strict=True):
                self._note(failures, tuple(id_), failure)
            self._parts_read[path.name] = failures
        return self._parts_read[path.name]

    def _of_lines(self, path: Path) -> dict[RowId, str]:
        begin, failures = self._lines_read.get(path, (0, {}))
        rows, upto = lines_since(path, begin)
        for row in rows:
            self._note(failures, tuple(row[name] for name in self.ids), row["failure"])
        self._lines_read[path] = upto, failures
        return failures

    @contextmanager
    def writer(self, task: str) -> Iterator[LinesFile]:
        """Yield a file for the rows of this process; they are packed on exit, even after an error."""
        lines = LinesFile(self.running, task)
        try:
            yield lines
        finally:
            lines.close()
            self._finish(lines.path)

    def begun(self, task: str) -> Counter[str]:
        """Return how often each key was started but not finished by earlier attempts of a task.

        The process of such an attempt has died: one that ends normally leaves no lines.
        """
        return Counter(
            key for path in self.lines_files() if task_of(path) == task for key in unanswered(path)
        )

    def add(self, rows: Iterable[StoredRow]) -> int:
        """Add rows as a finished batch; return their number."""
        batch = [strike_out_row(row.model_dump(mode="json")) for row in rows]
        if batch:
            add_part(self.parts, self._table(batch))
        return len(batch)

    def pack(self, ended: Callable[[str], bool] = lambda _: False) -> None:
        """Pack the files of killed processes and merge small parts; call it when a run ends.

        Parameters
        ----------
        ended
            Returns whether the processes of a task have certainly ended; for this machine this is always
            known.
        """
        for path in self.lines_files():
            if ended(task_of(path)) or not owner_alive(path):
                # another run that ends at the same time packs them too
                with suppress(FileNotFoundError):
                    self._finish(path)
        retry_read(self._join_small)

    def lines_files(self) -> list[Path]:
        """Return the files being written."""
        return [Path(entry.path) for entry in entries(self.running) if entry.name.endswith(".jsonl")]

    def part_files(self) -> list[Path]:
        """Return the finished files."""
        return parts_of(self.parts)

    def _join_small(self) -> None:
        small = [path for path in self.part_files() if pq.read_metadata(path).num_rows < SMALL_PART]
        if len(small) > 1:
            add_part(self.parts, self.settled(pa.concat_tables([read_part(path) for path in small])))
            for path in small:
                # another run may merge the same parts at the same time; both results then contain the same
                # rows
                path.unlink(missing_ok=True)

    def _finish(self, lines: Path) -> None:
        """Convert the lines of an ended process to a part and remove them."""
        rows = rows_of_lines(lines)
        if rows:
            add_part(self.parts, self._table(rows), task_of(lines))
        lines.unlink(missing_ok=True)

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self.schema)
