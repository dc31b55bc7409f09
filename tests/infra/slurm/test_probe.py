from __future__ import annotations

import importlib.util
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from infra.profile import Profile
from infra.slurm import worker_checks
from infra.slurm.node_calls import MARK, NodeProgram
from infra.slurm.probe import listening, report_program
from infra.slurm.run_folder import RunFile, versions
from infra.tls import Credentials, credential_files
from tests.own_time import own_time

POOL = {"partition": "p", "cores": 8, "memory": "20GiB", "walltime": "10:00:00"}


@pytest.fixture(autouse=True)
def no_gpus(fake: Callable[[str, str], Path]) -> None:
    """Let a command say that there is no GPU; without it torch would be imported, which takes long."""
    fake("nvidia-smi", "exit 0")


@pytest.fixture
def driver() -> Iterator[tuple[str, int, str]]:
    with listening("127.0.0.1") as (port, secret):
        yield "127.0.0.1", port, secret


@pytest.fixture
def good(driver: tuple[str, int, str], tmp_path: Path) -> dict[str, Any]:
    """A request of which nothing is wrong here."""
    host, port, secret = driver
    folder = tmp_path / "it's the store"
    Credentials("", "").write(folder / "run")
    files = credential_files(folder / "run")
    run_file = folder / "run" / "run.json"
    run_file.write_text(RunFile(scheduler="ours", versions=versions()).model_dump_json(), encoding="utf-8")
    return {
        "pool": "cpu",
        "profile": "profile s.toml",
        "gpus": 0,
        "store": str(folder),
        "run_file": str(run_file),
        "scheduler": "ours",
        "credentials": [files.certificate, files.key],
        "readable": [str(tmp_path)],
        "writable": [str(tmp_path)],
        "versions": versions(),
        "modules": ["json"],
        "interface": "lo",
        "driver": [host, port],
        "secret": secret,
    }


def script(tmp_path: Path, request: dict[str, Any], **pool: Any) -> str:
    profile = Profile.model_validate({"pools": {"cpu": POOL | pool}})
    text, log = report_program(request), tmp_path / "a log"
    return NodeProgram("cpu", "doctor-7", ("-",), text, log, "n7", False).script(profile, tmp_path)


def ran(text: str) -> dict[str, Any]:
    done = subprocess.run(["bash"], input=text, capture_output=True, text=True, timeout=120, check=True)
    (line,) = done.stdout.splitlines()
    return dict(json.loads(line.removeprefix(MARK)))


def test_the_job_of_a_worker_tells_what_its_checks_find(good: dict[str, Any], tmp_path: Path) -> None:
    scratch = tmp_path / "local-$NAME"
    setup = {"setup": ["export NAME=one"], "scratch": str(scratch)}
    found = ran(script(tmp_path, good, **setup))
    assert found["problems"] == []
    assert found["python"].startswith(versions()["python"])
    assert list((tmp_path / "local-one").iterdir()) == []
    # a Python without our packages tells the same
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    packages, imports = ran(script(tmp_path, good | {"modules": ["numpy"]}, python=str(python)))["problems"]
    assert "slvmeval is not installed here, but" in packages
    assert "look at pools.cpu.python and pools.cpu.setup in profile s.toml" in packages
    assert "numpy cannot be imported (ModuleNotFoundError" in imports


def test_the_job_asks_for_what_a_worker_asks_for_on_the_node_that_is_meant(
    good: dict[str, Any], tmp_path: Path
) -> None:
    text = script(tmp_path, good, directives=["--exclude=n1"], setup=["true"])
    header = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    assert header[-2:] == [f'#SBATCH --output="{tmp_path}/a log"', "#SBATCH --nodelist=n7"]
    for line in ("#SBATCH -p p", "#SBATCH --cpus-per-task=8", "#SBATCH --mem=20480M", "#SBATCH -t 10:00:00"):
        assert line in header, header
    assert "#SBATCH -J slvmeval-doctor-7-cpu" in header
    assert "#SBATCH --exclude=n1" in header
    assert "-m infra.slurm.worker" not in text
    assert "export PYTHONSAFEPATH=1" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"store": "/none"}, "the store /none is not visible here|store in profile s.toml"),
        ({"scheduler": "another"}, "is not the driver's store but another one|run/run.json of this run"),
        ({"credentials": ["/none"]}, "certificate /none cannot be read on this node|store in profile s.toml"),
        ({"readable": ["/none"]}, "/none is not there: put it on a|(model_folders in profile s.toml)"),
        ({"writable": ["/none"]}, "/none is not there: put it on a|(job_logs in profile s.toml)"),
        ({"versions": {"python": "2.7"}}, f"but 2.7 in the driver: this Python is {sys.executable}"),
        (
            {"versions": {"slvmeval": "0"}},
            "but 0 in the driver|pools.cpu.python and pools.cpu.setup in profile s.toml",
        ),
        (
            {"modules": ["no_such_module"]},
            "no_such_module cannot be imported (ModuleNotFoundError|pools.cpu.python",
        ),
        (
            {"driver": ["127.0.0.1", 1]},
            "cannot connect to the driver's machine (|refused|scheduler_interface in profile s.toml",
        ),
        (
            {"interface": "ib7"},
            "no interface 'ib7' with an address|change pools.cpu.interface in profile s.toml|here: lo",
        ),
        ({"secret": "another"}, "cannot connect to a worker here (no answer)"),
    ],
)
def test_each_thing_that_is_wrong_says_what_to_change(
    changes: dict[str, Any], words: str, good: dict[str, Any], fit: None
) -> None:
    assert worker_checks.report(good)["problems"] == []
    (problem,) = worker_checks.report(good | changes)["problems"]
    for word in words.split("|"):
        assert word in problem


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let this process be as that of a job, and wait for nothing."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(private))
    monkeypatch.setenv(worker_checks.SCRATCH, str(tmp_path))
    monkeypatch.setattr(worker_checks, "sys", Mock(flags=Mock(safe_path=True), executable=sys.executable))
    own_time(monkeypatch, worker_checks, monotonic=itertools.count(step=100).__next__)


def test_all_that_is_wrong_is_told(good: dict[str, Any], fit: None) -> None:
    bad = {"scheduler": "another", "modules": ["no_such_module"], "interface": "ib7"}
    assert len(worker_checks.report(good | bad)["problems"]) == 3


def test_a_folder_for_temporary_files_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = worker_checks.WorkerChecks("cpu", "profile s.toml")
    (tmp_path / "file").touch()
    (problem,) = checks.temporary_files(f"{tmp_path}/file/below", "")
    assert problem.startswith(f"scratch {tmp_path}/file/below: Not a directory: set pools.cpu.scratch in ")
    (problem,) = checks.temporary_files(str(tmp_path), "")
    assert "cannot be written" in problem
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    (problem,) = checks.temporary_files(str(tmp_path), str(theirs))
    assert problem.startswith(f"scratch {theirs} is open to other users: set pools.cpu.scratch")


def test_a_worker_that_the_driver_cannot_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = closed.getsockname()[1]
    with listening("127.0.0.1") as (port, secret), socket.create_connection(("127.0.0.1", port)) as calling:
        word = json.dumps({"secret": secret, "address": ["127.0.0.1", gone]})
        calling.sendall(f"{word}\n".encode())
        assert b"refused" in calling.recv(1000)


def test_a_silent_caller_keeps_no_node_waiting() -> None:
    with listening("127.0.0.1") as driver, socket.create_connection(("127.0.0.1", driver[0])):
        # the first caller says nothing, and stays
        assert (
            worker_checks.WorkerChecks("cpu", "site.toml").network(("127.0.0.1", driver[0]), driver[1], None)
            == []
        )


def test_an_error_while_the_driver_calls_back_is_a_finding() -> None:
    with socket.create_server(("127.0.0.1", 0)) as driver:
        answers = threading.Thread(target=lambda: driver.accept()[0].close())
        answers.start()
        checks = worker_checks.WorkerChecks("cpu", "site.toml")
        (problem,) = checks.network(driver.getsockname(), "secret", None)
        answers.join()
    assert problem.startswith("the driver's machine cannot connect to a worker here (")


def test_strangers_get_no_answer_and_end_nothing() -> None:
    words = (b"\n", b"GET / HTTP/1.1\n", b'{"secret": "x", "address": ["127.0.0.1", 1]}\n')
    with listening("127.0.0.1") as (port, _secret):
        for word in words * 2:
            with socket.create_connection(("127.0.0.1", port)) as calling:
                calling.sendall(word)
                assert calling.recv(1000) == b""
    assert not any(thread.name == "probe" for thread in threading.enumerate())


def test_each_worker_of_the_job_needs_a_gpu(
    good: dict[str, Any], fit: None, fake: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("nvidia-smi", "echo '0, GPU-a, NVIDIA H100'; echo '1, GPU-b, NVIDIA H100'")
    request = good | {"pool": "h100", "gpus": 2}
    for visible in ("0,1", None):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        found = worker_checks.report(request)
        assert (found["gpus"], found["gpu_problems"]) == (["NVIDIA H100"] * 2, [])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    (problem,) = worker_checks.report(request)["gpu_problems"]
    assert "worker process 1 of the job has no GPU" in problem
    assert "look at pools.h100.gres and pools.h100.gpus in profile s.toml" in problem
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else find(name))
    fake("nvidia-smi", "echo 'no driver' >&2\nexit 9")
    (problem, _) = worker_checks.report(request)["gpu_problems"]
    assert problem.startswith("SLURM assigned the GPU 0, which does not answer")
