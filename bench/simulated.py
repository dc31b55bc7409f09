"""Run many simulated sources, which only sleep, through the flow, to measure the orchestrator's cost.

``python -m bench.simulated flow|direct --sources N`` prints one line of JSON. ``python -m bench.simulated
growth --folder DIR`` runs the flow with several numbers of sources, on SQLite and on PostgreSQL, and prints a
table; completed runs are stored in the folder and not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench.measuring import ROOT, run
from flows.batches import Batching
from flows.release.run import MAX_TASKS
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
        tasks = through_stages(executor, work, items, progress, count, died, Batching(MAX_TASKS))
    if done != sources * STAGES:
        raise RuntimeError(f"{done} stages ended, not {sources * STAGES}")
    return {
        "wall_s": round(time.monotonic() - started, 3),
        "driver_cpu_s": round(time.process_time() - cpu, 3),
        "tasks": tasks,
    }


def in_flow(sources: int, workers: int) -> dict[str, Any]:
    """Run them through a Prefect flow, with an embedded server and a local Dask cluster."""
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
        server = _usage_of_server()
    # Linux counts in KiB
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return result | {"recorded": recorded - 2 * workers, "driver_peak_mb": round(peak_mb, 1)} | server


def _usage_of_server() -> dict[str, float]:
    """Return CPU seconds and peak memory of the embedded server."""
    children = psutil.Process().children()
    (server,) = [child for child in children if any("embedded_server" in word for word in child.cmdline())]
    times = server.cpu_times()
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
    peak_kib = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
    return {
        "server_cpu_s": round(times.user + times.system, 2),
        "server_peak_mb": round(peak_kib * 1024 / 1e6, 1),
    }


def _completed(client: Any) -> int:
    """Return the number of task runs that the server has recorded as completed."""
    completed = {"task_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    return int(client._client.post("/task_runs/count", json=completed).json())


SIZES = (100, 1000, 10_000)
DATABASES = ("SQLite", "PostgreSQL")
_COLUMNS = {
    "tasks": "tasks",
    "recorded": "recorded",
    "wall_s": "wall s",
    "task_ms": "ms a task",
    "driver_cpu_s": "driver, CPU s",
    "driver_peak_mb": "driver, MB",
    "server_cpu_s": "server, CPU s",
    "server_peak_mb": "server, MB",
}


def growth(sizes: list[int], workers: int, folder: Path) -> str:
    """Run the missing sizes; return the table in Markdown."""
    from tests.flows.postgres import postgres_programs, running_postgres

    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"| database | sources | {' | '.join(_COLUMNS.values())} |", "|---" * (2 + len(_COLUMNS)) + "|"]
    for database in DATABASES:
        for sources in sizes:
            kept = folder / f"{database}-{sources}.json"
            if not kept.is_file():
                programs = postgres_programs()
                if database == "SQLite":
                    postgres: Any = nullcontext()
                elif programs is None:
                    sys.exit("PostgreSQL is not installed")
                else:
                    postgres = running_postgres(programs, "prefect", "secret", "prefect", fsync=True)
                with postgres as port:
                    environment = {
                        "PREFECT_HOME": str(folder / f"home-{database}-{sources}"),
                        "PREFECT_API_URL": "",
                    }
                    if port is not None:
                        environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = (
                            f"postgresql+asyncpg://prefect:secret@127.0.0.1:{port}/prefect"
                        )
                    words = ["flow", "--sources", str(sources), "--workers", str(workers)]
                    usage = run([sys.executable, "-m", "bench.simulated", *words], environment)
                kept.write_text(json.dumps(usage.output), encoding="utf-8")
            made = json.loads(kept.read_text(encoding="utf-8"))
            made["task_ms"] = round(1000 * made["wall_s"] / made["tasks"], 1)
            cells = [f"{made[key]:,}" for key in _COLUMNS]
            lines.append(f"| {database} | {sources:,} | {' | '.join(cells)} |")
            print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


def main() -> None:
    """Run one variant, or print the table of growth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("flow", "direct", "growth"))
    parser.add_argument("--sources", type=int, default=SIZES[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench" / "simulated")
    given = parser.parse_args()
    if given.what == "growth":
        print(growth(given.sizes, given.workers, given.folder.resolve()))
    elif given.what == "flow":
        print(json.dumps(in_flow(given.sources, given.workers)))
    else:
        print(json.dumps(through(ProcessExecutor(given.workers), given.sources)))


if __name__ == "__main__":
    main()
