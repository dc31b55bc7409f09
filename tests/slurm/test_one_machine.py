from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.slurm.conftest import ONE_MACHINE, Slurm, one_machine


def processes_of(folder: str) -> list[str]:
    """Command lines and variables of every process that knows of a folder, but for this one."""
    result = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                text = (path / "cmdline").read_bytes() + b"\0" + (path / "environ").read_bytes()
            except OSError:
                continue
            if folder.encode() in text:
                result.append(text.decode(errors="replace"))
    return result


def test_it_starts_within_seconds_and_a_job_runs(
    slurm: Slurm, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    out = tmp_path / "out"
    began = time.monotonic()
    job = slurm.sbatch("-o", str(out), wrap="echo on $SLURMD_NODENAME in $SLURM_JOB_PARTITION")
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED")
    job_s = time.monotonic() - began
    record_property("slurm_start_s", slurm.start_s)
    record_property("job_s", job_s)
    print(f"Slurm started in {slurm.start_s:.2f} s; a job was over {job_s:.2f} s after its submission")
    assert out.read_text() in ("on c1 in cpu\n", "on c2 in cpu\n")
    assert slurm.start_s < 30


def test_gpus_are_counted_and_the_fifth_job_waits(slurm: Slurm, tmp_path: Path) -> None:
    def gpu_job(number: int) -> int:
        wrap = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES; sleep 60"
        return slurm.sbatch("-p", "h100", "--gres=gpu:h100:1", "-o", f"{tmp_path}/{number}", wrap=wrap)

    def lines() -> list[str]:
        return sorted(line for path in tmp_path.iterdir() for line in path.read_text().splitlines())

    jobs = [gpu_job(number) for number in range(5)]
    slurm.wait(lambda: len(lines()) == 4)
    assert lines() == ["g1 0", "g1 1", "g2 0", "g2 1"]
    waiting = {str(jobs[4]): "Resources"}
    # until SLURM has looked at it, the reason is its place in the queue
    slurm.wait(lambda: {j["id"]: j["reason"] for j in slurm.squeue("--states=PENDING")} == waiting)
    slurm.cancel(jobs[0])
    slurm.wait(lambda: slurm.job(jobs[4])["JobState"] == "RUNNING")


def test_gpus_that_no_node_has_are_refused(slurm: Slurm) -> None:
    with pytest.raises(AssertionError, match="Requested node configuration is not available"):
        slurm.sbatch("-p", "h100", "--gres=gpu:h100:3", wrap="true")
    with pytest.raises(AssertionError, match="Requested node configuration is not available"):
        slurm.sbatch("-p", "h100", "--gres=gpu:a100:1", wrap="true")


def test_two_run_at_once_and_stop_leaves_no_process(slurm: Slurm, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        started = one_machine("start", name, "--cpu-nodes=1", "--gpu-nodes=1", "--gpus=1")
        assert started.returncode == 0, started.stderr
        assert started.stdout == f"export SLURM_CONF={name}/slurm.conf\n"
        try:
            other = Slurm(Path(name), 0.0)
            assert other.sinfo() == {"c1": "idle", "g1": "idle"}
            assert slurm.sinfo() == dict.fromkeys(("c1", "c2", "g1", "g2"), "idle")
            ready = tmp_path / "ready"
            # a process that leaves its job
            wrap = f"setsid sleep 600 & touch {ready}; sleep 600"
            other.sbatch("-o", "/dev/null", wrap=wrap)
            other.wait(ready.exists)
            assert len(processes_of(name)) > 5
            shown = one_machine("status", name)
            assert shown.returncode == 0
            assert "slurmd-g1" in shown.stdout
            assert " R " in shown.stdout
            again = one_machine("start", name)
            assert again.returncode == 1
            assert "stop it first" in again.stderr
        finally:
            stopped = one_machine("stop", name)
        assert stopped.returncode == 0, stopped.stderr
        assert processes_of(name) == []
        assert one_machine("status", name).returncode == 1
    assert slurm.sinfo()["c1"] == "idle"


def test_a_machine_that_cannot_run_it_is_told_why(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path)}
    command = [sys.executable, ONE_MACHINE, "start", tmp_path / "s"]
    ran = subprocess.run(command, env=bare, capture_output=True, text=True)
    assert ran.returncode == 3
    assert "apt-get install -y munge slurmctld slurmd slurm-client" in ran.stderr
    (tmp_path / "theirs").write_text("x", encoding="utf-8")
    ran = one_machine("start", str(tmp_path))
    assert ran.returncode in (1, 3)
    assert (tmp_path / "theirs").exists()


def test_daemons_are_killed_and_started_again_and_jobs_continue(slurm: Slurm, tmp_path: Path) -> None:
    script = f"touch {tmp_path}/began; until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo on"
    job = slurm.sbatch("-o", str(tmp_path / "out"), wrap=script)
    slurm.wait((tmp_path / "began").exists)
    # Slurm saves its jobs every five seconds if one has changed, and a controller that is killed before that
    # forgets the newest. The start may be saved before the script runs, and then nothing more
    changed = time.time()
    slurm.run("scontrol", "update", f"JobId={job}", "Comment=saved")
    slurm.wait(lambda: (slurm.folder / "state" / "job_state").stat().st_mtime > changed)
    for daemon in (f"slurmd-{slurm.job(job)['NodeList']}", "slurmctld"):
        done = one_machine("restart", str(slurm.folder), daemon, "--away", "0.5")
        assert done.returncode == 0, done.stderr
    (tmp_path / "go").touch()
    # the controller waits for a moment before it takes its place again
    slurm.wait(lambda: "COMPLETED" in job_states(slurm, job), 60)
    assert (tmp_path / "out").read_text() == "on\n"
    unknown = one_machine("restart", str(slurm.folder), "munged")
    assert unknown.returncode == 1
    assert "no daemon 'munged'" in unknown.stderr


def job_states(slurm: Slurm, job: int) -> str:
    """What the controller says of a job; empty while it does not answer."""
    command = ["scontrol", "-o", "show", "job", str(job)]
    return subprocess.run(command, env=slurm.environment, capture_output=True, text=True).stdout
