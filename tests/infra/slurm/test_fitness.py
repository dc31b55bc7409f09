"""A worker that does not see what the driver sees says what it is and what to do."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.profile import Profile
from infra.slurm import worker_checks, worker_setup
from infra.slurm.run_folder import (
    make_log_folder,
    read_run_file,
    remove_run_folder,
    run_file,
    run_folder,
    versions,
    write_run_file,
)
from infra.slurm.worker_checks import WorkerChecks
from storage_schemas.errors import PrerequisiteError
from storage_schemas.provenance import GPU_VARIABLE, POOL_VARIABLE
from storage_schemas.store import Store
from tests.own_time import own_time

OURS = "tcp://10.0.0.1:1111"
CHECKS = WorkerChecks("cpu", "profile s.toml")
GPUS = "0, GPU-aaaa, NVIDIA H100 94GB\n1, GPU-bbbb, NVIDIA H100 94GB"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = Store.create(tmp_path / "store").root
    write_run_file(store, "run", OURS)
    return store


def check_store(store: Path, run: str, scheduler: str, **wait: float) -> list[str]:
    return CHECKS.store(str(store), str(run_file(store, run)), scheduler, **wait)


def test_the_drivers_store_is_known_by_the_run_that_it_holds(store: Path, tmp_path: Path) -> None:
    assert check_store(store, "run", OURS) == []
    missing = check_store(tmp_path / "elsewhere", "run", OURS)
    assert ["is not visible here" in problem for problem in missing] == [True]
    other = Store.create(tmp_path / "other").root
    for folder, run, scheduler in (
        (other, "run", OURS),  # a store, but not this one
        (store, "another", OURS),
        (store, "run", "tcp://10.0.0.1:2222"),  # an old run of the same name
    ):
        result = check_store(folder, run, scheduler, wait_s=0.0)
        assert ["is not the driver's store" in problem for problem in result] == [True]
    remove_run_folder(store, "run")
    assert not run_folder(store, "run").exists()


def test_a_file_that_a_shared_file_system_shows_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.create(tmp_path / "store").root
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        write_run_file(store, "run", OURS)

    own_time(monkeypatch, worker_checks, sleep=sleep)
    assert check_store(store, "run", OURS) == []
    assert len(slept) == 1


def test_a_store_that_cannot_be_written_is_reported(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(worker_checks.tempfile, "TemporaryFile", read_only)
    assert check_store(store, "run", OURS, wait_s=0.0) == [
        f"the store {store} cannot be written here (Read-only file system): mount it for writing"
    ]


def test_a_folder_of_logs_that_cannot_be_made_is_reported_and_half_a_run_file_is_none(
    store: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PrerequisiteError, match=r"/file/logs of the jobs' logs cannot be created .*job_logs"):
        make_log_folder(Profile(job_logs=str(tmp_path / "file" / "logs")), tmp_path)
    (run_folder(store, "run") / "run.json").write_text('{"scheduler"', encoding="utf-8")
    assert read_run_file(store, "run") is None


def test_versions_are_the_drivers() -> None:
    here = versions()
    assert here["slvmeval"]
    assert here["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    result = CHECKS.packages({**here, "dask": "1.0"})
    assert f"dask is {here['dask']} here, but 1.0 in the driver" in result[0]
    # this process has no PYTHONSAFEPATH: the only thing that is wrong with it
    assert [problem.split()[0] for problem in CHECKS.packages(here)] == ["PYTHONSAFEPATH"]


def test_a_stray_package_of_our_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").touch()
    code = "import sys; from infra.slurm.worker_checks import WorkerChecks\n"
    code += "check = WorkerChecks('p', 'f').packages; print(check({}))\n"
    code += "sys.path.insert(0, sys.argv[1]); print(check({}))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = {"PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=True)
    clean, stray = done.stdout.splitlines()
    assert clean == "[]"
    assert f"tasks from {tmp_path}" in stray


@pytest.mark.parametrize(
    ("visible", "index", "gpus", "device"),
    [
        ("0,1,2,3", 2, ["0", "1", "2", "3"], "2"),
        ("3", 0, [], "3"),
        ("GPU-aaaa,GPU-bbbb", 1, [], "GPU-bbbb"),
        ("0,1", 2, ["0", "1"], None),
        ("", 0, ["0"], None),
        (None, 1, ["0", "1"], "1"),
        (None, 0, [], None),
    ],
)
def test_each_worker_process_has_one_device(
    visible: str | None, index: int, gpus: list[str], device: str | None
) -> None:
    assert worker_checks.one_device(visible, index, gpus) == device


@pytest.mark.parametrize("pool", ["h100", "a-3.b-7"])
def test_the_index_follows_the_pool_and_the_number_of_the_job(
    pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POOL_VARIABLE, pool)
    for name, index in (("3", 0), ("12-0", 0), ("12-3", 3), ("0.4-17", 17), ("0.4", 0)):
        assert worker_setup.worker_index(f"{pool}-{name}") == index


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, store: Path) -> Callable[..., None]:
    """Set the variables of a job."""

    def set_variables(pool: str = "h100", **variables: str) -> None:
        given = {
            POOL_VARIABLE: pool,
            worker_checks.PROFILE: "profile s.toml",
            worker_setup.HARDWARE: "cpu" if pool == "cpu" else "gpu",
            worker_setup.STORE: str(store),
            worker_setup.RUN: "run",
            "SLURM_JOB_ID": "12",
            **variables,
        }
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        # what the worker sets is taken back afterwards
        monkeypatch.setenv(GPU_VARIABLE, "")
        for name, value in given.items():
            monkeypatch.setenv(name, value)

    return set_variables


def test_a_job_of_an_array_is_reported_as_slurm_lists_it(job: Callable[..., None]) -> None:
    job()
    assert worker_setup._where()["job"] == "12"
    job(SLURM_ARRAY_JOB_ID="11", SLURM_ARRAY_TASK_ID="3")
    assert worker_setup._where()["job"] == "11_3"


def problems(found: dict[str, object]) -> list[str]:
    output = found["problems"]
    assert isinstance(output, list)
    return [problem for problem in output if not problem.startswith("PYTHONSAFEPATH")]


def test_a_gpu_worker_takes_its_own_gpu_and_names_it(
    job: Callable[..., None], fake: Callable[[str, str], Path]
) -> None:
    fake("nvidia-smi", f"echo '{GPUS}'")
    job(CUDA_VISIBLE_DEVICES="0,1")
    result = worker_setup.look("h100-0-1", OURS)
    assert problems(result) == []
    assert result["device"] == "1 (NVIDIA H100 94GB)"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    job(CUDA_VISIBLE_DEVICES="0,1")
    third = worker_setup.look("h100-0-2", OURS)
    assert "worker process 2 of the job has no GPU" in problems(third)[0]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_a_gpu_that_does_not_answer_is_a_problem_unless_models_may_run_on_the_cpu(
    job: Callable[..., None], fake: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # as without torch, which would be asked then and takes long to import
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else find(name))
    fake("nvidia-smi", "echo 'NVIDIA-SMI has failed' ; exit 9")
    job(CUDA_VISIBLE_DEVICES="0")
    assert "which does not answer" in problems(worker_setup.look("h100-0", OURS))[0]
    job(CUDA_VISIBLE_DEVICES="0", **{worker_setup.ALLOW_CPU_MODELS: "1"})
    result = worker_setup.look("h100-0", OURS)
    assert problems(result) == []
    assert result["device"] == "0 (none visible)"


def test_a_cpu_worker_needs_no_gpu(job: Callable[..., None], fake: Callable[[str, str], Path]) -> None:
    calls = fake("nvidia-smi", "exit 1")
    job("cpu", CUDA_VISIBLE_DEVICES="")
    result = worker_setup.look("cpu-0-1", OURS)
    assert problems(result) == []
    assert result["device"] == "cpu"
    assert not calls.exists()


def test_what_cannot_be_imported_is_a_problem(
    job: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    job("cpu", **{worker_setup.PRELOAD: "json no_such_module"})
    monkeypatch.setattr(WorkerChecks, "packages", lambda *_: [])
    result = worker_setup.look("cpu-0", OURS)
    assert "no_such_module cannot be imported" in problems(result)[0]
