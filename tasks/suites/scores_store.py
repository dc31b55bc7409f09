"""Where scores of suites are kept: append-only files in ``suites/`` of the store, one writer a file.

::

    suites/running/<host>.<pid>.<task>.<n>.jsonl   what a process is scoring now, a line a score
    suites/parts/<time>-<n>.parquet                finished batches
    suites/answers/                                answers of models, a line each, kept at once

A score is on the disk before the next one is begun. Those of a process that was killed are read as they are,
and packed by the next run. A row is known by its key and its video; of several the latest score counts.
"""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.judgement_files import (
    LinesFile,
    owner_alive,
    read_part,
    rows_of_lines,
    task_of,
    unanswered,
    write_part,
)
from storage_schemas.provenance import utc_now
from storage_schemas.store import Store
from storage_schemas.suite_score import SUITE_SCORES, SuiteScore

T = TypeVar("T")
#: Key of a score, and model, prompt and sample of the video that it is for.
ScoreId = tuple[str, str, str, int]
_ID = ("key", "model", "prompt_id", "sample")
_ORDER = ("suite", "dimension", "settings", "model", "prompt_id", "sample", "repeat", "key")
#: How often reading begins anew where files were packed meanwhile.
_TRIES = 5


def id_of(row: SuiteScore) -> ScoreId:
    """Return what a row is known by."""
    return row.key, row.model, row.prompt_id, row.sample


class ScoresStore:
    """The scores of one store; nothing is written into it before the first score."""

    def __init__(self, store: Store) -> None:
        self.path = store.root / "suites"

    @property
    def running(self) -> Path:
        """Folder of what is being scored."""
        return self.path / "running"

    @property
    def parts(self) -> Path:
        """Folder of the finished batches."""
        return self.path / "parts"

    def table(self, suite: str = "") -> pa.Table:
        """Return one row a score as an Arrow table, by dimension, settings, model, prompt and sample.

        Parameters
        ----------
        suite
            Only of this one; of all where it is empty.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """

        def read() -> pa.Table:
            # first what runs: it becomes a part, never the other way round
            found = [pa.Table.from_pylist(rows_of_lines(path), schema=SUITE_SCORES) for path in self._lines()]
            found += [read_part(path) for path in self._parts()]
            return pa.concat_tables([SUITE_SCORES.empty_table(), *found])

        table = _anew(read)
        if suite:
            table = table.filter(pc.equal(table["suite"], suite))
        return _settled(table)

    def suites(self) -> list[str]:
        """Return the names of the suites that have scores."""
        return sorted(set(self.table()["suite"].to_pylist()))

    def rows(self, suite: str = "") -> list[SuiteScore]:
        """Return the same as models."""
        try:
            return [SuiteScore.model_validate(row) for row in self.table(suite).to_pylist()]
        except ValidationError as problem:
            raise IntegrityError(f"a score in {self.path} does not fit: {problem}") from problem

    def known(self, suite: str = "") -> dict[ScoreId, str]:
        """Return of every row why there is no score, empty where there is one."""
        columns = self.table(suite).select([*_ID, "failure"]).to_pydict()
        rows = zip(*columns.values(), strict=True)
        return {(key, model, prompt, sample): failure or "" for key, model, prompt, sample, failure in rows}

    @contextmanager
    def writer(self, task: str) -> Iterator[LinesFile]:
        """Give what adds the scores of one process; they are packed when it ends, also by an error."""
        lines = LinesFile(self.running, task)
        try:
            yield lines
        finally:
            lines.close()
            self._finish(lines.path)

    def begun(self, task: str) -> Counter[str]:
        """Return by key how often a score was begun, but not reached, by earlier tries of a task."""
        return Counter(key for path in self._lines() if task_of(path) == task for key in unanswered(path))

    def add(self, rows: Iterable[SuiteScore]) -> int:
        """Add rows as a finished batch; return how many."""
        batch = [row.model_dump(mode="json") for row in rows]
        if batch:
            self._write(pa.Table.from_pylist(batch, schema=SUITE_SCORES))
        return len(batch)

    def pack(self, ended: Callable[[str], bool] = lambda _: False) -> None:
        """Pack what killed processes left, and join the parts; run it when a run ends.

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
        _anew(self._join)

    def export(self, path: Path, suite: str = "") -> int:
        """Write all scores as one Parquet, CSV or JSON Lines file, by its ending; return how many.

        Raises
        ------
        StoreError
            If there are none.
        UserInputError
            For another ending.
        """
        table = self.table(suite)
        if not table.num_rows:
            raise StoreError(f"there are no scores in {self.path}: `slvmeval suite NAME` makes them")
        match path.suffix.lower():
            case ".parquet":
                write_part(path, table)
            case ".jsonl":
                lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())
                write_atomic(path, "".join(lines).encode())
            case ".csv":
                write_atomic(path, _csv(table).encode())
            case _:
                raise UserInputError(f"{path.name}: give a name that ends in .parquet, .csv or .jsonl")
        return int(table.num_rows)

    def _join(self) -> None:
        parts = self._parts()
        if len(parts) > 1:
            self._write(_settled(pa.concat_tables([read_part(path) for path in parts])))
            for path in parts:
                # another run may join the same ones at the same moment; then both hold the same rows
                path.unlink(missing_ok=True)

    def _finish(self, lines: Path) -> None:
        rows = rows_of_lines(lines)
        if rows:
            self._write(pa.Table.from_pylist(rows, schema=SUITE_SCORES))
        lines.unlink(missing_ok=True)

    def _write(self, table: pa.Table) -> None:
        stamp = utc_now().replace(":", "").replace("+0000", "Z")
        write_part(self.parts / f"{stamp}-{uuid.uuid4().hex[:8]}.parquet", table)

    def _lines(self) -> list[Path]:
        return sorted(self.running.glob("*.jsonl")) if self.running.is_dir() else []

    def _parts(self) -> list[Path]:
        return sorted(self.parts.glob("[!.]*.parquet")) if self.parts.is_dir() else []


def _settled(table: pa.Table) -> pa.Table:
    """Return one row for each key and video: a score counts more than a failure, then a later row."""
    if not table.num_rows:
        return table
    by: list[tuple[str, str]] = [(name, "ascending") for name in _ID]
    ranked = table.append_column("scored", pc.is_valid(table["score"])).sort_by(
        [*by, ("scored", "descending"), ("at", "descending")]
    )
    ids = list(zip(*(ranked[name].to_pylist() for name in _ID), strict=True))
    first = [n for n in range(len(ids)) if not n or ids[n] != ids[n - 1]]
    return ranked.take(first).drop_columns(["scored"]).sort_by([(name, "ascending") for name in _ORDER])


def _csv(table: pa.Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        # a spreadsheet takes a server's words for a formula where they begin like one
        message = row["message"]
        row["message"] = f"'{message}" if message.startswith(("=", "+", "-", "@", "\t", "\r")) else message
        writer.writerow("" if value is None else value for value in row.values())
    return out.getvalue()


def _anew(read: Callable[[], T]) -> T:
    """Read, and begin anew where a file was packed between listing and opening it."""
    for left in reversed(range(_TRIES)):
        try:
            return read()
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("unreachable")
