"""A folder of JSON lines to which several processes add, each in a file of its own; nothing is ever changed.

What a kill leaves of a last line is ignored.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.lines_file import append_line
from storage_schemas.model import Frozen

log = logging.getLogger(__name__)

Row = TypeVar("Row", bound=Frozen)


class OwnLines(Generic[Row]):
    """The rows in a folder, and this process's file, which is made with its first row.

    One thread at a time uses it.

    Parameters
    ----------
    folder
        The folder; it is made when there is a row to keep.
    model
        What a line holds.
    lost
        What becomes of a line that is not whole, for a person.
    """

    def __init__(self, folder: Path, model: type[Row], lost: str) -> None:
        self.folder = folder
        self._model, self._lost = model, lost
        self._handle: int | None = None
        self._read_upto: dict[Path, int] = {}

    def rows(self) -> Iterator[Row]:
        """Give all rows, whoever added them."""
        self._read_upto.clear()
        yield from self.new_rows()
        for path, upto in self._read_upto.items():
            if _since(path, upto):
                log.warning("%s ends with a line that is not whole: %s", path, self._lost)

    def new_rows(self) -> Iterator[Row]:
        """Give the rows that were added since the last call, whoever added them.

        A last line without its end is being written, or never was one.
        """
        for path in sorted(self.folder.glob("*.jsonl")):
            upto = self._read_upto.get(path, 0)
            lines = _since(path, upto)
            whole = lines[: lines.rfind(b"\n") + 1]
            self._read_upto[path] = upto + len(whole)
            for line in whole.split(b"\n")[:-1]:
                try:
                    yield self._model.model_validate_json(line)
                except ValidationError:
                    log.warning("%s has a line that is not whole: %s", path, self._lost)

    def append(self, row: Row) -> None:
        """Add a row; it is on the disk when this returns.

        Raises
        ------
        SetAside
            If the disk is full or cannot be written.
        """
        with storage_errors(self.folder):
            if self._handle is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                path = self.folder / f"{uuid.uuid4().hex}.jsonl"
                self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                sync_path(self.folder)
            append_line(self._handle, row.model_dump_json().encode())
            os.fsync(self._handle)

    def close(self) -> None:
        """Close this process's file; a later row begins another one."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def _since(path: Path, begin: int) -> bytes:
    """Return what a file holds from a place on; nothing where it was removed: its rows are elsewhere now."""
    try:
        if path.stat().st_size <= begin:
            return b""
        with path.open("rb") as file:
            file.seek(begin)
            return file.read()
    except FileNotFoundError:
        return b""
