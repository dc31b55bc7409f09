"""Read a file of answers into rows with line numbers; an unreadable row is returned with its problem."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.regular_files import read_regular
from tasks.annotation.exchange.mapping import FileForm, Form

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
        If the file cannot be read at all: it is missing, of unknown kind, or its header is damaged.
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
    encoding = "utf-8-sig" if form.encoding == "utf-8" else form.encoding
    text = data.decode(encoding, "replace")
    if kind == "jsonl":
        rows = tuple(_json_rows(text))
        columns = tuple(dict.fromkeys(name for row in rows for name in row.cells))
        return AnswerFile(columns, rows)
    return _table(path, text, "\t" if kind == "tsv" else ",")


def _table(path: Path, text: str, delimiter: str) -> AnswerFile:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    lines = _lines(reader)
    head = next(lines, None)
    while head is not None and not head[2] and not any(cell.strip() for cell in head[1]):
        head = next(lines, None)
    if head is None:
        raise UserInputError(f"{path} is empty: its first line must name the columns")
    columns = tuple(cell.strip() for cell in head[1])
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice or head[2]:
        raise UserInputError(f"{path}: its first line is damaged: {head[2] or f'{twice[0]!r} appears twice'}")
    rows = []
    for begin, cells, problem, end in lines:
        if problem:
            rows.append(AnswerRow(begin, end, problem=problem))
        elif any(cell.strip() for cell in cells):
            named = {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name}
            more = [cell for cell in cells[len(columns) :] if cell.strip()]
            surplus = f"it has {len(cells)} cells, but the first line names {len(columns)}" if more else ""
            rows.append(AnswerRow(begin, end, named, surplus))
    return AnswerFile(tuple(name for name in columns if name), tuple(rows))


def _lines(reader: Any) -> Iterator[tuple[int, list[str], str, int]]:
    """Yield first line, cells, problem and last line of each row."""
    while True:
        begin = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            # an unclosed quotation mark swallows everything after it
            yield begin, [], f"it is not a valid table row ({problem})", reader.line_num
        else:
            yield begin, cells, "", reader.line_num


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
        known = {name: cell for name, cell in cells.items() if cell is not None}
        yield AnswerRow(number, number, known, nested_problem)


def _cell(value: Any) -> str | None:
    """Return a single value as in a table; None for a list or an object."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip() if isinstance(value, str | int | float) else None
