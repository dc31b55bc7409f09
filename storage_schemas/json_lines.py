"""Append-only JSON Lines files with one writer each: one file (`LinesFile`) or a folder (`LinesFolder`).

Each line ends with its checksum (:mod:`storage_schemas.json_checksum`).
The file name identifies the writing process.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from storage_schemas.commit import process_alive, storage_errors, sync_path
from storage_schemas.errors import IntegrityError
from storage_schemas.json_checksum import with_checksum, without_checksum
from storage_schemas.model import Frozen
from storage_schemas.regular_files import open_regular
from storage_schemas.secrets import strike_out_row

_BEGUN = "begun"


class StoredRow(Protocol):
    """A row as a frozen model."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """Return its fields, JSON-serialisable in the mode ``json``."""


class LinesFile:
    """Appends the rows of one process, from any thread; a row is on the disk when :meth:`add` returns.

    Parameters
    ----------
    folder
        Folder of the file.
    task
        Name of the work, without dots; it becomes part of the file name.
    """

    def __init__(self, folder: Path, task: str) -> None:
        self._write_lock, self._sync_lock = threading.Lock(), threading.Lock()
        self._written = self._synced = 0
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self.path = folder / f"{_host()}.{os.getpid()}.{task}.{uuid.uuid4().hex[:12]}.jsonl"
            self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            sync_path(folder)

    def begin(self, key: str) -> None:
        """Record that a request starts, so that a death of the process during it is noticed."""
        self._write({_BEGUN: key})

    def add(self, row: StoredRow) -> None:
        """Add an answer, or a failure."""
        line = self._write(row.model_dump(mode="json"))
        # one flush serves all threads waiting here
        with self._sync_lock, storage_errors(self.path.parent):
            if self._synced < line:
                upto = self._written
                os.fsync(self._handle)
                self._synced = upto

    def _write(self, entry: dict[str, Any]) -> int:
        line = with_checksum(json.dumps(strike_out_row(entry)))
        with self._write_lock, storage_errors(self.path.parent):
            append_line(self._handle, line)
            self._written += 1
            return self._written

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def append_line(handle: int, line: bytes) -> None:
    """Append a line to an open file, completely or not at all."""
    begin = os.lseek(handle, 0, os.SEEK_END)
    rest = memoryview(line + b"\n")
    try:
        while rest:
            rest = rest[os.write(handle, rest) :]
    except OSError:
        # a partial line would corrupt the next one
        os.ftruncate(handle, begin)
        raise


def rows_of_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, ignoring an incomplete last line.

    Raises
    ------
    FileNotFoundError
        If it no longer exists.
    IntegrityError
        If another line is damaged.
    """
    return lines_since(path, 0)[0]


def lines_since(path: Path, begin: int) -> tuple[list[dict[str, Any]], int]:
    """Return the answers in a file of lines from an offset on, and the offset where complete lines end.

    Raises
    ------
    FileNotFoundError, IntegrityError
        As :func:`rows_of_lines`.
    """
    entries, upto = _entries(path, begin)
    return [entry for entry in entries if _BEGUN not in entry], upto


def unanswered(path: Path) -> list[str]:
    """Return, in order, the keys of the requests that were begun in a file but have no row there."""
    entries, _ = _entries(path)
    answered = {entry["key"] for entry in entries if _BEGUN not in entry}
    return [entry[_BEGUN] for entry in entries if _BEGUN in entry and entry[_BEGUN] not in answered]


def _entries(path: Path, begin: int = 0) -> tuple[list[dict[str, Any]], int]:
    with open_regular(path) as file:
        file.seek(begin)
        lines = file.read()
    whole = lines[: lines.rfind(b"\n") + 1]
    entries = []
    for line in whole.split(b"\n")[:-1]:
        text = without_checksum(line)
        if text is None:
            raise IntegrityError(f"{path} is damaged: remove the line {line[:60]!r}")
        entries.append(json.loads(text))
    return entries, begin + len(whole)


def task_of(path: Path) -> str:
    """Return the task's name from a file's name."""
    return path.name.split(".")[2]


def owner_alive(path: Path) -> bool:
    """Return whether the process that writes a file may be alive; always True for other machines."""
    host, pid = path.name.split(".")[:2]
    return host != _host() or process_alive(int(pid))


def _host() -> str:
    return socket.gethostname().replace(".", "_")


log = logging.getLogger(__name__)

LineRow = TypeVar("LineRow", bound=Frozen)


class LinesFolder(Generic[LineRow]):
    """Rows of all files in a folder, and of this process's own file, created with its first row.

    Not thread-safe.

    Parameters
    ----------
    folder
        The folder; created with the first row.
    model
        Model of a row.
    lost
        Text of the warning: what happens to an incomplete line.
    """

    def __init__(self, folder: Path, model: type[LineRow], lost: str) -> None:
        self.folder = folder
        self._model, self._lost = model, lost
        self._handle: int | None = None
        self._read_upto: dict[Path, int] = {}

    def rows(self) -> Iterator[LineRow]:
        """Yield all rows of all processes."""
        self._read_upto.clear()
        yield from self.new_rows()
        for path, upto in self._read_upto.items():
            if _since(path, upto):
                log.warning("%s ends with an incomplete line: %s", path, self._lost)

    def new_rows(self) -> Iterator[LineRow]:
        """Yield the rows that any process has added since the last call.

        An incomplete last line is skipped: it may still be being written.
        """
        for path in sorted(self.folder.glob("*.jsonl")):
            upto = self._read_upto.get(path, 0)
            lines = _since(path, upto)
            whole = lines[: lines.rfind(b"\n") + 1]
            self._read_upto[path] = upto + len(whole)
            for line in whole.split(b"\n")[:-1]:
                try:
                    yield self._model.model_validate_json(without_checksum(line) or b"")
                except ValidationError:
                    log.warning("%s has an incomplete line: %s", path, self._lost)

    def append(self, row: LineRow) -> None:
        """Append a row; it is on the disk when this returns.

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
            append_line(self._handle, with_checksum(json.dumps(strike_out_row(row.model_dump(mode="json")))))
            os.fsync(self._handle)

    def close(self) -> None:
        """Close this process's file; a later row starts another one."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def _since(path: Path, begin: int) -> bytes:
    """Return the content of a file from an offset on; empty if it was removed because its rows were moved."""
    try:
        if path.stat().st_size <= begin:
            return b""
        with open_regular(path) as file:
            file.seek(begin)
            return file.read()
    except FileNotFoundError:
        return b""
