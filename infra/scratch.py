"""A private folder for the temporary files of a run, never searched by Python for modules.

Dask puts its own folders at the head of ``sys.path`` of every process, and opens lock files in them. By
default they are in ``/tmp/dask-scratch-space``, which belongs to the user who creates it first: that user's
``av.py`` there would run in our processes, and a link named ``global.lock`` would empty a file of ours.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from infra.exit_guard import ExitGuard
from storage_schemas.errors import PrerequisiteError
from storage_schemas.user import user_name

if TYPE_CHECKING:
    from distributed.core import Server

#: Part of the name of every folder that Dask creates.
_DASKS = "dask-scratch-space"

#: As many as Linux follows.
_MAX_LINKS = 40

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


def unsafe_folder(folder: str) -> str | None:
    """Return how other users could replace what we put into an existing folder, or None if they cannot.

    Every folder and link on its path must belong to this user or the system. A folder may be writable by
    others only if it is like ``/tmp``, where users cannot rename others' files.
    """
    path, parts = "/", [part for part in os.path.abspath(folder).split("/") if part]  # noqa: PTH100
    links = 0
    while True:
        status = os.lstat(path)
        if status.st_uid not in _trusted_owners():
            return f"{path} belongs to {user_name(status.st_uid)}"
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MAX_LINKS:
                return f"{path} is a circular link"
            target = os.readlink(path)  # noqa: PTH115
            parts = [part for part in target.split("/") if part] + parts
            path = "/" if target.startswith("/") else os.path.dirname(path)  # noqa: PTH120
        elif _others_can_rename(status):
            return f"{path} can be written by other users"
        if not parts:
            return None
        part = parts.pop(0)
        path = os.path.dirname(path) if part == ".." else os.path.join(path, part)  # noqa: PTH118, PTH120


def _others_can_rename(status: os.stat_result) -> bool:
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if writable == stat.S_IWGRP and _only_member(status.st_gid):
        return False
    return bool(writable) and not status.st_mode & stat.S_ISVTX


def _only_member(gid: int) -> bool:
    """Return whether a group is a user's private group, which many systems create."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _trusted_owners() -> set[int]:
    trusted = {0, os.getuid()}
    users = Path("/proc/self/uid_map")
    if users.exists() and users.read_text(encoding="utf-8").split() != ["0", "0", "4294967295"]:
        # in a container with few users, the system's files belong to a placeholder user
        trusted.add(int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="utf-8")))
    return trusted
