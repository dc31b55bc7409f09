"""A small JSON file that several processes modify in turn, on one machine or a shared file system."""

from __future__ import annotations

import errno
import fcntl
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storage_schemas.commit import storage_errors

_in_process = threading.Lock()


class SharedState:
    """A JSON object in a file, which one process at a time modifies.

    A process that dies releases its lock (a POSIX lock, which NFS and Lustre support too) and leaves the file
    intact.

    Parameters
    ----------
    path
        The file; the lock is on a second file beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_path = path.with_name(f"{path.name}.lock")

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """Yield the object, and write it back if the block ends without an error.

        Raises
        ------
        SetAside
            If there is no space for it, or its folder cannot be written.
        """
        # a POSIX lock belongs to the process, not the thread
        with _in_process:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock_path.open("a") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX)
                state = self.read()
                yield state
                draft = self.path.with_name(f".{self.path.name}.draft")
                # errors of the block itself do not concern this folder
                with storage_errors(self.path.parent):
                    draft.write_text(json.dumps(state), encoding="utf-8")
                    draft.replace(self.path)

    def read(self) -> dict[str, Any]:
        """Return the object as last written; empty if there is none."""
        try:
            state: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return state

    def remove(self) -> None:
        """Remove the file and its lock."""
        self.path.unlink(missing_ok=True)
        self._lock_path.unlink(missing_ok=True)


@contextmanager
def only_one(path: Path) -> Iterator[bool]:
    """Lock a file while the block runs; yield False if another process holds the lock.

    A process that dies releases it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            yield False
            return
        yield True
