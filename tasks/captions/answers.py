"""Accepted answers of a source that is being analysed: each is on the disk before the next is waited for.

A process appends to a file of its own, so that two of them never write into one. What a kill leaves of a last
line is ignored.
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from pydantic import ValidationError

from storage_schemas.answers import ANSWERS, Answer
from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.parquet import write_rows

log = logging.getLogger(__name__)


class AnswerJournal:
    """The answers in a folder, which is made when there is one to keep.

    Parameters
    ----------
    folder
        A folder of this one analysis.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._file: TextIO | None = None

    def __enter__(self) -> AnswerJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._file = None

    def read(self) -> dict[str, Answer]:
        """Return all answers that are there, whoever wrote them, by the checksum of their caption."""
        found: dict[str, Answer] = {}
        for path in sorted(self._folder.glob("*.jsonl")):
            for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
                if not line:
                    continue
                try:
                    answer = Answer.model_validate_json(line)
                except ValidationError:
                    log.warning("%s: line %d is not whole, that caption is asked about again", path, number)
                    continue
                found.setdefault(answer.caption, answer)
        return found

    def append(self, answer: Answer) -> None:
        """Keep an answer; it is on the disk when this returns.

        Raises
        ------
        SetAside
            If the disk is full or cannot be written.
        """
        with storage_errors(self._folder):
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                path = self._folder / f"{uuid.uuid4().hex}.jsonl"
                self._file = self._open.enter_context(path.open("x", encoding="utf-8"))
                sync_path(self._folder)
            self._file.write(answer.model_dump_json() + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def remove(self) -> None:
        """Remove all answers: they are in an artifact now."""
        # a network file system keeps a folder in which a file is open
        self._open.close()
        self._file = None
        if self._folder.is_dir():
            # another process that made the same artifact may remove them at the same moment
            shutil.rmtree(self._folder, ignore_errors=True)


def write_answers(path: Path, source_id: str, answers: Iterable[tuple[int, Answer]]) -> None:
    """Write the answers about a source's clips, one row a clip that was asked about."""
    rows = [
        {"source_id": source_id, "clip": clip, **answer.model_dump(exclude={"caption", "analysis"})}
        for clip, answer in answers
    ]
    write_rows(path, ANSWERS, rows)
