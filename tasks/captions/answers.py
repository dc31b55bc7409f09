"""Accepted answers of a source that is being analysed: each is on the disk before the next is waited for."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from storage_schemas.answers import ANSWERS, Answer
from storage_schemas.own_lines import OwnLines
from storage_schemas.parquet import write_rows


class AnswerJournal:
    """The answers in a folder, which is made when there is one to keep.

    Parameters
    ----------
    folder
        A folder of this one analysis.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = OwnLines(folder, Answer, "that caption is asked about again")

    def __enter__(self) -> AnswerJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def read(self) -> dict[str, Answer]:
        """Return all answers that are there, whoever wrote them, by the checksum of their caption."""
        found: dict[str, Answer] = {}
        for answer in self._lines.rows():
            found.setdefault(answer.caption, answer)
        return found

    def append(self, answer: Answer) -> None:
        """Keep an answer; it is on the disk when this returns.

        Raises
        ------
        SetAside
            If the disk is full or cannot be written.
        """
        self._lines.append(answer)

    def remove(self) -> None:
        """Remove all answers: they are in an artifact now."""
        # a network file system keeps a folder in which a file is open
        self._lines.close()
        if self._lines.folder.is_dir():
            # another process that made the same artifact may remove them at the same moment
            shutil.rmtree(self._lines.folder, ignore_errors=True)


def write_answers(path: Path, source_id: str, answers: Iterable[tuple[int, Answer]]) -> None:
    """Write the answers about a source's clips, one row a clip that was asked about."""
    rows = [
        {"source_id": source_id, "clip": clip, **answer.model_dump(exclude={"caption", "analysis"})}
        for clip, answer in answers
    ]
    write_rows(path, ANSWERS, rows)
