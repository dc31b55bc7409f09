"""Rows of a user's file, CSV or JSON Lines, with their positions; and rows that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.regular_files import read_regular
from tasks.tables import decoded, is_table, parse_table

#: A row does not have the published format of its set.
MALFORMED = "malformed_row"


@dataclass(frozen=True)
class UnusedLine:
    """A row, or a comparison of it, that cannot be used.

    Parameters
    ----------
    where
        Its id or line.
    reason
        A member of :class:`~storage_schemas.errors.Reason`, or of this module.
    message
        A readable reason.
    """

    where: str
    reason: str
    message: str


def read_text(path: Path) -> str:
    """Return a file's text, without a byte order mark; see :func:`tasks.tables.decoded`.

    Raises
    ------
    UserInputError
        If it cannot be read, or is neither UTF-8 nor UTF-16.
    """
    try:
        return decoded(path, read_regular(path))
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror}") from problem


def read_lines(path: Path) -> list[tuple[int, Any]]:
    """Return the values of a JSON Lines file with their line numbers; empty lines are skipped.

    Raises
    ------
    UserInputError
        If a line is not JSON; the message has its number.
    """
    values = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            try:
                values.append((number, json.loads(line)))
            except (json.JSONDecodeError, RecursionError) as problem:
                at = f" at character {problem.pos + 1}" if isinstance(problem, json.JSONDecodeError) else ""
                raise UserInputError(f"{path}, line {number}, is not JSON{at}") from problem
    return values


def first_there(folder: Path, names: Sequence[str], what: str) -> Path:
    """Return the first existing path of `names` in a folder.

    Raises
    ------
    UserInputError
        If none exists, or `folder` is not a folder.
    """
    if not folder.is_dir():
        raise UserInputError(f"there is no folder {folder}")
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise UserInputError(f"{folder} has no {what}: it has to have one of {', '.join(names)}")


def read_rows(path: Path, needed: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a CSV (``.csv``, ``.tsv``) or JSON Lines file, each with ``line N``.

    Parameters
    ----------
    needed
        Required columns of a CSV.

    Raises
    ------
    UserInputError
        If the file cannot be read, lacks a column, or has a line that is not an object or a row.
    """
    if not is_table(path):
        for number, row in read_lines(path):
            if not isinstance(row, dict):
                raise UserInputError(f"{path}, line {number}, is not a JSON object")
            yield f"line {number}", row
        return
    for row in parse_table(path, read_text(path), needed=needed).rows:
        yield f"line {row.line}", row.cells
