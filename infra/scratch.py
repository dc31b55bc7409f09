"""A private folder for the temporary files of a run, never searched by Python for modules.

Dask puts its own folders at the head of ``sys.path`` of every process, and opens lock files in them. By
default they are in ``/tmp/dask-scratch-space``, which belongs to the user who creates it first: that user's
``av.py`` there would run in our processes, and a link named ``global.lock`` would empty a file of ours.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from infra.exit_guard import ExitGuard
from infra.safe_folders import unsafe_folder
from storage_schemas.errors import PrerequisiteError

if TYPE_CHECKING:
    from distributed.core import Server

#: Part of the name of every folder that Dask creates.
_DASKS = "dask-scratch-space"

#: Repeats, because worker processes may write until they notice that their driver is gone.
_REMOVE = """
import os, shutil, sys, time
for _ in range(30):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.lexists(sys.argv[1]):
        break
    time.sleep(1)
"""


class ScratchFolder:
    """A new folder that only this user can open; removed at the latest when this process has ended.

    Raises
    ------
    PrerequisiteError
        If other users could replace files in the system's temporary folder.
    """

    def __init__(self) -> None:
        try:
            parent = Path(tempfile.gettempdir())
        except FileNotFoundError as missing:
            raise PrerequisiteError(
                "there is no writable folder for temporary files: set TMPDIR to one with free space"
            ) from missing
        problem = unsafe_folder(str(parent))
        if problem:
            raise PrerequisiteError(
                f"temporary files cannot be kept in {parent}: {problem}. Set TMPDIR to your own folder"
            )
        self.path = Path(tempfile.mkdtemp(prefix="slvmeval-", dir=parent.resolve()))
        self._guard: ExitGuard | None = ExitGuard(_REMOVE, str(self.path))

    def __enter__(self) -> ScratchFolder:
        """Return this folder."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        self.remove()

    def remove(self) -> None:
        """Remove the folder and its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._guard is not None and not self.path.exists():
            self._guard.dismiss()
            self._guard = None


def why_not_private(folder: str) -> str | None:
    """Return why a job must not put its temporary files into a folder, or None.

    Parameters
    ----------
    folder
        The folder that the job's script has created; empty if it could not.
    """
    try:
        status = os.lstat(folder)
    except OSError as problem:
        return f"the job's folder for temporary files {folder!r} does not exist ({problem.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is a link or a file, not a folder"
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        return f"{folder} is open to other users"
    return unsafe_folder(str(Path(folder).parent))


def dask_setup(server: Server) -> None:
    """Take Dask's folders off Python's path; Dask calls this in schedulers and nannies when they start."""
    sys.path[:] = [path for path in sys.path if path != server.local_directory and _DASKS not in path]
