"""Scores of suites: append-only files of the store, and users' tables."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.judgements import TRANSIENT_FAILURES
from storage_schemas.row_store import RowStore, read_part, write_part
from storage_schemas.store import Store
from storage_schemas.suite_score import SUITE_SCORES, SuiteScore
from storage_schemas.value_problems import first_error
from tasks.scoring.user_files import read_rows


class ScoresStore(RowStore):
    """The scores of one store; nothing is written before the first score."""

    schema = SUITE_SCORES
    ids = ("key", "model", "prompt_id", "sample")
    answer = "score"
    order = ("suite", "dimension", "settings", "model", "prompt_id", "sample", "repeat", "key")
    transient = TRANSIENT_FAILURES

    def __init__(self, store: Store) -> None:
        super().__init__(store.root / "suites")

    def table(self, suite: str = "") -> pa.Table:
        """Return one row per score as an Arrow table, ordered by dimension, settings, model, prompt and
        sample.

        Parameters
        ----------
        suite
            Only this suite; empty for all.

        Raises
        ------
        IntegrityError
            If a file is damaged.
        """
        table = self.all_rows()
        if suite:
            table = table.filter(pc.equal(table["suite"], suite))
        return self.settled(table)

    def suites(self) -> list[str]:
        """Return the names of the suites that have scores."""
        return sorted(set(self.table()["suite"].to_pylist()))

    def rows(self, suite: str = "") -> list[SuiteScore]:
        """Return the same as models."""
        try:
            return [SuiteScore.model_validate(row) for row in self.table(suite).to_pylist()]
        except ValidationError as problem:
            raise IntegrityError(f"a score in {self.path} does not fit: {first_error(problem)}") from problem

    def export(self, path: Path, suite: str) -> int:
        """Write the scores of a suite and its variants as one file; return their number.

        Parameters
        ----------
        path
            Its suffix, .parquet, .csv or .jsonl, selects the format.

        Raises
        ------
        StoreError
            If there are none.
        UserInputError
            For another suffix.
        """
        table = self.table()
        names = table["suite"]
        table = table.filter(pc.or_(pc.equal(names, suite), pc.starts_with(names, f"{suite}+")))
        if not table.num_rows:
            raise StoreError(f"there are no scores in {self.path}: `slvmeval suite run NAME` makes them")
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


def _csv(table: pa.Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        # a spreadsheet would run a server's text as a formula if it starts like one
        message = row["message"]
        row["message"] = f"'{message}" if message.startswith(("=", "+", "-", "@", "\t", "\r")) else message
        writer.writerow("" if value is None else value for value in row.values())
    return out.getvalue()


#: Required columns; the score may be empty.
NEEDED = ("model", "prompt_id", "dimension", "score")
_TEXTS = ("model", "prompt_id", "dimension")
#: Values of columns that a user's table does not have.
_UNKNOWN = {"key": "", "suite": "", "settings": "", "video": ""}


def read_scores(path: Path, suite: str = "") -> list[SuiteScore]:
    """Read scores from Parquet, CSV or JSON Lines, by the file's suffix; other columns are ignored.

    Parameters
    ----------
    suite
        Only this suite; a row without a suite belongs to it.

    Raises
    ------
    UserInputError
        If the file cannot be read, lacks a column, has an invalid row, or has the same video and dimension
        twice.
    IntegrityError
        If a Parquet file is damaged.
    """
    by_id: dict[tuple[Any, ...], SuiteScore] = {}
    for where, row in _rows(path):
        one = _score(f"{path}, {where}", row)
        if suite and one.suite not in ("", suite):
            continue
        video = (one.model, one.prompt_id, one.sample, one.repeat)
        id_ = (one.suite, one.settings, one.dimension, *video, one.key, one.at)
        if id_ in by_id:
            raise UserInputError(
                f"{path}, {where}: {one.model}/{one.prompt_id}#{one.sample} has a score in {one.dimension} "
                "already: number further videos in sample, further scores of one video in repeat"
            )
        by_id[id_] = one
    if not by_id:
        raise UserInputError(f"{path} has no scores{f' of {suite}' if suite else ''}")
    return list(by_id.values())


def _rows(path: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if path.suffix.lower() != ".parquet":
        return read_rows(path, NEEDED)
    try:
        rows = read_part(path).to_pylist()
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror}") from problem
    return [(f"row {number}", row) for number, row in enumerate(rows, 1)]


def _score(where: str, row: Mapping[str, Any]) -> SuiteScore:
    missing = [name for name in NEEDED if name not in row]
    missing += [name for name in _TEXTS if row.get(name) in ("", None)]
    if missing:
        raise UserInputError(f"{where} has no {', '.join(dict.fromkeys(missing))}")
    given = {
        name: value
        for name, value in row.items()
        if name in SuiteScore.model_fields and value not in ("", None)
    }
    texts = {name: str(given[name]) for name in _TEXTS}
    try:
        one = SuiteScore.model_validate({**_UNKNOWN, **given, **texts})
    except ValidationError as problem:
        raise UserInputError(f"{where}: {first_error(problem)}") from problem
    if one.score is not None and not math.isfinite(one.score):
        raise UserInputError(f"{where}: a score of {one.score} is not a number")
    return one
