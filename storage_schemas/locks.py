"""Locks on files, between threads, processes and machines that share a file system.

The system releases the lock of a process that dies.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from storage_schemas.errors import PrerequisiteError, StoreError
from storage_schemas.regular_files import read_regular_text

#: How often a waiting process tries again, in seconds.
_LOOK_EVERY_S = 0.02


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until a lock is free, then hold it while the block runs.

    Parameters
    ----------
    path
        The file of the lock; it remains.

    Raises
    ------
    PrerequisiteError
        If the file system has no locks.
    StoreError
        If there is something else at the path.
    """
    lock = FileLock(path, poll_interval=_LOOK_EVERY_S, fallback_to_soft=False)
    _acquire(lock)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def only_one(path: Path) -> Iterator[bool]:
    """Hold a lock while the block runs; yield False, without waiting, if another process holds it.

    Parameters
    ----------
    path
        The file of the lock; it remains, and names its last holder, see :func:`holder`.

    Raises
    ------
    PrerequisiteError
        If the file system has no locks.
    StoreError
        If there is something else at the path.
    """
    lock = FileLock(path, blocking=False, fallback_to_soft=False, on_acquired=_sign)
    try:
        _acquire(lock)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def holder(path: Path) -> str:
    """Describe the holder of a lock of :func:`only_one`: the process and its machine, if known."""
    try:
        signed = read_regular_text(path)
    except OSError:
        signed = ""
    return f"another process ({signed})" if signed else "another process"


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode(), 0)


def _acquire(lock: BaseFileLock) -> None:
    try:
        lock.acquire()
    except OSError as problem:
        if problem.errno in (errno.EISDIR, errno.ELOOP):
            raise StoreError(
                f"{lock.lock_file} is a folder or a link, not the file of a lock: remove it"
            ) from problem
        if problem.errno not in (errno.ENOSYS, errno.ENOTSUP):
            raise
        raise PrerequisiteError(
            f"the file system of {lock.lock_file} has no locks: mount it with them (Lustre: `-o flock`)"
        ) from problem
