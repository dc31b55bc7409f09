"""Checksums of large files, cached across processes while the files do not change.

The user's cache contains one file for each folder of weights, images or videos, with a line for each file
that was read; deleting it only costs time.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from storage_schemas.commit import write_atomic
from storage_schemas.errors import SetAside
from storage_schemas.ids import digest_file, digest_text
from storage_schemas.regular_files import open_regular
from storage_schemas.user import cache_folder

log = logging.getLogger(__name__)

#: A file that changed less than this before it was read may change again within the clock's resolution.
_SETTLED_NS = 2_000_000_000
#: Maximum number of outdated lines before they are removed.
_MAX_OLD = 1000
#: Files read by this process: path and state → SHA-256.
_read_here: dict[tuple[Any, ...], str] = {}


def verified_folder() -> Path | None:
    """Return the folder ``verified`` of the user's cache, or None if there is no cache."""
    cache = cache_folder()
    return None if cache is None else cache / "verified"


def remembered_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files in a folder, by name, reading only new and changed files.

    A file counts as unchanged while its size, inode, mtime and ctime are the same. Without a writable cache
    folder, every file is read each time.

    Parameters
    ----------
    folder
        The folder.
    names
        Paths within it.

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    folder = folder.resolve()
    cache = verified_folder()
    memory = None if cache is None else _memory(cache / f"{digest_text(str(folder))[:32]}.jsonl")
    remembered = {} if memory is None else memory.read_on()
    digests: dict[str, str] = {}
    news: list[list[Any]] = []
    for name in names:
        state = _state(folder / name)
        entry = remembered.get(name) or []
        in_process = _read_here.get((folder / name, *state))
        if entry[:-1] == state or in_process is not None:
            digests[name] = in_process or str(entry[-1])
            continue
        began = time.time_ns()
        digests[name] = digest_file(folder / name)
        if _state(folder / name) == state:
            _read_here[folder / name, *state] = digests[name]
            if began - max(state[2:]) > _SETTLED_NS:
                news.append([name, *state, digests[name]])
    if news and memory is not None:
        memory.add(folder, news)
    return digests


def _state(path: Path) -> list[int]:
    state = path.stat()
    return [state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns]


class _Memory:
    """The lines about one folder; the first names the folder, each other a file, its state and its SHA-256.

    Lines are only appended, by any number of processes, and each is read once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._known: dict[str, list[Any]] = {}
        self._inode, self._end, self._lines = 0, 0, 0

    def read_on(self) -> dict[str, list[Any]]:
        """Return the cached lines: by name, a file's state and SHA-256."""
        with self._lock:
            try:
                self._read_on()
            except FileNotFoundError:
                self._forget()
            except OSError as problem:
                log.info("cannot read cached checksums in %s: %s", self._path, problem)
            return self._known

    def _read_on(self) -> None:
        state = self._path.stat()
        if state.st_ino != self._inode or state.st_size < self._end:
            self._forget()
            self._inode = state.st_ino
        if state.st_size == self._end:
            return
        with open_regular(self._path) as file:
            file.seek(self._end)
            # a line that another process is writing is not terminated yet
            lines = file.read().rpartition(b"\n")[0]
        self._end += len(lines) + 1 if lines else 0
        for line in lines.split(b"\n"):
            self._lines += 1
            # ignore a torn line, or one that is not ours
            with suppress(ValueError, TypeError):
                name, *row = json.loads(line)
                if isinstance(name, str) and len(row) == 5:
                    self._known[name] = row
        if self._lines > 2 * len(self._known) + _MAX_OLD:
            self._rewrite()

    def _rewrite(self) -> None:
        """Remove lines of earlier states; lines that others append meanwhile are lost, costing them time."""
        lines = [json.dumps([name, *row]) for name, row in self._known.items()]
        with suppress(SetAside):
            write_atomic(self._path, "".join(f"{line}\n" for line in lines).encode())

    def add(self, folder: Path, rows: Sequence[Sequence[Any]]) -> None:
        """Append rows: name, state and SHA-256 of a file."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                first = [] if file.tell() else [[str(folder)]]
                file.write("".join(f"{json.dumps(row)}\n" for row in [*first, *rows]).encode())
        except OSError as problem:
            log.info("checksums of %s are not cached: %s", folder, problem)


#: The lines that this process has read, by path.
_memories: dict[Path, _Memory] = {}


def _memory(path: Path) -> _Memory:
    return _memories.setdefault(path, _Memory(path))
