"""Finished batches of rows: Parquet files that are written whole or not at all, and never changed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.errors import IntegrityError

T = TypeVar("T")
#: How often reading begins anew where files were replaced meanwhile.
_TRIES = 5


def read_part(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file of rows.

    Raises
    ------
    FileNotFoundError
        If it is gone.
    IntegrityError
        If it is damaged.
    """
    try:
        with pq.ParquetFile(path) as file:
            return file.read(columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as problem:
        raise IntegrityError(
            f"{path} is damaged ({problem}): restore it from a copy or remove it"
        ) from problem


def write_part(path: Path, table: pa.Table) -> None:
    """Write a Parquet file of rows, whole or not at all."""
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        try:
            pq.write_table(table, draft, compression="zstd")
            sync_path(draft)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        sync_path(path.parent)


def parts_of(folder: Path) -> list[Path]:
    """Return the finished files in a folder, the oldest first; none where there is no folder."""
    # while it is written its name begins with a dot
    return sorted(folder.glob("[!.]*.parquet")) if folder.is_dir() else []


def add_part(folder: Path, table: pa.Table) -> None:
    """Write rows as one more file of a folder."""
    write_part(folder / new_name(".parquet"), table)


def new_name(ending: str) -> str:
    """Return a name that no other file has and that begins with the time."""
    stamp = datetime.now(UTC).isoformat(timespec="microseconds").replace(":", "").replace("+0000", "Z")
    return f"{stamp}-{uuid.uuid4().hex[:8]}{ending}"


def anew(read: Callable[[], T]) -> T:
    """Read, and begin anew where a file was replaced between listing and opening it."""
    for left in reversed(range(_TRIES)):
        try:
            return read()
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("unreachable")


def one_each(table: pa.Table, ids: Sequence[str], answer: str, order: Sequence[str]) -> pa.Table:
    """Return one row for each id: an answer before a failure, then a later row before an earlier one.

    Parameters
    ----------
    table
        With the column ``at``, when a row was made (ISO 8601, UTC).
    ids
        The columns that tell rows apart.
    answer
        The column that is null in a failure.
    order
        Columns by which the result is sorted.
    """
    if not table.num_rows:
        return table
    ranked = table.append_column("answered", pc.is_valid(table[answer])).sort_by(
        [*((name, "ascending") for name in ids), ("answered", "descending"), ("at", "descending")]
    )
    keys = list(zip(*(ranked[name].to_pylist() for name in ids), strict=True))
    first = [n for n in range(len(keys)) if not n or keys[n] != keys[n - 1]]
    return ranked.take(first).drop_columns(["answered"]).sort_by([(name, "ascending") for name in order])
