"""The Dask cluster of one machine: a process a worker, one thread each."""

from __future__ import annotations

from typing import Any

import dask.config
from distributed import LocalCluster

from infra.dask_settings import dask_settings
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
    with dask.config.set(dask_settings()):
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
