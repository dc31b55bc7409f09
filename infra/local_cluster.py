"""The Dask cluster of one machine: a process a worker, one thread each."""

from __future__ import annotations

from typing import Any

import dask.config
from distributed import LocalCluster

from infra.executor import SINGLE_THREADED


def local_cluster(workers: int, **options: Any) -> LocalCluster:
    """Return a local Dask cluster.

    Parameters
    ----------
    workers
        Number of worker processes.
    options
        Passed on to :class:`distributed.LocalCluster`.
    """
    # Dask has its workers give memory back to the system at every turn, which triples the time of work on
    # arrays as small as a frame.
    before_start = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    before_start.pop("MALLOC_TRIM_THRESHOLD_", None)
    settings = {
        "distributed.nanny.pre-spawn-environ": before_start,
        "distributed.worker.profile.enabled": False,  # a hundred looks a second at every stack
        "distributed.scheduler.allowed-failures": 0,  # the driver tries again, and counts
    }
    with dask.config.set(settings):
        return LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            env=SINGLE_THREADED,
            memory_limit=0,  # frames are bounded by design; Dask's own limit would count the page cache
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=30,
            **options,
        )
