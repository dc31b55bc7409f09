"""Our management of SLURM jobs compared with dask-jobqueue's adaptive mode: the same work, the same faults.

``python -m bench.adaptive --times 3 --folder DIR`` starts a separate Slurm on this machine, lets each side
do the same work with each fault in turn, and prints a table. Completed runs are kept in the folder and not
repeated. The work consists of items that take a while and record that they ran; no part of a build is
involved.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dask.base import annotate
from distributed import Client, Future, KilledWorker, wait

from bench.measuring import ROOT
from infra.pool import resource_of
from storage_schemas.store import Store
from tests.slurm.conftest import Slurm, one_machine

#: Number of items, seconds per item, and maximum number of concurrent jobs.
ITEMS, ITEM_S, JOBS = 60, 1.0, 3
POOLS = ("cpu", "h100")
#: Items of the GPU pool in the mixed work, and its number of jobs.
GPU_ITEMS, GPU_JOBS = 12, 1
#: Seconds after which work counts as stuck; undisturbed it takes about half a minute.
STUCK_S = 240.0
#: Time limit of short jobs in minutes, and the number of items of the longer work for them.
SHORT_MIN, LONG_ITEMS = 1, 240
_JOB = {"cores": 1, "memory": "400MiB", "walltime": "00:10:00"}
#: The settings that dask-jobqueue's documentation recommends if jobs are shorter than the work.
_LIFETIME = ["--lifetime", "40s", "--lifetime-stagger", "10s"]


def item(folder: str, number: int) -> int:
    """Sleep, and record start and end."""
    for what in ("begin", "end"):
        with (Path(folder) / "ran").open("a", encoding="utf-8") as file:
            file.write(f"{what} {number}\n")
        if what == "begin":
            time.sleep(ITEM_S)
    return number


def ours(folder: Path, work: dict[str, int], short: bool) -> None:
    """Do the work in the pools of our cluster, as a build does."""
    from infra.profile import Profile
    from infra.slurm.cluster import SlurmCluster

    pools = {
        name: {
            **_JOB,
            "partition": name,
            "maximum": JOBS if name == "cpu" else GPU_JOBS,
            "idle_s": 5.0,
            "longest_item": "00:00:10",
            **({"gpus": 1, "gres": "gpu"} if name == "h100" else {}),
            **({"directives": [f"--time={SHORT_MIN}"], "walltime": f"00:0{SHORT_MIN}:00"} if short else {}),
        }
        for name in work
    }
    store = Store.create(folder / "store").root
    profile = Profile.model_validate(
        {"store": str(store), "pools": pools, "poll_s": 1.0, "allow_cpu_models": True}
    )
    with SlurmCluster(profile, store, "bench") as cluster, Client(cluster) as client:
        waiting = {name: deque(range(count)) for name, count in work.items()}
        running: dict[Future, tuple[str, int]] = {}
        while running or any(waiting.values()):
            for name, queue in waiting.items():
                in_flight = sum(pool == name for pool, _ in running.values())
                room = cluster.room(name, in_flight + len(queue))
                while queue and in_flight < room:
                    number = queue.popleft()
                    with annotate(resources={resource_of(name): 1}):
                        future = client.submit(item, str(folder / name), number, pure=False)
                    running[future] = (name, number)
                    in_flight += 1
            if not running:
                time.sleep(0.2)
                continue
            with suppress(TimeoutError):
                for future in wait(list(running), 1.0, "FIRST_COMPLETED").done:
                    name, number = running.pop(future)
                    try:
                        future.result()
                    except KilledWorker:
                        waiting[name].append(number)
                    future.release()


def adaptive(folder: Path, work: dict[str, int], short: bool) -> None:
    """Do the work in one adaptive dask-jobqueue cluster per pool; Dask repeats work that a worker lost."""
    from dask_jobqueue.slurm import SLURMCluster

    with ExitStack() as stack:
        clients = {}
        for name in work:
            cluster = stack.enter_context(
                SLURMCluster(
                    queue=name,
                    cores=1,
                    processes=1,
                    memory=_JOB["memory"],
                    job_mem="400M",
                    walltime=f"00:0{SHORT_MIN}:00" if short else _JOB["walltime"],
                    job_name=f"slvmeval-bench-{name}",
                    job_extra_directives=["--gres=gpu:1"] if name == "h100" else [],
                    job_script_prologue=[f"export PYTHONPATH={ROOT}"],
                    worker_extra_args=_LIFETIME if short else [],
                    python=sys.executable,
                    scheduler_options={"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"},
                    log_directory=str(folder / "logs"),
                    local_directory=str(folder / "local"),
                )
            )
            cluster.adapt(minimum=0, maximum=JOBS if name == "cpu" else GPU_JOBS, interval="1s")
            clients[name] = stack.enter_context(Client(cluster))
        futures = [
            clients[name].submit(item, str(folder / name), number, pure=False)
            for name, count in work.items()
            for number in range(count)
        ]
        for client in clients.values():
            client.gather([future for future in futures if future.client is client])


@dataclass
class Disturbed:
    """The work of one side, in progress on a Slurm."""

    slurm: Slurm
    folder: Path
    process: subprocess.Popen[str]
    seen: dict[str, float] = field(default_factory=dict)

    def jobs(self, state: str) -> list[dict[str, str]]:
        """Return the side's jobs in a state."""
        return [job for job in self.slurm.squeue() if job["state"] == state and job["name"] != "filler"]

    def count(self, what: str) -> int:
        """Return how many times items began or ended."""
        return sum(_ran(self.folder, name)[what].total() for name in POOLS)

    def until(self, reached: Callable[[], object]) -> bool:
        """Wait until a condition holds; return False if the work ends first."""
        while not reached():
            if self.process.poll() is not None:
                return False
            time.sleep(0.1)
        return True


def _ran(folder: Path, pool: str) -> dict[str, Counter[str]]:
    counts = {"begin": Counter[str](), "end": Counter[str]()}
    path = folder / pool / "ran"
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        what, number = line.split()
        counts[what][number] += 1
    return counts


def cancel_running(work: Disturbed) -> None:
    """Cancel a running job twice, at a quarter and a half of the work."""
    for share in (4, 2):
        if work.until(lambda share=share: work.count("end") >= ITEMS / share and work.jobs("RUNNING")):
            work.slurm.cancel(work.jobs("RUNNING")[0]["id"])


def cancel_waiting(work: Disturbed) -> None:
    """Cancel a waiting job; others fill the nodes for a while, so that jobs wait."""
    if work.until(lambda: work.jobs("PENDING") and work.count("begin")):
        work.slurm.cancel(work.jobs("PENDING")[0]["id"])
    time.sleep(5.0)
    work.slurm.cancel(*[job["id"] for job in work.slurm.squeue() if job["name"] == "filler"])


def drain_node(work: Disturbed) -> None:
    """Drain a node and cancel its jobs, as before a maintenance; it returns after ten seconds."""
    if work.until(lambda: work.count("end") >= ITEMS / 4 and work.jobs("RUNNING")):
        node = work.jobs("RUNNING")[0]["node"]
        work.slurm.drain(node)
        work.slurm.cancel(*[job["id"] for job in work.slurm.squeue("-w", node)])
        time.sleep(10.0)
        work.slurm.resume(node)


def no_slurm(work: Disturbed) -> None:
    """Stop slurmctld for twenty seconds while work is waiting for jobs."""
    if work.until(lambda: work.count("end") >= ITEMS / 4):
        work.slurm.cancel(*[job["id"] for job in work.jobs("RUNNING")[:1]])
        one_machine("restart", str(work.slurm.folder), "slurmctld", "--away", "20")


def nothing(work: Disturbed) -> None:
    """Leave it alone."""


@dataclass(frozen=True)
class Case:
    """The work and its disturbance, described."""

    words: str
    disturb: Callable[[Disturbed], None] = nothing
    work: dict[str, int] = field(default_factory=lambda: {"cpu": ITEMS})
    short: bool = False
    #: Cores of each node that other jobs occupy at first.
    filled: int = 0


CASES = {
    "alone": Case("nothing"),
    "mixed": Case("nothing; two kinds of work", work={"cpu": ITEMS, "h100": GPU_ITEMS}),
    "cancel_running": Case("a running job cancelled, twice", cancel_running),
    "cancel_waiting": Case("a waiting job cancelled", cancel_waiting, filled=4),
    "drain_node": Case("a node drained, its jobs cancelled", drain_node),
    "no_slurm": Case("a job cancelled, slurmctld away for 20 s", no_slurm),
    "short_jobs": Case(
        f"jobs of {SHORT_MIN} min, work of {LONG_ITEMS * ITEM_S / JOBS:g} s",
        work={"cpu": LONG_ITEMS},
        short=True,
    ),
}
SIDES = {"ours": ours, "adaptive": adaptive}


def measure(slurm: Slurm, side: str, case: str) -> dict[str, Any]:
    """Let one side do one case; return seconds, jobs, job seconds, and the work repeated, lost or left."""
    chosen = CASES[case]
    with tempfile.TemporaryDirectory(prefix="adaptive-") as name:
        folder = Path(name)
        for pool in (*POOLS, "logs", "local"):
            (folder / pool).mkdir()
        if chosen.filled:
            # all cores of one node, and all but one of the other
            slurm.sbatch("-J", "filler", "-w", "c1", f"-c{chosen.filled}", wrap="sleep 600")
            slurm.sbatch("-J", "filler", "-w", "c2", f"-c{chosen.filled - 1}", wrap="sleep 600")
        with (folder / "log").open("w", encoding="utf-8") as log:
            began = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.adaptive", "--side", side, "--case", case, "--folder", name],
                env=slurm.environment | {"PYTHONPATH": str(ROOT)},
                cwd=folder,
                stdout=log,
                stderr=log,
                text=True,
            )
            work = Disturbed(slurm, folder, process)
            with _watched(work) as job_seconds:
                chosen.disturb(work)
                try:
                    code = process.wait(max(1.0, STUCK_S - (time.monotonic() - began)))
                except subprocess.TimeoutExpired:
                    code = None
                    process.kill()
                    process.wait()
            wall_s = time.monotonic() - began
        time.sleep(10.0 if code is None else 2.0)
        ran = {pool: _ran(folder, pool) for pool in chosen.work}
        done = sum(len(counts["end"]) for counts in ran.values())
        wanted = sum(chosen.work.values())
        return {
            "side": side,
            "case": case,
            "wall_s": round(wall_s, 1),
            "ended": code == 0,
            "jobs": len(job_seconds),
            "job_s": round(sum(job_seconds.values()), 1),
            "begun_again": sum(counts["begin"].total() - len(counts["begin"]) for counts in ran.values()),
            "not_done": wanted - done,
            "jobs_left": len([job for job in slurm.squeue() if job["name"] != "filler"]),
            "log": "" if code == 0 else (folder / "log").read_text(encoding="utf-8")[-2000:],
        }


@contextmanager
def _watched(work: Disturbed) -> Iterator[dict[str, float]]:
    """Record each job's running time in seconds, every 0.3 s."""
    job_seconds: dict[str, float] = {}
    over = threading.Event()

    def look() -> None:
        last = time.monotonic()
        while not over.wait(0.3):
            now = time.monotonic()
            with suppress(AssertionError, subprocess.TimeoutExpired):
                for job in work.slurm.squeue():
                    if job["name"] != "filler":
                        job_seconds[job["id"]] = job_seconds.get(job["id"], 0.0) + (now - last) * (
                            job["state"] == "RUNNING"
                        )
            last = now

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield job_seconds
    finally:
        over.set()
        thread.join()


def table(runs: list[dict[str, Any]]) -> str:
    """Return the table: the medians of both sides by case."""
    lines = [
        "| disturbed by | side | seconds | jobs | job seconds | begun again | not done | stuck | jobs left |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, case in CASES.items():
        for side in SIDES:
            of = [run for run in runs if run["case"] == name and run["side"] == side]
            if not of:
                continue
            medians = [
                f"{statistics.median(run[key] for run in of):g}" for key in ("wall_s", "jobs", "job_s")
            ]
            sums = [str(sum(run[key] for run in of)) for key in ("begun_again", "not_done")]
            stuck, left = sum(not run["ended"] for run in of), sum(run["jobs_left"] for run in of)
            cells = [case.words, side, *medians, *sums, f"{stuck} of {len(of)}", str(left)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the missing measurements and print the table; or do the work of one side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench" / "adaptive")
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side is not None:
        case = CASES[given.case]
        SIDES[given.side](given.folder, case.work, case.short)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "runs.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    runs = [json.loads(line) for line in lines]
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as name:
        began = time.monotonic()
        started = one_machine("start", name)
        if started.returncode:
            sys.exit(started.stderr)
        slurm = Slurm(Path(name), time.monotonic() - began)
        os.environ["SLURM_CONF"] = str(slurm.conf)
        try:
            for _ in range(given.times):
                for case in [given.case] if given.case else CASES:
                    for side in SIDES:
                        done = sum(run["case"] == case and run["side"] == side for run in runs)
                        if done >= given.times:
                            continue
                        run = measure(slurm, side, case)
                        slurm.clean()
                        runs.append(run)
                        with path.open("a", encoding="utf-8") as file:
                            file.write(f"{json.dumps(run)}\n")
                        print(json.dumps(run), file=sys.stderr)
        finally:
            one_machine("stop", name)
    print(table(runs))


if __name__ == "__main__":
    main()
