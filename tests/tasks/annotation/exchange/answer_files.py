"""Files of answers as other platforms write them, and the result of importing them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storage_schemas.votes import Vote
from tasks.annotation.desk.desk import Desk
from tasks.annotation.exchange.answers import ImportResult, import_answers
from tasks.annotation.exchange.mapping import AnswerMapping
from tasks.annotation.exchange.task_table import Slots
from tests.tasks.annotation.example_desk import KEY

OURS = ("task", "worker", "preferred", "rating")


def slot(pair: int = 0, number: int = 1) -> str:
    return Slots(KEY, "autumn").slot(f"color-{pair:03}", number).id


def first(pair: int = 0, number: int = 1) -> str:
    return Slots(KEY, "autumn").slot(f"color-{pair:03}", number).first


def table(path: Path, rows: Sequence[Sequence[object]], columns: Sequence[str] = OURS, **form: Any) -> Path:
    encoding = form.pop("encoding", "utf-8")
    with path.open("w", encoding=encoding, newline="") as file:
        lines = csv.writer(file, **form)
        lines.writerow(columns)
        lines.writerows(rows)
    return path


def mapping(**values: Any) -> AnswerMapping:
    return AnswerMapping.model_validate(values)


def taken(desk: Desk, *files: Path, like: AnswerMapping | None = None, dry: bool = False) -> ImportResult:
    return import_answers(desk, KEY, "autumn", files, like or AnswerMapping(), dry)


def votes(desk: Desk) -> list[Vote]:
    return [vote for _, vote in desk.votes.read("autumn")]


def why(result: ImportResult) -> list[tuple[int, str]]:
    return [(row.line, row.reason.value) for row in result.left_out]
