"""Rows that are paid for one by one, in a folder of append-only files with one writer each.

::

    running/<host>.<pid>.<task>.<n>.jsonl   what a process is making now, a line a row
    parts/<time>-<n>.parquet                finished batches

A row is on the disk before the next one is begun. A process that ends well packs its lines into a part; those
of a process that was killed are read as they are, and packed by the next run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from storage_schemas.lines_file import LinesFile, owner_alive, rows_of_lines, task_of, unanswered
from storage_schemas.model import Frozen
from storage_schemas.parts import add_part, anew, parts_of, read_part

#: Parts with fewer rows are joined when a run ends.
SMALL_PART = 50_000


class RowStore(ABC):
    """The rows of one schema in a folder; nothing is written before the first row.

    Parameters
    ----------
    path
        The folder.
    """

    schema: ClassVar[pa.Schema]

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    @abstractmethod
    def settled(table: pa.Table) -> pa.Table:
        """Return of all rows those that count, in their order."""

    @property
    def running(self) -> Path:
        """Folder of what is being made."""
        return self.path / "running"

    @property
    def parts(self) -> Path:
        """Folder of the finished batches."""
        return self.path / "parts"

    def all_rows(self) -> pa.Table:
        """Return every row of every file.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """

        def read() -> pa.Table:
            # first what runs: it becomes a part, never the other way round
            found = [self._table(rows_of_lines(path)) for path in self.lines_files()]
            found += [read_part(path) for path in self.part_files()]
            return pa.concat_tables([self.schema.empty_table(), *found])

        return anew(read)

    @contextmanager
    def writer(self, task: str) -> Iterator[LinesFile]:
        """Give what adds the rows of one process; they are packed when it ends, also by an error."""
        lines = LinesFile(self.running, task)
        try:
            yield lines
        finally:
            lines.close()
            self._finish(lines.path)

    def begun(self, task: str) -> Counter[str]:
        """Return by key how often a row was begun, but not reached, by earlier tries of a task.

        The process of such a try is dead: one that ends well leaves no lines.
        """
        return Counter(
            key for path in self.lines_files() if task_of(path) == task for key in unanswered(path)
        )

    def add(self, rows: Iterable[Frozen]) -> int:
        """Add rows as a finished batch; return how many."""
        batch = [row.model_dump(mode="json") for row in rows]
        if batch:
            add_part(self.parts, self._table(batch))
        return len(batch)

    def pack(self, ended: Callable[[str], bool] = lambda _: False) -> None:
        """Pack what killed processes left, and join small parts; run it when a run ends.

        Parameters
        ----------
        ended
            Says of a task whether its processes are gone for sure; of those of this machine that is known.
        """
        for path in self.lines_files():
            if ended(task_of(path)) or not owner_alive(path):
                # another run that ends at the same moment packs them as well
                with suppress(FileNotFoundError):
                    self._finish(path)
        anew(self._join_small)

    def lines_files(self) -> list[Path]:
        """Return the files of what is being made."""
        return sorted(self.running.glob("*.jsonl")) if self.running.is_dir() else []

    def part_files(self) -> list[Path]:
        """Return the files of the finished batches."""
        return parts_of(self.parts)

    def _join_small(self) -> None:
        small = [path for path in self.part_files() if pq.read_metadata(path).num_rows < SMALL_PART]
        if len(small) > 1:
            add_part(self.parts, self.settled(pa.concat_tables([read_part(path) for path in small])))
            for path in small:
                # another run may join the same ones at the same moment; then both hold the same rows
                path.unlink(missing_ok=True)

    def _finish(self, lines: Path) -> None:
        """Make a part of the lines of a process that has ended, and remove them."""
        rows = rows_of_lines(lines)
        if rows:
            add_part(self.parts, self._table(rows))
        lines.unlink(missing_ok=True)

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self.schema)
