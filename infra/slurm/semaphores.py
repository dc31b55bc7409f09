"""Semaphores of a job's processes, which remain in the node's memory after a ``kill -9``.

Dask's nanny shares queues with its worker, and the worker has a lock for Blosc; their semaphores are named
files. Python removes them when the process that created them ends. Once they are open, nothing needs the
names.

Incident: each worker killed with ``kill -9`` left its files in the node's ``/dev/shm``.
"""

from __future__ import annotations

import re
from contextlib import suppress
from multiprocessing import resource_tracker, synchronize
from pathlib import Path

from numcodecs import blosc

_NAME = re.compile(r"/dev/shm/sem\.(mp-\S+)$", re.MULTILINE)


def remove_names() -> None:
    """Remove the names of the semaphores that this worker process has opened; it can still use them."""
    let_workers_remove_names()
    names = set(_NAME.findall(Path("/proc/self/maps").read_text()))
    # numcodecs creates it at the first frame; a process's own are mapped under other names. From 0.17 on,
    # which needs Python 3.12, it is a thread lock without a name
    if (mutex := getattr(blosc, "get_mutex", None)) is not None and (
        own := mutex()._semlock.name
    ) is not None:
        names.add(own.removeprefix("/"))
    for name in names:
        with suppress(FileNotFoundError):
            Path(f"/dev/shm/sem.{name}").unlink()
            resource_tracker.unregister(f"/{name}", "semaphore")


def let_workers_remove_names() -> None:
    """Make Python remove, when this process ends, only the names that still exist."""
    remove = synchronize.SemLock._cleanup  # type: ignore[attr-defined]

    def remove_if_there(name: str) -> None:
        with suppress(FileNotFoundError):
            remove(name)

    synchronize.SemLock._cleanup = staticmethod(remove_if_there)  # type: ignore[attr-defined]
