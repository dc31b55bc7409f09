"""Run stages as Prefect tasks on Dask, one task per source and stage or batch of sources.

The Dask cluster consists of SLURM jobs in the site's pools, or of local processes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import distributed
from dask.base import annotate
from distributed.deploy.cluster import Cluster
from prefect import task
from prefect.artifacts import (
    create_link_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed, Crashed, Failed
from prefect_dask.task_runners import DaskTaskRunner

from flows.board import RunBoard
from infra.dask_cluster import local_cluster
from infra.executor import WINDOW, Executor, Handle, WorkerDied, WorkerLimits
from infra.pool import WorkerPools, resource_of
from infra.profile import Profile
from storage_schemas.secrets import struck_out_errors


@task(name="stage", task_run_name="{name}", persist_result=False, cache_policy=NO_CACHE, retries=0)
def run_stage(name: str, call: Callable[[], Any]) -> Any:
    """Run one stage of one source; failures are in the result, not raised."""
    # Prefect shows and logs exceptions raised here
    with struck_out_errors():
        return call()


class PrefectExecutor(Executor):
    """Submits stages to the task runner of the running flow.

    Parameters
    ----------
    workers
        Number of items that run at once on this machine.
    cluster
        Starts the Dask cluster: a local one, or one with pools (:class:`infra.pool.WorkerPools`).
    ended
        Called with the end of each task run, which cannot report it itself if its worker died.
    one_loads
        Without pools, only one process loads models; the cluster must be created accordingly.
    cores
        Number of cores that the items on one machine share; as many as `workers` if not given.
    """

    #: Each Dask worker is a process, but items waiting in one that died fail with it.
    deaths_before_alone = 2

    def __init__(
        self,
        workers: int,
        cluster: Callable[[], Cluster],
        ended: Callable[[UUID, State[Any]], None] = lambda _id, _state: None,
        one_loads: bool = False,
        cores: int | None = None,
    ) -> None:
        self._cores = cores or workers
        self.workers, self._open, self._ended, self._one_loads = workers, cluster, ended, one_loads
        self._pools: WorkerPools | None = None

    def __enter__(self) -> PrefectExecutor:
        """Start the cluster now rather than with the first task."""
        context = FlowRunContext.get()
        if context is None or not isinstance(context.task_runner, DaskTaskRunner):
            raise RuntimeError("a PrefectExecutor needs a running flow with a DaskTaskRunner")
        runner = context.task_runner
        runner.cluster_class = self._start
        connected = runner.client.cluster
        self._pools = connected if isinstance(connected, WorkerPools) else None
        return self

    def _start(self) -> Cluster:
        # a method, because Prefect needs a qualified name, which a partial lacks
        return self._open()

    @property
    def cores(self) -> int:
        """Number of cores that the items on one machine share."""
        return self._cores

    def room(self, pool: str, wanted: int) -> int:
        """Return the number of items that may be in flight in a pool now."""
        if self._pools is not None:
            return self._pools.room(pool, wanted)
        return WINDOW if self._one_loads and pool == "gpu" else super().room(pool, wanted)

    def limits(self, pool: str) -> WorkerLimits:
        """Return the limits of a pool."""
        if self._pools is not None:
            return self._pools.limits(pool)
        return WorkerLimits(1) if self._one_loads and pool == "gpu" else super().limits(pool)

    def state(self) -> dict[str, dict[str, Any]]:
        """Return the number of jobs and workers of each pool."""
        return {} if self._pools is None else self._pools.state()

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start a stage as a Prefect task in a worker pool."""
        with self._in_pool(pool):
            # a partial, so that Prefect does not search the arguments for futures. No tags: for each tag the
            # worker requests a concurrency slot from the server, which takes up to seconds.
            stage = run_stage.with_options(name=name.split(" ", 1)[0])
            return stage.submit(name, partial(function, *arguments))

    def _in_pool(self, pool: str) -> AbstractContextManager[Any]:
        """Restrict submitted items to a pool's workers; the only place that does so.

        A local cluster has one kind of worker. Requesting its resource would tie an item to the worker first
        assigned, however busy: Dask does not move items with resources. So locally only items that load
        models request one, if a single worker loads them.
        """
        pinned = self._pools is not None or (self._one_loads and pool == "gpu")
        return annotate(resources={resource_of(pool): 1}) if pinned else nullcontext()

    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        """Block until at least one is done or the time is up."""
        by_future = {handle.wrapped_future: handle for handle in handles}
        client = next(iter(by_future)).client
        with client.as_current(), suppress(TimeoutError):
            waited = distributed.wait(list(by_future), timeout_s, "FIRST_COMPLETED")  # type: ignore[no-untyped-call]
            return {by_future[future] for future in waited.done}
        return set()

    def result(self, handle: Handle) -> Any:
        """Return what the stage returned."""
        state: State[Any] = Failed(message="It raised an error.")
        try:
            result = handle.result()
            state = Completed(message="Its end is known from its flow run.")
            return result
        except distributed.KilledWorker as problem:
            state = Crashed(message=str(problem))
            raise WorkerDied(f"the worker that ran it died ({problem})") from problem
        finally:
            self._ended(handle.task_run_id, state)
            # release the result: a worker that holds one does not count as idle
            handle.wrapped_future.release()


def link_dask(board: RunBoard, dashboard: str) -> None:
    """Link the Dask cluster's pages in Prefect's UI, given its dashboard's URL ``…/status``."""
    if importlib.util.find_spec("bokeh") is None:
        # without bokeh there are no graphs, only tables of workers and tasks
        dashboard = dashboard.removesuffix("/status") + "/info/main/workers.html"
    board.post(
        "link to Dask",
        partial(
            create_link_artifact,
            link=dashboard,
            link_text="Dask: workers and what they do",
            key="dask",
            description=f"Pages of the Dask cluster while the build runs: {dashboard}",
        ),
    )


#: Imported by workers while the cluster starts.
PRELOAD = ["flows.on_worker"]


def site_cluster(
    board: RunBoard, site: Profile, store: str, name: str, run: str, one_loads: bool = False
) -> Callable[[], Cluster]:
    """Return a function that starts the workers of a run and links their pages.

    Parameters
    ----------
    name, run
        Name for its jobs, and the run's id; several runs may be active at once.
    one_loads
        Locally, only one process loads models; the executor must have the same setting.
    """
    if site.pools:
        from infra.slurm.cluster import SlurmCluster

        start: Callable[[], Cluster] = partial(
            SlurmCluster, site, Path(store), f"{name[:50]}-{run[:8]}", PRELOAD
        )
    else:
        start = partial(
            local_cluster,
            workers=site.workers,
            one_loads=one_loads,
            dashboard_port=site.dashboard_port,
            preload=PRELOAD,
        )
    return start if site.dashboard_port is None else partial(_linked, board, start)


def _linked(board: RunBoard, start: Callable[[], Cluster]) -> Cluster:
    """Start a cluster and link its pages."""
    cluster = start()
    link_dask(board, cluster.dashboard_link)
    return cluster
