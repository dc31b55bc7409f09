"""Which cluster a flow's tasks run on: jobs in the site's pools, or processes of this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from distributed.deploy.cluster import Cluster

from flows.board import Board
from flows.dashboard import link_dask
from infra.local_cluster import local_cluster
from infra.profile import Profile

#: What a worker imports while the cluster starts.
PRELOAD = ["flows.on_worker"]


def site_cluster(
    board: Board, site: Profile, store: str, name: str, run: str, one_loads: bool = False
) -> Callable[[], Cluster]:
    """Return what starts the workers of a run, and links their pages.

    Parameters
    ----------
    name, run
        What its jobs are named after, and the run's id; several runs may go on at once.
    one_loads
        On this machine, let one process load models for all; the executor is told so too.
    """
    if site.pools:
        from infra.slurm.cluster import SlurmCluster

        start: Callable[[], Cluster] = partial(
            SlurmCluster, site, Path(store), f"{name[:50]}-{run[:8]}", PRELOAD
        )
    else:
        start = partial(local_cluster, workers=site.workers, one_loads=one_loads, preload=PRELOAD)
    return partial(_linked, board, start)


def _linked(board: Board, start: Callable[[], Cluster]) -> Cluster:
    """Start a cluster and link its pages."""
    cluster = start()
    link_dask(board, cluster.dashboard_link)
    return cluster
