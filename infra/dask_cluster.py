"""Dask's settings in all our clusters, and the cluster of one machine, with one thread per worker process."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import dask.config

# importing it sets Dask's defaults
import distributed  # noqa: F401
from distributed import LocalCluster, Nanny, Scheduler, Worker

from infra import scratch
from infra.executor import SINGLE_THREADED, require_worker_processes
from infra.handshakes import bound_handshakes
from infra.pool import resource_of
from infra.scratch import ScratchFolder
from infra.tls import new_credentials

# before any server starts, also in the worker processes, which preload this module
bound_handshakes()

#: The only address at which Dask's pages are served.
LOOPBACK = "127.0.0.1"


def dask_settings(folder: Path, pages: bool = False) -> dict[str, Any]:
    """Return settings for ``dask.config.set`` around the start of a scheduler or a worker.

    Parameters
    ----------
    folder
        Private folder for Dask's files.
    pages
        Serve the scheduler's pages. Dask opens the port in any case; see :func:`close_pages`.
    """
    # By default Dask makes workers return memory to the system constantly, which triples the time of work
    # on arrays as small as a frame.
    before_start = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    before_start.pop("MALLOC_TRIM_THRESHOLD_", None)
    return {
        "temporary-directory": str(folder),
        "distributed.scheduler.preload": [scratch.__name__],
        "distributed.nanny.preload": [scratch.__name__],
        "distributed.nanny.pre-spawn-environ": before_start,
        "distributed.worker.profile.enabled": False,  # it would sample every stack a hundred times per second
        "distributed.scheduler.allowed-failures": 0,  # the driver retries, and counts attempts
        "distributed.worker.http.routes": [],
        **({} if pages else {"distributed.scheduler.http.routes": []}),
    }


def close_pages(scheduler: Scheduler) -> None:
    """Close the port of a scheduler's pages, on which any user of this machine could exhaust open files."""
    scheduler.http_server.stop()


def dask_setup(worker: Worker) -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the driver; Dask calls this in a worker."""
    scratch.dask_setup(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class LoadingNanny(Nanny):
    """Supervises a worker process; the first of a cluster gets the resource for loaded models."""

    def __init__(self, scheduler: str, *, name: int, **options: Any) -> None:
        resources = {resource_of("gpu"): 1} if name == 0 else None
        super().__init__(scheduler, name=name, resources=resources, **options)


class ScratchCluster(LocalCluster):
    """A local cluster with a private folder for the temporary files of all its processes."""

    def __init__(self, dashboard_port: int | None, **options: Any) -> None:
        require_worker_processes()
        self._scratch = ScratchFolder()
        folder = self._scratch.path
        try:
            with dask.config.set(dask_settings(folder, pages=dashboard_port is not None)):
                super().__init__(  # type: ignore[no-untyped-call]
                    local_directory=str(folder),
                    env={**SINGLE_THREADED, "TMPDIR": str(folder)},
                    **options,
                )
        except BaseException:
            self._scratch.remove()
            raise
        if dashboard_port is None:
            close_pages(cast(Scheduler, self.scheduler))

    async def _close(self) -> None:
        await super()._close()  # type: ignore[no-untyped-call]
        self._scratch.remove()


def local_cluster(
    workers: int,
    one_loads: bool = False,
    dashboard_port: int | None = None,
    preload: Sequence[str] = (),
    **options: Any,
) -> LocalCluster:
    """Return a local Dask cluster, to which only this process can connect.

    Parameters
    ----------
    workers
        Number of worker processes.
    one_loads
        Give one of them the resource for loaded models.
    dashboard_port
        Port of Dask's pages on loopback; None for no pages.
    preload
        Modules that a worker imports before it gets work.
    options
        Passed on to :class:`distributed.LocalCluster`.

    Raises
    ------
    PrerequisiteError
        If the system's temporary folder is not safe from other users.
    """
    return ScratchCluster(
        dashboard_port,
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,  # memory is bounded by design, and Dask's limit would include the page cache
        dashboard_address=f"{LOOPBACK}:{dashboard_port or 0}",
        scheduler_kwargs={"dashboard": dashboard_port is not None},
        host=LOOPBACK,
        security=new_credentials().security(),
        silence_logs=30,
        worker_class=LoadingNanny if one_loads else None,
        preload=[__name__, *preload],
        **options,
    )
