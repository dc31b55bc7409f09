"""Scores from a file: as ``suite scores`` writes it, or any table with a row for each video and dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storage_schemas.errors import UserInputError
from storage_schemas.parts import read_part
from storage_schemas.suite_score import SuiteScore
from tasks.suites.tabular import read_rows

#: What every row has to have; the score may be empty.
NEEDED = ("model", "prompt_id", "dimension", "score")
_TEXTS = ("model", "prompt_id", "dimension")
#: What a table of other origin does not know.
_UNKNOWN = {"key": "", "suite": "", "settings": "", "video": ""}


def read_scores(path: Path, suite: str = "") -> list[SuiteScore]:
    """Read scores from Parquet, CSV or JSON Lines, by the file's ending; other columns are passed over.

    Parameters
    ----------
    suite
        Only of this one; a row that names none belongs to it.

    Raises
    ------
    UserInputError
        If the file cannot be read, lacks a column, has a row that does not fit, or the same video and
        dimension twice with nothing to tell them apart.
    IntegrityError
        If a Parquet file is damaged.
    """
    found: dict[tuple[Any, ...], SuiteScore] = {}
    for where, row in _rows(path):
        one = _score(f"{path}, {where}", row)
        if suite and one.suite not in ("", suite):
            continue
        video = (one.model, one.prompt_id, one.sample, one.repeat)
        id_ = (one.suite, one.settings, one.dimension, *video, one.key, one.at)
        if id_ in found:
            raise UserInputError(
                f"{path}, {where}: {one.model}/{one.prompt_id}#{one.sample} has a score in {one.dimension} "
                "already: number further videos in sample, further scores of one video in repeat"
            )
        found[id_] = one
    if not found:
        raise UserInputError(f"{path} holds no score{f' of {suite}' if suite else ''}")
    return list(found.values())


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
        first = problem.errors()[0]
        raise UserInputError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from problem
    if one.score is not None and not math.isfinite(one.score):
        raise UserInputError(f"{where}: a score of {one.score} is no number")
    return one
