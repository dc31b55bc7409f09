"""What ends a run's jobs after its driver was killed ends itself when there is no SLURM any more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from infra.leftovers import end_left_jobs
from infra.profile import Profile
from infra.slurm.cluster import end_jobs_of_dead_runs
from infra.slurm.run_folder import RunFile, run_folder, write_run_file
from storage_schemas.commit import write_atomic
from storage_schemas.store import Store
from tests.flows.prefect_servers import wait_for

ROOT = Path(__file__).resolve().parents[3]
KILLED = """
import os, signal, sys
from pathlib import Path
from infra.slurm.cluster import guard_jobs

guard = guard_jobs(["slvmeval-none-cpu"], Path(sys.argv[1]))
print(guard._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_guard_ends_with_the_settings_of_slurm(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    variables = {"PYTHONPATH": str(ROOT), "SLURM_CONF": str(tmp_path / "gone.conf")}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    guard = Path(f"/proc/{int(done.stdout)}")
    wait_for(lambda: not (guard.exists() or folder.exists()), 120, "end of the guard")


def dead_process() -> int:
    """Return the id of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_the_next_run_ends_the_jobs_of_killed_ones_only(
    tmp_path: Path, fake: Callable[[str, str], Path]
) -> None:
    write_run_file(tmp_path, "alive", "tls://scheduler:1")
    for run, host in {"killed": None, "elsewhere": "another-node"}.items():
        run_file = RunFile(scheduler="tls://scheduler:2", pid=dead_process(), versions={})
        named = run_file.model_copy(update={"host": host}) if host else run_file
        write_atomic(run_folder(tmp_path, run) / "run.json", named.model_dump_json().encode())
    calls = fake("scancel", "exit 0")
    end_jobs_of_dead_runs(tmp_path, ["cpu", "h100"])
    told = calls.read_text().splitlines()
    assert [line.split("--name=")[1] for line in told] == ["slvmeval-killed-cpu", "slvmeval-killed-h100"]
    assert not run_folder(tmp_path, "killed").exists()
    assert run_folder(tmp_path, "alive").exists() and run_folder(tmp_path, "elsewhere").exists()


POOLS = {"cpu": {"partition": "cpu", "cores": 1, "memory": "1GiB", "walltime": "01:00:00"}}


def test_a_run_without_work_ends_them_too_and_continues_where_slurm_is_away(
    tmp_path: Path, fake: Callable[[str, str], Path]
) -> None:
    store = Store.create(tmp_path / "store")
    site = Profile.model_validate({"store": str(store.root), "pools": POOLS})
    calls = fake("scancel", "exit 1")
    # nothing is asked of SLURM where no run was killed
    end_left_jobs(store, site)
    assert not calls.exists()
    killed = RunFile(scheduler="tls://scheduler:2", pid=dead_process(), versions={})
    write_atomic(run_folder(store.root, "killed") / "run.json", killed.model_dump_json().encode())
    end_left_jobs(store, Profile(store=str(store.root)))
    assert not calls.exists()
    end_left_jobs(store, site)
    assert run_folder(store.root, "killed").exists()
    calls = fake("scancel", "exit 0")
    end_left_jobs(store, site)
    assert "--name=slvmeval-killed-cpu" in calls.read_text()
    assert not run_folder(store.root, "killed").exists()
