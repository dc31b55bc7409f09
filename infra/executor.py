"""Executors run stages: in this process, in processes of this machine, or through Prefect and Dask."""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from storage_schemas.errors import PrerequisiteError, SlvmevalError
from storage_schemas.secrets import strike_out_of_logs

#: Restricts libraries to one thread, because there is one process per core.
SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "BLOSC_NTHREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
}

Handle = Any

#: Minimum address space of a build process, in bytes: 3.9 GB were measured.
MIN_ADDRESS_SPACE = 5_000_000_000

#: Items in flight per worker: enough to keep it busy, few enough to limit the scheduler's load.
WINDOW = 3


@dataclass(frozen=True)
class WorkerLimits:
    """Limits of a pool: its number of workers, and the seconds that an item may take."""

    workers: int
    longest_s: float = math.inf


class WorkerDied(SlvmevalError):
    """The process that ran an item died (out of memory, killed); the item may be retried."""


class Executor(ABC):
    """Runs plain functions elsewhere and returns their results as they complete."""

    #: Number of items that run at once.
    workers: int
    #: Number of retries alongside other items after a worker died, before the item is retried alone.
    deaths_before_alone = 0

    @property
    def cores(self) -> int:
        """Number of cores that the items on one machine share."""
        return self.workers

    def room(self, pool: str, wanted: int) -> int:
        """Return the number of items that may be in flight in a pool; `wanted` are in flight or waiting."""
        return WINDOW * self.workers

    def limits(self, pool: str) -> WorkerLimits:
        """Return the limits of a pool, which determine the size of items."""
        return WorkerLimits(self.workers)

    def state(self) -> dict[str, dict[str, Any]]:
        """Return the number of jobs and workers by pool; empty without pools."""
        return {}

    @abstractmethod
    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start ``function(*arguments)`` in a worker pool; `name` is for display."""

    @abstractmethod
    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        """Block until at least one is done or the timeout expires; return all that are done."""

    @abstractmethod
    def result(self, handle: Handle) -> Any:
        """Return the function's result.

        Raises
        ------
        WorkerDied
            If its process died.
        """

    def __enter__(self) -> Executor:
        """Start the workers."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what was started."""
        self.close()

    def close(self) -> None:
        """Stop what was started."""
        return None


class InlineExecutor(Executor):
    """Runs everything immediately in this process, for tests and debugging."""

    workers = 1

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Run the function now."""
        done: Future[Any] = Future()
        done.set_result(function(*arguments))
        return done

    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        """Return all handles, since everything is done."""
        return set(handles)

    def result(self, handle: Handle) -> Any:
        """Return the function's result."""
        return handle.result()


class ProcessExecutor(Executor):
    """Runs items in separate processes of this machine."""

    def __init__(self, workers: int) -> None:
        require_worker_processes()
        self.workers = workers
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.workers, mp_context=multiprocessing.get_context("spawn"), initializer=prepare_worker
        )

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start the function in a process of the pool."""
        try:
            return self._pool.submit(function, *arguments)
        except BrokenProcessPool:
            self._pool.shutdown(wait=False)
            self._pool = self._start()
            return self._pool.submit(function, *arguments)

    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        """Block until at least one is done or the timeout expires."""
        return wait(list(handles), timeout_s, return_when=FIRST_COMPLETED).done

    def result(self, handle: Handle) -> Any:
        """Return the function's result."""
        try:
            return handle.result()
        except BrokenProcessPool as problem:
            raise WorkerDied("a worker process died") from problem

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes, after an error immediately: work restarts from its last commit."""
        if kind is not None:
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self.close()

    def close(self) -> None:
        """End the processes; running items finish, waiting ones are dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def require_worker_processes() -> None:
    """Check that worker processes of this machine can share semaphores and load the libraries.

    Raises
    ------
    PrerequisiteError
        If ``/dev/shm`` is missing, read-only or full, or ``ulimit -v`` allows a process too little.
    """
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY and address_space < MIN_ADDRESS_SPACE:
        raise PrerequisiteError(
            f"the libraries cannot be loaded: `ulimit -v` allows {address_space / 1e9:.1f} GB of "
            f"address space, and at least {MIN_ADDRESS_SPACE / 1e9:.0f} GB are needed, although "
            "less memory is used: run `ulimit -v unlimited`, or have the administrator raise the "
            "limit"
        )
    try:
        multiprocessing.get_context("spawn").Lock()
    except (ImportError, OSError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise PrerequisiteError(
            f"worker processes cannot start, because they share semaphores in /dev/shm ({reason}): mount a "
            "writable tmpfs there; containers have options for that, such as `docker run --shm-size=1g`"
        ) from problem


def prepare_worker() -> None:
    """Make a worker process use one core."""
    os.environ.update(SINGLE_THREADED)
    strike_out_of_logs()
    # an interrupt ends a worker silently: results are either complete or absent
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """End this process when its parent ends, even by ``kill -9``; otherwise it would wait forever."""
    parent.join()
    os._exit(1)
