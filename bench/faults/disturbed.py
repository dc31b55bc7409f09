"""One build on the campaign's Slurm, disturbed by faults and restarted whenever it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.flows.prefect_servers import PrefectServer
from tests.slurm.building import Building
from tests.slurm.conftest import ONE_MACHINE

#: Marks all processes started by a build.
MARK = "SLVMEVAL_FAULTS"
#: Size of the file system of a build's store.
DISK = "200m"
#: Shifts a process's clock; in Debian's package faketime.
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
# a node with a wrong clock still measures waits correctly
_CLOCK = f"LD_PRELOAD={FAKETIME} FAKETIME_DONT_FAKE_MONOTONIC=1"


def words_of(process: psutil.Process) -> str:
    """Return a process's command line; empty if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def variable_of(process: psutil.Process, name: str) -> str | None:
    """Return a variable of a process's environment; None if it has none or has ended."""
    try:
        return process.environ().get(name)
    except psutil.Error:
        return None


def job_of(process: psutil.Process) -> str | None:
    """Return the id of the job that a process belongs to; None if it belongs to none or has ended."""
    return variable_of(process, "SLURM_JOB_ID")


class StoppableServer(PrefectServer):
    """A Prefect server that can be paused."""

    def kill_without_waiting(self, number: signal.Signals) -> None:
        """Send a signal to the server's processes."""
        assert self._process is not None
        os.killpg(self._process.pid, number)


@dataclass
class DisturbedBuild(Building):
    """A build with its store on a separate file system."""

    server: StoppableServer = field(kw_only=True)
    starts: int = 0
    #: Whether slurmctld was killed, which then forgets the last seconds.
    slurm_forgot: bool = False
    #: Every artifact seen committed, with the times of its manifest.
    seen: dict[str, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Prepare its jobs for the faults."""
        for folder in (self.disk, self.temporary, self.folder / "logs"):
            folder.mkdir()
        self.idle_s, self.h100_jobs = 20, 1
        self.site_lines = f'job_logs = "{self.folder / "logs"}"'
        shifted = f"if [ -f {self.clock} ]; then export {_CLOCK} FAKETIME=$(cat {self.clock}); fi"
        started = f"date +%s > {self.folder}/job-$SLURM_JOB_ID"
        self.cpu_lines = f"workers = 1\nsetup = ['{shifted}', '{started}']"
        self.variables = {
            MARK: str(self.folder),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.folder / "user-cache"),
        }
        self.slurm.run("mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(self.disk))

    @property
    def disk(self) -> Path:
        """Mount point of the store's file system."""
        return self.folder / "disk"

    @property
    def store(self) -> Path:
        """Folder of the store."""
        return self.disk / "store"

    @property
    def temporary(self) -> Path:
        """Folder for temporary files of all its processes."""
        return self.folder / "tmp"

    @property
    def clock(self) -> Path:
        """File with the shift of the clock of jobs that start."""
        return self.folder / "clock"

    def start(self) -> subprocess.Popen[str]:
        """Start the build command."""
        self.starts += 1
        return super().start()

    def look(self) -> int:
        """Record the committed artifacts and return their number."""
        there = self.committed()
        for name, written in there.items():
            self.seen.setdefault(name, set()).add(written)
        return sum(name.startswith("artifacts/") for name in there)

    def jobs(self) -> list[dict[str, str]]:
        """Return the waiting and running jobs."""
        return self.slurm.squeue()

    def job_starts(self) -> dict[float, float]:
        """Return the start time of each job of the pool cpu, and its clock's error, in seconds."""
        files = list(self.folder.glob("job-*"))
        return {path.stat().st_mtime: float(path.read_text() or 0) - path.stat().st_mtime for path in files}

    def processes(self) -> list[psutil.Process]:
        """Return the living processes that this build started, also through Slurm."""
        return [
            process for process in psutil.process_iter() if variable_of(process, MARK) == str(self.folder)
        ]

    def job_processes(self, word: str) -> list[psutil.Process]:
        """Return the processes of its jobs whose command line contains a word."""
        return [process for process in self.processes() if word in words_of(process) and job_of(process)]

    def guards(self) -> list[psutil.Process]:
        """Return the guards of the running build."""
        if self.process is None or self.process.poll() is not None:
            return []
        with suppress(psutil.Error):
            children = psutil.Process(self.process.pid).children()
            return [child for child in children if "scancel" in words_of(child)]
        return []

    def killed(self, number: signal.Signals) -> Callable[[], bool] | None:
        """End the build's process with a signal; return None if it has ended."""
        if self.process is None or self.process.poll() is not None:
            return None
        self.process.send_signal(number)
        # a terminated run still informs Prefect and Slurm
        self.process.wait(300)
        return lambda: True

    def bring_back(self, node: str) -> None:
        """Let a node accept jobs again; one that is down may return by itself, as its daemon is alive."""
        command = ["scontrol", "update", f"NodeName={node}", "State=RESUME"]
        end = time.monotonic() + 60
        while self.slurm.sinfo()[node].startswith(("down", "drain")):
            assert time.monotonic() < end, f"{node} stays {self.slurm.sinfo()[node]}"
            subprocess.run(command, env=self.slurm.environment, capture_output=True, check=False)
            time.sleep(0.2)

    def restart_daemon(self, daemon: str, away_s: float) -> None:
        """Kill one of Slurm's daemons and start it again."""
        self.slurm_forgot |= daemon == "slurmctld"
        command = [sys.executable, str(ONE_MACHINE), "restart", str(self.slurm.folder), daemon]
        subprocess.run([*command, "--away", f"{away_s:.1f}"], check=True, capture_output=True, timeout=120)
        self.slurm_answers()

    def slurm_answers(self, limit_s: float = 60.0) -> None:
        """Wait until slurmctld answers."""
        end = time.monotonic() + limit_s
        while subprocess.run(
            ["scontrol", "ping"], env=self.slurm.environment, capture_output=True
        ).returncode:
            assert time.monotonic() < end, "slurmctld does not answer"
            time.sleep(0.2)

    def ask_nodes(self) -> None:
        """Make slurmctld ask its nodes which jobs they have."""
        self.slurm.run("scontrol", "reconfigure")
        self.slurm_answers()

    def close(self) -> None:
        """End it if it runs, and unmount its store."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
            self.process.kill()
            self.process.wait()
        self.slurm.run("umount", "-l", str(self.disk))
