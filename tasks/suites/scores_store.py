"""Where scores of suites are kept: append-only files in ``suites/`` of the store, one writer a file.

::

    suites/running/<host>.<pid>.<task>.<n>.jsonl   what a process is scoring now, a line a score
    suites/parts/<time>-<n>.parquet                finished batches
    suites/answers/                                answers of models, a line each, kept at once

A score is on the disk before the next one is begun. A row is known by its key and its video; of several the
latest score counts.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.parts import one_each, write_part
from storage_schemas.row_store import RowStore
from storage_schemas.store import Store
from storage_schemas.suite_score import SUITE_SCORES, SuiteScore

#: Key of a score, and model, prompt and sample of the video that it is for.
ScoreId = tuple[str, str, str, int]
_ID = ("key", "model", "prompt_id", "sample")
_ORDER = ("suite", "dimension", "settings", "model", "prompt_id", "sample", "repeat", "key")


def id_of(row: SuiteScore) -> ScoreId:
    """Return what a row is known by."""
    return row.key, row.model, row.prompt_id, row.sample


class ScoresStore(RowStore):
    """The scores of one store; nothing is written into it before the first score."""

    schema = SUITE_SCORES

    def __init__(self, store: Store) -> None:
        super().__init__(store.root / "suites")

    @staticmethod
    def settled(table: pa.Table) -> pa.Table:
        """Return one row for each key and video, by dimension, settings, model, prompt and sample."""
        return one_each(table, _ID, "score", _ORDER)

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
            raise IntegrityError(f"a score in {self.path} does not fit: {problem}") from problem

    def known(self, suite: str = "") -> dict[ScoreId, str]:
        """Return of every row why there is no score, empty where there is one."""
        columns = self.table(suite).select([*_ID, "failure"]).to_pydict()
        rows = zip(*columns.values(), strict=True)
        return {(key, model, prompt, sample): failure or "" for key, model, prompt, sample, failure in rows}

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
