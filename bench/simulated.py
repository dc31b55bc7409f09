"""Run many simulated sources, which only sleep, through the flow, to measure the orchestrator's cost.

``python -m bench.simulated flow|direct SOURCES WORKERS`` prints one line of JSON.
"""

from __future__ import annotations

import json
import math
import sys
import time
from functools import partial
from typing import Any

from flows.build.run import MOST_TASKS
from flows.stages import StageItem, through_stages
from infra.executor import Executor, ProcessExecutor
from infra.progress import BuildProgress
from storage_schemas.source import Source
from tasks.pairs.stages import BuildWork, Stage, StageResult
from tasks.recipe import BUILT_IN

#: Sleep of one source in one stage, in seconds.
SLEEP_S = 0.005
STAGES = 4


def sleep_stage(work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
    """Do nothing for a moment."""
    time.sleep(SLEEP_S)
    return StageResult(source.id, "sleep")


def through(executor: Executor, sources: int) -> dict[str, Any]:
    """Run simulated sources through four stages; return the time after the workers started."""
    stages = [Stage(f"stage{n}", "cpu", sleep_stage) for n in range(STAGES)]
    batch = math.ceil(sources * STAGES / MOST_TASKS) or 1
    items = [
        StageItem(
            Source(id=f"s{n}", adapter="none", title=f"s{n}", video="", content_sha256="", clips=()),
            (),
            list(stages),
        )
        for n in range(sources)
    ]
    work = BuildWork(store="", recipe=BUILT_IN["cpu-approx"], model_folders=())
    done = 0

    def count(outcome: StageResult) -> bool:
        nonlocal done
        done += 1
        return True

    def died(item: StageItem, message: str) -> StageResult:
        raise RuntimeError(message)

    with executor, BuildProgress(quiet=True) as progress:
        warm = [StageItem(items[0].source, (), list(stages[:1])) for _ in range(2 * executor.workers)]
        through_stages(executor, work, warm, progress, count, died)
        done, started, cpu = 0, time.monotonic(), time.process_time()
        through_stages(executor, work, items, progress, count, died, batch)
    if done != sources * STAGES:
        raise RuntimeError(f"{done} stages ended, not {sources * STAGES}")
    return {
        "wall_s": round(time.monotonic() - started, 3),
        "driver_cpu_s": round(time.process_time() - cpu, 3),
        "tasks": STAGES * math.ceil(sources / batch),
        "batch": batch,
    }


def in_flow(sources: int, workers: int) -> dict[str, Any]:
    """Run them through a Prefect flow on an embedded server and a local Dask cluster."""
    from infra.prefect_server import prefect_environment, prefect_server

    prefect_environment()
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect_dask.task_runners import DaskTaskRunner

    from flows.prefect_executor import PrefectExecutor
    from infra.dask_cluster import local_cluster

    cluster = partial(local_cluster, workers=workers, preload=["flows.prefect_executor"])

    @flow(name="simulated", task_runner=DaskTaskRunner(), persist_result=False)
    def simulated() -> dict[str, Any]:
        return through(PrefectExecutor(workers, cluster), sources)

    with prefect_server():
        result: dict[str, Any] = simulated()
        with get_client(sync_client=True) as client:
            wanted = result["tasks"] + 2 * workers
            deadline = time.monotonic() + 120
            while (recorded := _completed(client)) < wanted:
                if time.monotonic() > deadline:
                    break
                time.sleep(1)
    return result | {"recorded": recorded - 2 * workers}


def _completed(client: Any) -> int:
    """Return the number of task runs that the server has recorded as completed."""
    completed = {"task_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    return int(client._client.post("/task_runs/count", json=completed).json())


if __name__ == "__main__":
    way, sources, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    made = in_flow(sources, workers) if way == "flow" else through(ProcessExecutor(workers), sources)
    print(json.dumps(made))
