"""Convert rows between models and Parquet files with explicit Arrow schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from storage_schemas.away import ask_again, is_away
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.ids import canonical_json
from storage_schemas.regular_files import check_regular
from storage_schemas.value_problems import first_error

TableRow = TypeVar("TableRow", bound=BaseModel)


# Arrow's own allocator keeps the memory of a large table until the process ends
pa.set_memory_pool(pa.system_memory_pool())

#: Rows converted to dicts at a time.
_ROWS_AT_ONCE = 4096


def write_rows(path: Path, schema: pa.Schema, rows: Iterable[BaseModel | Mapping[str, Any]]) -> None:
    """Write rows to one Parquet file; JSON objects are stored as canonical text."""
    plain = [row.model_dump(mode="json") if isinstance(row, BaseModel) else dict(row) for row in rows]
    columns = {
        field.name: pa.array([_cell(row[field.name], field.type) for row in plain], type=field.type)
        for field in schema
    }
    pq.write_table(pa.table(columns, schema=schema), path, compression="zstd")


def _cell(value: Any, kind: pa.DataType) -> Any:
    return canonical_json(value) if pa.types.is_string(kind) and isinstance(value, dict | list) else value


def open_parquet(path: Path | pa.NativeFile, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file, and nothing else at its path; see ``regular_files.py``."""
    if isinstance(path, Path):
        check_regular(path)
    return pq.ParquetFile(path, **options)


def read_table(path: Path | pa.NativeFile, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file, or some of its columns.

    Avoids ``pq.read_table``, which imports pandas if installed and so takes more than a second.
    """

    def read() -> pa.Table:
        with open_parquet(path) as file:
            return file.read(columns)

    return ask_again(read)


def dicts_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield a table's rows as dicts, only a few at a time, as they take many times the table's memory."""
    for batch in table.to_batches(_ROWS_AT_ONCE):
        yield from batch.to_pylist()


def read_dicts(path: Path) -> Iterator[dict[str, Any]]:
    """Read a Parquet file, and yield a dict per row.

    Raises
    ------
    StoreError
        If the file is missing.
    IntegrityError
        If the file is damaged or not Parquet.
    """
    return dicts_of(_read(path))


def read_column(path: Path, name: str) -> list[Any]:
    """Read one column of a Parquet file.

    Raises
    ------
    StoreError
        If the file is missing.
    IntegrityError
        If the file is damaged, not Parquet, or has no such column.
    """
    values: list[Any] = _read(path, [name]).column(name).to_pylist()
    return values


def _read(path: Path, columns: list[str] | None = None) -> pa.Table:
    try:
        table = read_table(path, columns)
        if columns is not None and table.column_names != columns:
            raise IntegrityError(f"{path} has no column {columns[0]!r}")
        return table
    except FileNotFoundError as problem:
        raise StoreError(f"{path} is missing") from problem
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        if is_away(problem):
            raise
        raise IntegrityError(f"{path} is damaged: {problem}") from problem


def read_rows(path: Path, model: type[TableRow], json_fields: tuple[str, ...] = ()) -> list[TableRow]:
    """Read a Parquet file written by :func:`write_rows` as models.

    Raises
    ------
    StoreError
        If the file is missing.
    IntegrityError
        If the file is damaged or not Parquet, or a row does not fit the model.
    """
    rows = read_dicts(path)
    try:
        return [
            model.model_validate({**row, **{name: json.loads(row[name]) for name in json_fields}})
            for row in rows
        ]
    except (ValidationError, KeyError, ValueError) as problem:
        why = first_error(problem) if isinstance(problem, ValidationError) else problem
        raise IntegrityError(f"{path} does not fit {model.__name__}: {why}") from problem
