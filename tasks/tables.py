"""Read submitted tables: CSV and TSV as written by spreadsheets and platforms.

Nothing that could change an answer is guessed: a quotation mark that swallows rows, an unknown encoding and a
damaged header are rejected with advice.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from storage_schemas.errors import UserInputError

_TAB_ENDINGS = (".tsv", ".tab")
#: Cell separators recognised in the first line; spreadsheets use the list separator of their locale.
_DELIMITERS = (",", ";", "\t")
#: Maximum length of a cell: comments and prompts have a few thousand characters at most.
_MAX_CELL_LENGTH = 1 << 17
#: In tables with fewer columns, a line inside a cell cannot reliably be recognised as a row.
_MIN_COLUMNS = 3


#: A text in quotation marks, with the trailing spaces that people and programs add.
_QUOTED = re.compile(r'("(?:[^"]|"")*+")(?: +(?=[,;\t\r\n]|\Z))?')


@dataclass(frozen=True)
class TableRow:
    """One row: its first and last line, counted from 1, its cells by column, and the number of all its cells.

    Columns that the row lacks are absent; cells have no surrounding white space.
    """

    line: int
    last_line: int
    cells: dict[str, str]
    count: int
    #: Whether a cell beyond the named columns is not empty.
    surplus: bool


@dataclass(frozen=True)
class Table:
    """The columns of a table in order, and its rows; empty rows are left out."""

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


def is_table(path: Path) -> bool:
    """Return whether a file's name marks it as CSV or TSV."""
    return path.suffix.lower() in (".csv", *_TAB_ENDINGS)


def decoded(path: Path, data: bytes) -> str:
    """Return the text of a file in UTF-8 or UTF-16, without a byte order mark.

    Raises
    ------
    UserInputError
        If it is in another encoding; the message has the command that converts it.
    """
    for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        if data.startswith(mark):
            return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UserInputError(
            f"{path} is not UTF-8 at byte {problem.start}: save it as UTF-8, or convert it, for example with "
            "`iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW`"
        ) from problem


def parse_table(path: Path, text: str, tabs: bool | None = None, needed: Collection[str] = ()) -> Table:
    """Return the table in a text; `path` is its name in messages.

    Parameters
    ----------
    tabs
        Whether tabs separate the cells; by default for ``.tsv``. Otherwise commas do, or semicolons or tabs
        if the first line shows that (or states it, as ``sep=;``).
    needed
        Columns that it must have.

    Raises
    ------
    UserInputError
        If its first line is missing, damaged or lacks a column, or a quotation mark swallows rows.
    """
    tabs = path.suffix.lower() in _TAB_ENDINGS if tabs is None else tabs
    first_line = text.split("\n", 1)[0].rstrip("\r").strip('"')
    first = 1
    if first_line.lower().startswith("sep=") and len(first_line) == 5:
        delimiter, text, first = first_line[4], text.partition("\n")[2], 2
    else:
        delimiter = "\t" if tabs else _delimiter(text)
    lines = _lines(path, text, delimiter, first)
    head = next((cells for _, _, cells in lines if any(cell.strip() for cell in cells)), None)
    if head is None:
        raise UserInputError(f"{path} is empty: its first line must name the columns")
    columns = tuple(cell.strip() for cell in head)
    twice = next((name for name in columns if name and columns.count(name) > 1), None)
    if twice is not None:
        raise UserInputError(f"{path}: its first line is damaged: {twice!r} appears twice")
    if missing := sorted(set(needed) - set(columns)):
        have = ", ".join(name for name in columns if name) or "none"
        raise UserInputError(f"{path} has no column {', '.join(missing)}: it has {have}")
    rest, rows = list(lines), []
    full = all(len(cells) == len(columns) for _, _, cells in rest if any(cells))
    for begin, end, cells in rest:
        _refuse_swallowed(path, begin, cells, delimiter, len(columns), full)
        if any(cell.strip() for cell in cells):
            named = {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name}
            more = any(cell.strip() for cell in cells[len(columns) :])
            rows.append(TableRow(begin, end, named, len(cells), more))
    return Table(tuple(name for name in columns if name), tuple(rows))


def _delimiter(text: str) -> str:
    """Return the separator of the names in the first line that has any."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    outside = "".join(head.split('"')[::2])
    return max(_DELIMITERS, key=outside.count)


def _lines(path: Path, text: str, delimiter: str, first: int) -> Iterator[tuple[int, int, list[str]]]:
    """Yield first line, last line and cells of each row."""
    csv.field_size_limit(_MAX_CELL_LENGTH)
    text = _QUOTED.sub(r"\1", text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        begin = reader.line_num + first
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            if "field larger" in str(problem):
                raise UserInputError(
                    f"{path}, line {begin}: a cell has over {_MAX_CELL_LENGTH} characters: is a "
                    "quotation mark not closed?"
                ) from problem
            raise UserInputError(
                f"{path}, line {begin}: a quotation mark is not closed, or text follows its end "
                f"({problem}): put the whole cell into quotation marks, and write each one within it twice"
            ) from problem
        yield begin, reader.line_num + first - 1, cells


def _refuse_swallowed(
    path: Path, begin: int, cells: list[str], delimiter: str, columns: int, full: bool
) -> None:
    """Reject a cell with a line that is a row: its quotation mark was closed by one of a later row.

    Of the row that closes it, the cells behind the mark follow as cells: where that are too few, and all rows
    are `full`, the number of cells proves that the marks belong together.
    """
    least = 2 if delimiter == "\t" else _MIN_COLUMNS
    for index, cell in enumerate(cells if columns >= _MIN_COLUMNS else ()):
        lines = cell.split("\n")[1:]
        if lines and full and lines[-1].count(delimiter) + len(cells) - index < columns:
            continue
        for number, line in enumerate(lines, 1):
            parts = line.split(delimiter)
            behind = len(cells) - index - 1 if number == len(lines) else 0
            # sentences have a space after a comma
            spaced = any(part.startswith(" ") for part in parts[1:])
            if not spaced and len(parts) >= least and columns in (len(parts), len(parts) + behind):
                raise UserInputError(
                    f"{path}, line {begin}: a quotation mark opens a cell that holds the row {line[:60]!r}: "
                    "close it, or write it twice"
                )
