"""Read a file of answers into rows with line numbers; an unreadable row is returned with its problem."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.regular_files import read_regular
from tasks.annotation.exchange.mapping import FileForm, Form
from tasks.tables import parse_table

_ENDINGS: dict[str, Form] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


@dataclass(frozen=True)
class AnswerRow:
    """One row.

    Parameters
    ----------
    line, last_line
        First and last line in the file, counted from 1.
    cells
        Text by column, without surrounding white space; columns that the row lacks are absent.
    problem
        Why the row cannot be read; empty if it can.
    """

    line: int
    last_line: int
    cells: dict[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class AnswerFile:
    """The columns of a file in order, and its rows."""

    columns: tuple[str, ...]
    rows: tuple[AnswerRow, ...]


def read_answers(path: Path, form: FileForm) -> AnswerFile:
    """Read a file of answers; bytes that are invalid in its encoding become ``U+FFFD``.

    Raises
    ------
    UserInputError
        If the file cannot be read at all: it is missing, of unknown kind, its header is damaged, or a
        quotation mark swallows rows.
    """
    kind = form.form or _ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise UserInputError(
            f"{path}: unknown kind of file: name it .csv, .tsv or .jsonl, or set `form` in the mapping"
        )
    try:
        data = read_regular(path)
    except OSError as problem:
        raise UserInputError(f"{path}: {problem.strerror}") from problem
    encoding: str = "utf-8-sig" if form.encoding == "utf-8" else form.encoding
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    text = data.decode(encoding, "replace")
    if kind == "jsonl":
        rows = tuple(_json_rows(text))
        columns = tuple(dict.fromkeys(name for row in rows for name in row.cells))
        return AnswerFile(columns, rows)
    return _table(path, text, kind == "tsv")


def _table(path: Path, text: str, tabs: bool) -> AnswerFile:
    table = parse_table(path, text, tabs or None)
    rows = []
    for row in table.rows:
        surplus = f"it has {row.count} cells, but the first line names {len(table.columns)}"
        rows.append(AnswerRow(row.line, row.last_line, row.cells, surplus if row.surplus else ""))
    return AnswerFile(table.columns, tuple(rows))


def _json_rows(text: str) -> Iterator[AnswerRow]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as problem:
            yield AnswerRow(number, number, problem=f"it is not valid JSON ({problem!s:.100})")
            continue
        if not isinstance(value, dict):
            yield AnswerRow(number, number, problem="it is not an object of columns and values")
            continue
        cells = {str(name): _cell(item) for name, item in value.items()}
        nested = next((name for name, cell in cells.items() if cell is None), None)
        nested_problem = "" if nested is None else f"{nested!r} is not a single value"
        row = {name: cell for name, cell in cells.items() if cell is not None}
        yield AnswerRow(number, number, row, nested_problem)


def _cell(value: Any) -> str | None:
    """Return a single value as in a table; None for a list or an object."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip() if isinstance(value, str | int | float) else None
