"""The kinds of faults, each applied to a running build and then undone."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil

from bench.faults.disturbed import FAKETIME, DisturbedBuild, job_of
from infra.slurm.run_folder import read_run_file

#: Reports after the build whether a fault had an effect; faults without effect do not count.
Took = Callable[[], bool]
#: Applies a fault and undoes it; None if there is no target for it now.
Apply = Callable[[DisturbedBuild, np.random.Generator], Took | None]

#: Maximum seconds until Slurm notices that a job has exceeded its limit.
LIMIT_SEEN_S = 120.0
#: Seconds after which a worker has certainly registered.
STARTED_S = 8.0
#: Durations of unavailability, in seconds.
AWAY_S = (0.5, 5.0)


@dataclass(frozen=True)
class Kind:
    """A kind of fault, its description, and the command or file that it needs besides Slurm."""

    words: str
    apply: Apply
    needs: str | None = None

    @property
    def missing(self) -> bool:
        """Whether this machine lacks what it needs."""
        return self.needs is not None and not (shutil.which(self.needs) or Path(self.needs).exists())


def _took() -> bool:
    return True


def _one(draw: np.random.Generator, items: list[psutil.Process]) -> psutil.Process | None:
    return items[int(draw.integers(len(items)))] if items else None


def _away_s(draw: np.random.Generator) -> float:
    return float(draw.uniform(*AWAY_S))


def _killed(process: psutil.Process | None, number: int = signal.SIGKILL) -> Took | None:
    if process is None:
        return None
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return None
    return _took


def _job(build: DisturbedBuild, draw: np.random.Generator, *states: str) -> dict[str, str] | None:
    jobs = [job for job in build.jobs() if job["state"] in states]
    return jobs[int(draw.integers(len(jobs)))] if jobs else None


def cancel_job(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    job = _job(build, draw, "RUNNING", "PENDING")
    if job is None:
        return None
    build.slurm.run("scancel", "--quiet", job["id"])
    return _took


def kill_worker(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return _killed(_one(draw, build.job_processes("spawn_main")))


def kill_nanny(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return _killed(_one(draw, build.job_processes("infra.slurm.worker")))


def kill_step(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    """Kill Slurm's process that supervises a job's step."""
    steps = set()
    for process in build.job_processes("infra.slurm.worker"):
        with suppress(psutil.Error):
            steps.update(parent for parent in process.parents() if parent.name().startswith("slurmstepd"))
    return _killed(_one(draw, sorted(steps, key=lambda step: step.pid)))


def kill_driver(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return build.killed(signal.SIGKILL)


def end_driver(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return build.killed(signal.SIGTERM)


def kill_guard(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return _killed(_one(draw, build.guards()))


def kill_guard_and_driver(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return kill_guard(build, draw) and build.killed(signal.SIGKILL)


def _node(build: DisturbedBuild, draw: np.random.Generator) -> str | None:
    job = _job(build, draw, "RUNNING")
    return job["node"] if job is not None and job["node"] else None


def node_down(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return _node_in_state(build, draw, "DOWN")


def node_drained(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return _node_in_state(build, draw, "DRAIN")


def _node_in_state(build: DisturbedBuild, draw: np.random.Generator, state: str) -> Took | None:
    node = _node(build, draw)
    if node is None:
        return None
    build.slurm.run("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=fault")
    if state == "DRAIN":
        # its jobs have no deadline, so they are cancelled, as before maintenance
        for job in build.slurm.squeue("-w", node):
            build.slurm.run("scancel", "--quiet", job["id"])
    time.sleep(_away_s(draw))
    build.bring_back(node)
    return _took


def restart_slurmctld(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    build.restart_daemon("slurmctld", _away_s(draw))
    return _took


def restart_slurmd(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    node = _node(build, draw)
    if node is None:
        return None
    build.restart_daemon(f"slurmd-{node}", _away_s(draw))
    return _took


def prefect_silent(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    """The server does not answer for a while, but its connections stay open."""
    build.server.kill_without_waiting(signal.SIGSTOP)
    try:
        time.sleep(_away_s(draw))
    finally:
        build.server.kill_without_waiting(signal.SIGCONT)
    return _took


def prefect_restarted(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    build.server.kill(signal.SIGTERM)
    time.sleep(_away_s(draw))
    build.server.start()
    return _took


def walltime(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    """Pause a job's worker and set the job's end to now; Slurm ends it as at its time limit.

    Slurm checks limits every 30 s, by which time these small builds would be finished.
    """
    job = _job(build, draw, "RUNNING")
    workers = (
        [worker for worker in build.job_processes("spawn_main") if job_of(worker) == job["id"]] if job else []
    )
    # Slurm would cancel a job that has just started if its end is near, and rejects an end before its start
    if job is None or not workers or any(time.time() - one.create_time() < STARTED_S for one in workers):
        return None

    def state() -> str:
        return build.slurm.job(job["id"])["JobState"]

    try:
        for worker in workers:
            worker.suspend()
        build.slurm.run("scontrol", "update", f"JobId={job['id']}", "EndTime=now")
        build.slurm.wait(lambda: state() != "RUNNING", LIMIT_SEEN_S)
    except (psutil.NoSuchProcess, AssertionError):
        # it has ended meanwhile
        return None
    finally:
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.resume()
    build.slurm.wait(lambda: state() != "COMPLETING", LIMIT_SEEN_S)
    return _took if state() == "TIMEOUT" else None


def store_read_only(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    def remounted(mode: str) -> bool:
        command = ["mount", "-o", f"remount,{mode}", str(build.disk)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    # the system refuses this while a file is open for writing
    if not remounted("ro"):
        return None
    try:
        time.sleep(_away_s(draw))
    finally:
        assert remounted("rw"), "the store's file system stays read-only"
    return _took


def store_full(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    filler = build.disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            block = bytes(2**16)
            while file.write(block) == len(block):
                pass
        time.sleep(_away_s(draw))
    finally:
        filler.unlink()
    return _took


def clock_shifted(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    """The next job's clock is 20 minutes early or late; a job is cancelled so that a next one starts."""
    shift = int(draw.choice([-1200, 1200]))
    if _seen_by_next_job(build, draw, build.clock, f"{shift:+d}") is None:
        return None
    return lambda: any(abs(off - shift) < 60 for off in build.job_starts().values())


def planted_module(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    """A file `tasks.py` lies in the working folder of the next job, and must not be imported."""
    planted = build.folder / "tasks.py"
    text = f"open({str(build.folder / 'planted-was-imported')!r}, 'w').close()\nraise SystemExit('planted')\n"
    return _seen_by_next_job(build, draw, planted, text)


def _seen_by_next_job(build: DisturbedBuild, draw: np.random.Generator, file: Path, text: str) -> Took | None:
    """Write a file that jobs read when they start; it stays until the end of the build."""
    if _job(build, draw, "RUNNING") is None:
        return None
    began = time.time()
    file.write_text(text)
    cancel_job(build, draw)
    return lambda: any(start > began for start in build.job_starts())


@contextmanager
def _rules(*rules: list[str]) -> Iterator[None]:
    added = []
    try:
        for rule in rules:
            subprocess.run(["iptables", "-w", "-I", *rule], check=True, capture_output=True)
            added.append(rule)
        yield
    finally:
        for rule in added:
            subprocess.run(["iptables", "-w", "-D", *rule], check=True, capture_output=True)


def _cut(build: DisturbedBuild, draw: np.random.Generator, *how: str) -> Took | None:
    """Cut all connections to the driver's scheduler for a while."""
    port = scheduler_port(build)
    if port is None:
        return None
    sides = ("--dport", "--sport")
    with _rules(*([*"INPUT -i lo -p tcp".split(), side, str(port), *how] for side in sides)):
        time.sleep(_away_s(draw))
    return _took


def scheduler_port(build: DisturbedBuild) -> int | None:
    """Return the port of the scheduler of the build's process."""
    for folder in (build.store / "cache" / "slurm").glob("*"):
        run = read_run_file(build.store, folder.name)
        if run is not None and build.process is not None and run.pid == build.process.pid:
            return urlsplit(run.scheduler).port
    return None


def network_silent(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return _cut(build, draw, "-j", "DROP")


def network_reset(build: DisturbedBuild, draw: np.random.Generator) -> Took | None:
    return _cut(build, draw, "-j", "REJECT", "--reject-with", "tcp-reset")


KINDS: dict[str, Kind] = {
    "cancel_job": Kind("a job cancelled", cancel_job),
    "kill_worker": Kind("`kill -9` of a worker process", kill_worker),
    "kill_nanny": Kind("`kill -9` of a job's main process", kill_nanny),
    "kill_step": Kind("`kill -9` of Slurm's process for a job", kill_step),
    "kill_driver": Kind("`kill -9` of the driver, including Dask's scheduler", kill_driver),
    "end_driver": Kind("SIGTERM to the driver", end_driver),
    "kill_guard": Kind("`kill -9` of the guard", kill_guard),
    "kill_guard_and_driver": Kind("`kill -9` of the guard, then of the driver", kill_guard_and_driver),
    "node_down": Kind("a node down", node_down),
    "node_drained": Kind("a node drained, its jobs cancelled", node_drained),
    "restart_slurmctld": Kind("`kill -9` and restart of slurmctld", restart_slurmctld),
    "restart_slurmd": Kind("`kill -9` and restart of a node's slurmd", restart_slurmd),
    "prefect_silent": Kind("Prefect's server paused and resumed", prefect_silent),
    "prefect_restarted": Kind("Prefect's server stopped and restarted", prefect_restarted),
    "walltime": Kind("a job's time limit reached", walltime),
    "store_read_only": Kind("the store read-only", store_read_only),
    "store_full": Kind("the store full", store_full),
    "clock_shifted": Kind("a worker's clock 20 minutes off", clock_shifted, str(FAKETIME)),
    "planted_module": Kind("a planted `tasks.py` in the working folder", planted_module),
    "network_silent": Kind("packets to and from the scheduler dropped", network_silent, "iptables"),
    "network_reset": Kind("connections to the scheduler reset", network_reset, "iptables"),
}
