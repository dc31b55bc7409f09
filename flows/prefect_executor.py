"""Stages as Prefect tasks on Dask: one task a source and stage, nothing of the work in here.

Which cluster a flow's tasks run on: jobs in the site's pools, or processes of this machine.
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
from infra.executor import WINDOW, Executor, Handle, WorkerDied
from infra.pool import LOADED, RESOURCES, WorkerPools
from infra.profile import Profile


@task(name="stage", task_run_name="{name}", persist_result=False, cache_policy=NO_CACHE, retries=0)
def run_stage(name: str, call: Callable[[], Any]) -> Any:
    """Run one stage of one source; its result says what was set aside, it does not raise."""
    return call()


class PrefectExecutor(Executor):
    """Submits stages to the task runner of the flow that is running.

    Parameters
    ----------
    workers
        How many items run at once on this machine.
    cluster
        Starts the Dask cluster: one on this machine, or one in pools (:class:`infra.pool.WorkerPools`).
    ended
        Is told how each task run ended: where its worker died, it cannot say so itself.
    one_loads
        Without pools, give what loads models to one process alone; its cluster has to be made so.
    """

    #: A Dask worker has a process of its own, but what waited in the one that died dies with it.
    deaths_before_alone = 2

    def __init__(
        self,
        workers: int,
        cluster: Callable[[], Cluster],
        ended: Callable[[UUID, State[Any]], None] = lambda _id, _state: None,
        one_loads: bool = False,
    ) -> None:
        self.workers, self._open, self._ended, self._one_loads = workers, cluster, ended, one_loads
        self._pools: WorkerPools | None = None

    def __enter__(self) -> PrefectExecutor:
        """Start the cluster, which Prefect would do with the first task."""
        context = FlowRunContext.get()
        if context is None or not isinstance(context.task_runner, DaskTaskRunner):
            raise RuntimeError("a PrefectExecutor is opened in a flow whose task runner is a DaskTaskRunner")
        runner = context.task_runner
        runner.cluster_class = self._start
        connected = runner.client.cluster
        self._pools = connected if isinstance(connected, WorkerPools) else None
        return self

    def _start(self) -> Cluster:
        # Prefect asks for its qualified name, which a partial has not
        return self._open()

    def room(self, pool: str, wanted: int) -> int:
        """Return how many items may be in flight in a pool now."""
        if self._pools is not None:
            return self._pools.room(pool, wanted)
        return WINDOW if self._one_loads and pool == LOADED else super().room(pool, wanted)

    def state(self) -> dict[str, dict[str, Any]]:
        """Return how many jobs and workers each pool has."""
        return {} if self._pools is None else self._pools.state()

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start a stage as a Prefect task in a worker pool."""
        with self._in_pool(pool):
            # a partial: the arguments are frozen models, Prefect need not look for futures in them. No tags:
            # for each tag of a task run the worker asks the server for a place, which takes up to seconds.
            stage = run_stage.with_options(name=name.split(" ", 1)[0])
            return stage.submit(name, partial(function, *arguments))

    def _in_pool(self, pool: str) -> AbstractContextManager[Any]:
        """Pin what is submitted to a pool's workers; the only place where that is said.

        On one machine there is one kind of worker. Naming it would tie an item to the worker that it was
        first given to, however long that one is busy: Dask moves no item that asks for a resource. Only
        where one worker shall load models alone, what loads them asks for that one's.
        """
        if pool not in RESOURCES:
            raise ValueError(f"there is no worker pool {pool!r}, only {', '.join(RESOURCES)}")
        pinned = self._pools is not None or (self._one_loads and pool == LOADED)
        return annotate(resources={RESOURCES[pool]: 1}) if pinned else nullcontext()

    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        """Block until at least one is done, or the time is over."""
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
            state = Completed(message="That it ended is known from its flow run.")
            return result
        except distributed.KilledWorker as problem:
            state = Crashed(message=str(problem))
            raise WorkerDied(f"the worker that ran it died ({problem})") from problem
        finally:
            self._ended(handle.task_run_id, state)
            # a worker that holds a result is not idle
            handle.wrapped_future.release()


def link_dask(board: RunBoard, dashboard: str) -> None:
    """Link the pages of the Dask cluster, given the address of its dashboard ``…/status``."""
    if importlib.util.find_spec("bokeh") is None:
        # without it there are no graphs, but tables of workers and of what they do
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


#: What a worker imports while the cluster starts.
PRELOAD = ["flows.on_worker"]


def site_cluster(
    board: RunBoard, site: Profile, store: str, name: str, run: str, one_loads: bool = False
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


def _linked(board: RunBoard, start: Callable[[], Cluster]) -> Cluster:
    """Start a cluster and link its pages."""
    cluster = start()
    link_dask(board, cluster.dashboard_link)
    return cluster
