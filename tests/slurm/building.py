"""A build on the Slurm of the tests, started as a user starts it, and what must be true of it in the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from storage_schemas.release import Release
from storage_schemas.store import Store
from tests.flows.prefect_servers import prefect_home
from tests.flows.small_builds import committed
from tests.slurm.conftest import Slurm

ROOT = Path(__file__).resolve().parents[2]
END_S = 300.0

#: Small jobs that come and go quickly; two aspects are made in the pool h100.
PROFILE = """
name = "test"
store = "{store}"
allow_cpu_models = true
poll_s = 1.0
prefect_api_url = "{api}"
{site}

[placement]
aesthetics = "h100"
spatial_relationship = "h100"

[pools.cpu]
partition = "cpu"
cores = 1
memory = "2GiB"
walltime = "00:10:00"
longest_item = "00:00:30"
maximum = 2
idle_s = {idle_s}
python = "{python}"
{cpu}

[pools.h100]
partition = "h100"
cores = 1
gpus = 1
memory = "{h100_memory}"
walltime = "00:10:00"
longest_item = "00:00:30"
maximum = {h100_jobs}
idle_s = {idle_s}
python = "{python}"
"""


def profile_text(store: Path, api: str = "", **fields: object) -> str:
    """Return the text of a profile with both pools."""
    given = {"cpu": "", "site": "", "h100_memory": "1GiB", "h100_jobs": 1, "idle_s": 60, **fields}
    return PROFILE.format(store=store, api=api, python=sys.executable, **given)


def environment_of(slurm: Slurm, folder: Path, path: Path | None = None) -> dict[str, str]:
    """Return the variables of a command that finds our packages, and those of another folder."""
    paths = [str(one) for one in (path, ROOT) if one]
    more = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "PREFECT_HOME": prefect_home(folder)}
    return {name: value for name, value in slurm.environment.items() if name != "PREFECT_API_URL"} | more


def slvmeval(
    slurm: Slurm, folder: Path, *words: str, path: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with the profile of a folder."""
    return subprocess.run(
        [sys.executable, "-m", "slvmeval", *words, "--profile", str(folder / "site.toml")],
        env=environment_of(slurm, folder, path) | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


@dataclass
class Building:
    """One build of a folder of videos, which may be started again and again."""

    slurm: Slurm
    folder: Path
    api: str
    cpu_lines: str = ""
    #: Further lines of the profile, above its tables.
    site_lines: str = ""
    h100_memory: str = "1GiB"
    h100_jobs: int = 1
    #: So long that workers stay until there is work for them again: to start them is most of a test's work.
    idle_s: int = 60
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None

    @property
    def store(self) -> Path:
        """Folder of the store."""
        return self.folder / "store"

    def start(self) -> subprocess.Popen[str]:
        """Start the build command."""
        profile = self.folder / "site.toml"
        profile.write_text(
            profile_text(
                self.store,
                self.api,
                cpu=self.cpu_lines,
                site=self.site_lines,
                h100_memory=self.h100_memory,
                h100_jobs=self.h100_jobs,
                idle_s=self.idle_s,
            )
        )
        command = [sys.executable, "-m", "slvmeval", "build", "--profile", str(profile)]
        command += ["--sources", str(self.folder / "videos"), "--recipe", str(self.folder / "recipe.json")]
        environment = environment_of(self.slurm, self.folder) | self.variables
        log = (self.folder / "build.log").open("a")
        self.process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, text=True, env=environment, cwd=self.folder
        )
        log.close()
        return self.process

    def reached(self, number: int, kind: str = "*") -> None:
        """Wait until that number of artifacts are committed."""
        self.wait(lambda: len(list(self.store.glob(f"artifacts/{kind}/*/*/manifest.json"))) >= number)

    def wait(self, there: Callable[[], object], limit_s: float = END_S) -> None:
        """Wait until something is so, while the build runs."""
        assert self.process is not None
        end = time.monotonic() + limit_s
        while not there():
            assert self.process.poll() is None, f"the build ended before:\n{self.said()}"
            assert time.monotonic() < end, f"not reached:\n{self.slurm.squeue()}\n{self.said()}"
            time.sleep(0.1)

    def end(self) -> int:
        """Wait for the end of the command and return its exit code."""
        assert self.process is not None
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end:\n{self.slurm.squeue()}\n{self.said()}") from None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the command itself, not what it started, with a signal."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)

    def said(self) -> str:
        """Return the end of what the command and its jobs said."""
        logs = [self.folder / "build.log", *sorted(self.store.glob("cache/slurm-logs/*"))]
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in logs if log.exists())

    def committed(self) -> dict[str, int]:
        """Return every committed artifact and when its manifest was written."""
        return committed(self.store)

    def release(self) -> Release:
        """Return the newest release."""
        return Release.open(Store.open(self.store), "main")

    def workers(self, pool: str) -> list[psutil.Process]:
        """Return the processes that work in a pool's jobs on this machine."""
        jobs = {job["id"] for job in self.slurm.squeue("-p", pool)}
        return [
            process
            for process in psutil.process_iter()
            if "spawn_main" in " ".join(_words(process))
            # other tests have a Slurm of their own, which counts its jobs from 1 too
            and _variable(process, "SLURM_CONF") == str(self.slurm.conf)
            and _variable(process, "SLURM_JOB_ID") in jobs
        ]


def _variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name)
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return None


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return []


def flow_runs(api: str) -> list[dict[str, Any]]:
    """Return the flow runs that a Prefect server knows."""
    import httpx

    answer = httpx.post(f"{api}/flow_runs/filter", json={}, timeout=60).raise_for_status()
    result: list[dict[str, Any]] = answer.json()
    return result


def states_of_runs(api: str) -> dict[str, list[str]]:
    """Return the states of all flow runs and task runs that a Prefect server knows."""
    import httpx

    result = {}
    for what in ("flow_runs", "task_runs"):
        runs = httpx.post(f"{api}/{what}/filter", json={}, timeout=60).raise_for_status().json()
        result[what] = [run["state_type"] for run in runs]
    return result
