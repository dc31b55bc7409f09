"""Stages as Prefect tasks on Dask: one task a source and stage, nothing of the work in here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import distributed
from dask.base import annotate
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect_dask.task_runners import DaskTaskRunner

from infra.executor import Executor, Handle, WorkerDied


@task(name="stage", task_run_name="{name}", persist_result=False, cache_policy=NO_CACHE, retries=0)
def run_stage(name: str, call: Callable[[], Any]) -> Any:
    """Run one stage of one source; its result says what was set aside, it does not raise."""
    return call()


class PrefectExecutor(Executor):
    """Submits stages to the task runner of the flow that is running.

    Parameters
    ----------
    workers
        How many items run at once.
    pools
        The worker pools of the cluster, if its workers have such resources. Where there is one kind of worker
        only, naming it would tie an item to the worker that it was first given to, however long that
        one is busy: Dask moves no item that asks for a resource.
    """

    def __init__(self, workers: int, pools: Collection[str] = ()) -> None:
        self.workers, self.pools = workers, frozenset(pools)

    def __enter__(self) -> PrefectExecutor:
        """Start the cluster, which Prefect would do with the first task."""
        context = FlowRunContext.get()
        if context is not None and isinstance(context.task_runner, DaskTaskRunner):
            _ = context.task_runner.client
        return self

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start a stage as a Prefect task in a worker pool."""
        stage = name.split(" ", 1)[0]
        with annotate(resources={pool: 1}) if pool in self.pools else nullcontext():
            # a partial: the arguments are frozen models, Prefect need not look for futures in them. No tags:
            # for each tag of a task run the worker asks the server for a place, which takes up to seconds.
            return run_stage.with_options(name=stage).submit(name, partial(function, *arguments))

    def wait_any(self, handles: Iterable[Handle]) -> set[Handle]:
        """Block until at least one is done."""
        by_future = {handle.wrapped_future: handle for handle in handles}
        client = next(iter(by_future)).client
        with client.as_current():
            waited = distributed.wait(list(by_future), return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]
        return {by_future[future] for future in waited.done}

    def result(self, handle: Handle) -> Any:
        """Return what the stage returned."""
        try:
            return handle.result()
        except distributed.KilledWorker as problem:
            # this bypasses Prefect's own retries and leaves its task run Running
            raise WorkerDied(f"the workers that ran it died ({problem})") from problem
