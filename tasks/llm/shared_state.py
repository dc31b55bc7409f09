"""A small JSON file that several processes modify in turn, on one machine or a shared file system."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storage_schemas.commit import storage_errors
from storage_schemas.locks import alone

_in_process = threading.Lock()


class SharedState:
    """A JSON object in a file, modified by one process at a time.

    A process that dies releases its lock and leaves the file intact.

    Parameters
    ----------
    path
        The file; the lock is on a second file next to it.
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
            If there is no space left, or its folder is not writable.
        """
        # threads of a process queue here instead of retrying repeatedly
        with _in_process:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with alone(self._lock_path):
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
