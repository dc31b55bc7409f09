"""Rows of a user's file, CSV or JSON Lines alike, with the place where each stands."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from storage_schemas.errors import UserInputError
from tasks.evaluators.meta_sets.base import read_lines, read_text

_SIGNS = {".csv": ",", ".tsv": "\t"}


def read_rows(path: Path, needed: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a CSV (``.csv``, ``.tsv``) or a JSON Lines file, each with ``line N``.

    Parameters
    ----------
    needed
        Columns that a CSV has to have.

    Raises
    ------
    UserInputError
        If the file cannot be read, lacks a column, or has a line that is no object.
    """
    sign = _SIGNS.get(path.suffix.lower())
    if sign is None:
        for number, row in read_lines(path):
            if not isinstance(row, dict):
                raise UserInputError(f"{path}, line {number}, is no JSON object")
            yield f"line {number}", row
        return
    reader = csv.DictReader(io.StringIO(read_text(path)), delimiter=sign)
    columns = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = columns
    missing = sorted(set(needed) - set(columns))
    if missing:
        raise UserInputError(
            f"{path} has no column {', '.join(missing)}: it has {', '.join(columns) or 'none'}"
        )
    try:
        for row in reader:
            # a line with too few cells has None, one with too many a list under None
            yield f"line {reader.line_num}", {name: value or "" for name, value in row.items() if name}
    except csv.Error as problem:
        raise UserInputError(f"{path}, line {reader.line_num}: {problem}") from problem
