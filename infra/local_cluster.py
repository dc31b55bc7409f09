"""The Dask cluster of one machine: a process a worker, one thread each."""

from __future__ import annotations

from typing import Any

import dask.config
from distributed import LocalCluster, Nanny

from infra.dask_settings import dask_settings
from infra.executor import SINGLE_THREADED
from infra.pool import LOADED, RESOURCES


class LoadingNanny(Nanny):
    """Keeps a worker process; the first one of a cluster has the resource of models that are loaded."""

    def __init__(self, scheduler: str, *, name: int, **options: Any) -> None:
        resources = {RESOURCES[LOADED]: 1} if name == 0 else None
        super().__init__(scheduler, name=name, resources=resources, **options)


def local_cluster(workers: int, one_loads: bool = False, **options: Any) -> LocalCluster:
    """Return a local Dask cluster.

    Parameters
    ----------
    workers
        Number of worker processes.
    one_loads
        Give one of them the resource of models that are loaded, for work that asks for it.
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
            worker_class=LoadingNanny if one_loads else None,
            **options,
        )
