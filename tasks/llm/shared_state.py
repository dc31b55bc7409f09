"""A small JSON file that several processes change in turn, on one machine or on a shared file system."""

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
    """A JSON object in a file; whoever changes it has it alone.

    A process that dies lets go of it (POSIX locks, which NFS and Lustre know too) and leaves it whole.

    Parameters
    ----------
    path
        The file; a second one beside it is what is locked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_path = path.with_name(f"{path.name}.lock")

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """Give the object, and write it back when the block ends without an error.

        Raises
        ------
        SetAside
            If there is no space for it, or its folder cannot be written.
        """
        # a POSIX lock is the process's, not the thread's
        with _in_process:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock_path.open("a") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX)
                state = self.read()
                yield state
                draft = self.path.with_name(f".{self.path.name}.draft")
                # what the block itself raises is not about this folder
                with storage_errors(self.path.parent):
                    draft.write_text(json.dumps(state), encoding="utf-8")
                    draft.replace(self.path)

    def read(self) -> dict[str, Any]:
        """Return the object as it was last written; empty where there is none."""
        try:
            found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def remove(self) -> None:
        """Remove it."""
        self.path.unlink(missing_ok=True)
        self._lock_path.unlink(missing_ok=True)


@contextmanager
def only_one(path: Path) -> Iterator[bool]:
    """Hold a file alone while the block runs; give False where another process holds it.

    A process that dies lets go of it.
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
