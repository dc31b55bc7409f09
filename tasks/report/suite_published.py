"""A suite's tables compared with those that its paper prints, or those of a file of the same form.

A file has one TOML table for each printed table; a suite's is ``published.toml`` in its package. Values are
in the unit of the print: per cent where our columns are.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular_text
from storage_schemas.value_problems import first_error, problem_text
from tasks.report.table import Column, Table

#: The name for the values of the suite's own paper.
PAPER = "paper"
#: The row for all models: a printed range.
EVERY = "*"
#: The row over all dimensions of the alignment table.
MEAN_ABSOLUTE = "mean of absolutes"
_NUMBER = r"[-−+]?\d+(?:\.\d+)?"
_CELL = re.compile(rf"(?P<value>{_NUMBER})(?:\s*(?:to|–)\s*(?P<end>{_NUMBER}))?")


class PublishedTable(Frozen):
    """A printed table.

    Parameters
    ----------
    table, section
        Where the paper has it.
    gives
        Name of our table with the same values, such as ``leaderboard``.
    columns
        Keys of our table's columns.
    rows
        Printed values by row: a model, a dimension, a variant (``suite`` for the suite itself), or
        ``FIRST | SECOND``. An empty text is a value that is not printed; ``95.3 to 99.4`` is a range.
    """

    table: str
    section: str
    gives: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]


class SuitePublished(Frozen):
    """The values of one file.

    Parameters
    ----------
    title
        Whose they are.
    tables
        The printed tables.
    """

    title: str
    tables: tuple[PublishedTable, ...] = Field(min_length=1)


@dataclass(frozen=True)
class SuiteAgainst:
    """A comparison, and what could not be compared, a line each."""

    table: Table
    absent: tuple[str, ...]


def read_suite_published(where: str, package: str) -> SuitePublished:
    """Return the values of a file, or those of a suite's paper for ``paper``.

    Parameters
    ----------
    package
        The package that has the suite's ``published.toml``; empty if it has none.

    Raises
    ------
    UserInputError
        If they cannot be read, have another form, or the suite has none.
    """
    if where == PAPER and not package:
        raise UserInputError(f"--against {PAPER}: this suite has no published values; give a file of them")
    try:
        text = (
            files(package).joinpath("published.toml").read_text(encoding="utf-8")
            if where == PAPER
            else read_regular_text(Path(where))
        )
        held = SuitePublished.model_validate(tomllib.loads(text))
        for table in held.tables:
            _check(table)
    except OSError as problem:
        raise UserInputError(f"--against {where}: {problem.strerror}") from problem
    except ValidationError as problem:
        raise UserInputError(f"--against {where}: {first_error(problem)}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as problem:
        raise UserInputError(f"--against {where}: {problem_text(problem)}") from problem
    return held


def _check(table: PublishedTable) -> None:
    for row, cells in table.rows.items():
        if len(cells) != len(table.columns):
            raise ValueError(f"table {table.table}, {row}: {len(cells)} values, {len(table.columns)} columns")
        for cell in cells:
            if cell and not _CELL.fullmatch(cell):
                raise ValueError(f"table {table.table}, {row}: {cell!r} is not a number")


def hold_suite_against(
    published: SuitePublished, tables: Iterable[Table], titles: Mapping[str, str]
) -> SuiteAgainst:
    """Return printed values next to those of a suite's tables.

    Parameters
    ----------
    tables
        The suite's; printed ones that give others are not compared.
    titles
        Titles of the dimensions by name, as rows and columns of our tables have them.
    """
    by_name = {table.name: table for table in tables}
    rows: list[dict[str, Any]] = []
    absent: dict[str, None] = {}
    for printed in published.tables:
        ours = by_name.get(printed.gives)
        if ours is not None:
            for row in _compared(printed, ours, titles, absent):
                rows.append({"table": printed.table, "section": printed.section, **row})
    columns = (
        Column("table", "table"),
        Column("section", "section", shown=False),
        Column("row", "row"),
        Column("column", "column"),
        Column("ours", "here", "number"),
        Column("text", "published"),
        Column("difference", "difference", "number"),
    )
    note = (
        "Value here minus the published one, in the printed unit; for a range, the distance from it. "
        "A printed value has no interval, so there is no verdict. Models are found by their name without "
        "spaces and punctuation."
    )
    return SuiteAgainst(
        Table("against", f"Against {published.title}", columns, tuple(rows), note), tuple(absent)
    )


def _compared(
    printed: PublishedTable, ours: Table, titles: Mapping[str, str], absent: dict[str, None]
) -> Iterator[dict[str, Any]]:
    kinds = {column.key: column.kind for column in ours.columns}
    for name, cells in printed.rows.items():
        some = _rows(ours, name, titles)
        if not some:
            absent[f"table {printed.table}, {name}: not here: not compared"] = None
        for column, cell in zip(printed.columns, cells, strict=True):
            if cell and some and column not in kinds:
                absent[f"table {printed.table}, {column}: not here: not compared"] = None
                continue
            for label, row in some if cell else ():
                value = row.get(column)
                if not isinstance(value, int | float) or math.isnan(value):
                    absent[f"table {printed.table}, {label}, {column}: no value here: not compared"] = None
                    continue
                number = 100 * value if kinds[column] == "percent" else float(value)
                low, high = _ends(cell)
                yield {
                    "row": label,
                    "column": titles.get(column, column),
                    "ours": number,
                    "text": cell,
                    "difference": min(0.0, number - low) or max(0.0, number - high),
                }


def _ends(cell: str) -> tuple[float, float]:
    match = _CELL.fullmatch(cell)
    assert match is not None
    low = float(match["value"].replace("−", "-"))
    return low, low if match["end"] is None else float(match["end"].replace("−", "-"))


def _rows(ours: Table, name: str, titles: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return our rows that a printed row's name stands for, each with what it is called here."""
    if ours.name == "alignment" and name == MEAN_ABSOLUTE:
        value = mean_absolute_difference(ours.rows)
        return [] if value is None else [(MEAN_ABSOLUTE, {"difference": value})]
    found = []
    for row in ours.rows:
        label = _label(ours.name, row)
        wanted = " | ".join(titles.get(part, part) for part in name.split(" | "))
        if name == EVERY or _plain(label) == _plain(wanted):
            found.append((label, row))
    return found


def _label(table: str, row: Mapping[str, Any]) -> str:
    """Return what a printed row is named by."""
    if table.startswith("correlations"):
        return f"{row['first']} | {row['second']}"
    if table == "categories":
        return f"{row['category']} | {row['model']}"
    if table == "ablations-kinds":
        return f"{row['kind']} | {row['variant'] or 'suite'}"
    if table == "ablations-alpha" and row.get("title") == "people":
        return "people"
    if table.startswith("ablations"):
        return str(row["variant"] or "suite")
    if table == "alignment":
        return str(row["dimension"]) + (f" | {row['metric']}" if row.get("metric") else "")
    return str(row["model"])


def _plain(name: str) -> str:
    return re.sub(r"[\s_.\-]+", "", name).casefold()


def mean_absolute_difference(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the mean of the dimensions' absolute mean differences (Video-Bench, section 6.2)."""
    held = [abs(row["difference"]) for row in rows if row.get("difference") is not None]
    return math.fsum(held) / len(held) if held else None
