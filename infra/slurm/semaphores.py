"""Semaphores of a nanny and its worker, which nobody removes from the node's memory after a ``kill -9``.

Dask's nanny shares queues with its worker, whose semaphores are named files. Python removes them when the
nanny ends. Once the worker has opened them, nothing needs the names any more.
"""

from __future__ import annotations

import re
from contextlib import suppress
from multiprocessing import resource_tracker, synchronize
from pathlib import Path

_NAME = re.compile(r"/dev/shm(/sem\.mp-\S+)$", re.MULTILINE)


def remove_names() -> None:
    """Remove the names of all semaphores that this worker process has opened; it still can use them."""
    for file in set(_NAME.findall(Path("/proc/self/maps").read_text())):
        with suppress(FileNotFoundError):
            Path(f"/dev/shm{file}").unlink()
            # as Python names it
            resource_tracker.unregister(file.replace("/sem.", "/", 1), "semaphore")


def let_workers_remove_names() -> None:
    """Have this nanny's process remove only those names of semaphores that its worker did not."""
    remove = synchronize.SemLock._cleanup  # type: ignore[attr-defined]

    def remove_if_there(name: str) -> None:
        with suppress(FileNotFoundError):
            remove(name)

    synchronize.SemLock._cleanup = staticmethod(remove_if_there)  # type: ignore[attr-defined]
