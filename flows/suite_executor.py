"""Processes of this machine for a suite: several for what is reckoned or asked, one for loaded models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, wait
from types import TracebackType
from typing import Any

from infra.executor import Executor, Handle, ProcessExecutor
from infra.pool import LOADED


class SuiteExecutor(Executor):
    """Runs items of each pool in processes of its own.

    Parameters
    ----------
    workers
        Processes for everything but loaded models.
    pools
        Those that are needed.
    """

    def __init__(self, workers: int, pools: Collection[str]) -> None:
        self.workers = workers
        self._pools = {pool: ProcessExecutor(1 if pool == LOADED else workers) for pool in pools}
        self._pool_of: dict[Handle, ProcessExecutor] = {}

    def room(self, pool: str, wanted: int) -> int:
        """Return how many items may be in flight in a pool now."""
        return self._pools[pool].room(pool, wanted)

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start the function in a process of the pool."""
        handle = self._pools[pool].submit(name, pool, function, *arguments)
        self._pool_of[handle] = self._pools[pool]
        return handle

    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        """Block until at least one is done, or the time is over; return all that are done."""
        return wait(list(handles), timeout_s, return_when=FIRST_COMPLETED).done

    def result(self, handle: Handle) -> Any:
        """Return what the function returned; raise WorkerDied if its process is gone."""
        return self._pool_of.pop(handle).result(handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes; after an error at once."""
        for pool in self._pools.values():
            pool.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools.values():
            pool.close()
