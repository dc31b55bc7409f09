"""The job scripts as they are sent, as text that a person can read: files in `scripts/`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import dask.config
import pytest

from infra.pool import Pool
from infra.profile import Profile
from infra.slurm import commands
from infra.slurm.job_script import job_name, job_script, log_path
from infra.slurm.worker_setup import worker_index
from storage_schemas.errors import UserInputError
from storage_schemas.provenance import POOL_VARIABLE

SCRIPTS = Path(__file__).parent / "scripts"
STORE = Path("/data/group store/slvmeval")
WHERE: dict[str, Any] = {"run": "main-42", "scheduler": "tls://10.0.0.1:34567", "store": STORE}

PLAIN: dict[str, Any] = {"partition": "cpu", "cores": 4, "memory": "8GiB", "walltime": "01:00:00"}
FULL: dict[str, Any] = {
    "partition": "b-batch",
    "cores": 30,
    "memory": "250GB",
    "walltime": "1-12:00:00",
    "gpus": 4,
    "gres": "gpu:h100",
    "minimum": 1,
    "maximum": 8,
    "account": "group-7",
    "qos": "long",
    "reservation": "course",
    "constraint": "[rack1|rack2]&ib",
    "directives": ("--exclude=n13", '--comment="two words"'),
    "setup": ("module load cuda/13", 'export NUMBA_CACHE_DIR="$HOME/numba"'),
    "scratch": "/local/$USER/${SLURM_JOB_ID}",
    "interface": "ib0",
    "python": "/data/envs/it's mine/bin/python",
    "longest_item": "04:00:00",
    "idle_s": 120,
}


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(commands, "user_name", lambda: "alice")


def script(pool: str, profile: Profile | None = None, **fields: Any) -> str:
    if profile is None:
        pools = {"cpu": PLAIN} | ({"h100": FULL} if pool == "h100" else {})
        pools[pool] = {**pools[pool], **fields}
        profile = Profile(pools={name: Pool(**values) for name, values in pools.items()})  # type: ignore[misc]
    return job_script(profile, pool, **WHERE, index=3)


def test_a_plain_pool_and_one_with_every_field() -> None:
    cpu = script("cpu", python="/opt/env/bin/python")
    assert cpu == (SCRIPTS / "cpu.sh").read_text(encoding="utf-8")
    profile = Profile(
        prefect_api_url="http://head:4200/api",
        allow_cpu_models=True,
        job_logs="/data/logs",
        pools={"cpu": Pool(**PLAIN), "h100": Pool(**FULL)},
    )
    preload = ("flows.prefect_executor", "tasks.pairs.stages")
    h100 = job_script(profile, "h100", **WHERE, index=12, preload=preload)
    assert h100 == (SCRIPTS / "h100.sh").read_text(encoding="utf-8")


def test_jobs_of_an_array_have_names_and_logs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POOL_VARIABLE, "cpu")
    profile = Profile(pools={"cpu": Pool(**PLAIN)})
    one, many = (job_script(profile, "cpu", **WHERE, index=3, tasks=tasks).splitlines() for tasks in (1, 30))
    more = [line for line in many if line not in one]
    assert more[:2] == [
        "#SBATCH --array=0-29",
        f'#SBATCH --output="{STORE}/cache/slurm-logs/%x-%A_%a.log"',
    ]
    assert "--name cpu-3.$SLURM_ARRAY_TASK_ID " in more[2]
    # the number of a worker in its job follows, as for single jobs
    assert worker_index("cpu-3.29-2") == worker_index("cpu-3-2") == 2


def test_the_users_own_settings_of_dask_jobqueue_change_nothing() -> None:
    plain = script("cpu")
    theirs = {"queue": "theirs", "account": "theirs", "worker-extra-args": ["--lifetime", "1m"]}
    theirs |= {"job-script-prologue": ["rm -rf x"], "job-directives-skip": ["--mem"], "log-directory": "/no"}
    with dask.config.set({"jobqueue.slurm": theirs, "jobqueue.slvmeval": theirs}):
        assert script("cpu") == plain


def test_what_a_shell_reads_is_a_worker_with_these_arguments(tmp_path: Path) -> None:
    """Run the script with a python that prints what it is given."""
    python = tmp_path / "a python; echo" / "python"
    python.parent.mkdir()
    python.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" "$SLVMEVAL_WORKER_STORE" "$PYTHONPATH" "$PYTHONSAFEPATH"\n'
    )
    python.chmod(0o755)
    local = tmp_path / "local"
    text = script("h100", python=str(python), setup=(), scratch=f"{local}/$JOB/a b", interface="ib0;x")
    # the script's own variable is not that of the environment, which it would remove
    variables = {"JOB": "7; rm x", "PATH": os.environ["PATH"], "slvmeval_tmp": str(python.parent)}
    variables["PYTHONPATH"] = ":/a b::/c:"
    ran = subprocess.run(["bash"], input=text, text=True, capture_output=True, env=variables, check=True)
    lines = ran.stdout.splitlines()
    assert lines[:3] == ["-m", "infra.slurm.worker", "tls://10.0.0.1:34567"]
    folder = Path(lines[lines.index("--local-directory") + 1])
    assert folder.parent == local / "7; rm x" / "a b"
    assert list(folder.parent.iterdir()) == [], "removed at the end"
    assert python.exists()
    assert lines[lines.index("--nworkers") + 1] == "4"
    assert lines[lines.index("--interface") + 1] == "ib0;x"
    assert lines[-3:] == [str(STORE), "/a b:/c", "1"], "no empty part, which is the working directory"
    assert ran.stderr == ""


REFUSED: dict[str, tuple[object, ...]] = {
    "partition": ("a'b",),
    "account": ("#x",),
    "qos": ('a"b',),
    "reservation": ("a'b",),
    "constraint": ("a\\b",),
    "gres": ("gpu\x01",),
    "scratch": ("/local/$(rm -rf ~)", "/local/`id`", '/a"; id; "'),
    "directives": tuple(
        (line,)
        for line in ("--job-name=x", "--job=x", "-Jx", "-o /dev/null", "--array=1-9", "rm -rf x", "--mem=1\r")
    ),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_cannot_stand_in_a_script_is_refused_by_name(field: str) -> None:
    for value in REFUSED[field]:
        with pytest.raises(UserInputError, match=rf"pools\.h100\.{field}"):
            script("h100", **{field: value})


def test_a_directive_that_begins_like_one_of_ours_is_taken_and_no_folder_that_sbatch_does_not_take() -> None:
    with pytest.raises(UserInputError, match="job_logs"):
        script("cpu", Profile(job_logs="/logs/%u", pools={"cpu": Pool(**PLAIN)}))
    lines = script("cpu", directives=("--nodelist=n1", "--exclusive", "--ntasks-per-node=1")).splitlines()
    assert lines[lines.index("#SBATCH --nodelist=n1") + 1] == "#SBATCH --exclusive"


def test_the_prefect_server_is_the_profiles_or_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "PREFECT" not in script("cpu")
    monkeypatch.setenv("PREFECT_API_URL", "http://here/api")
    monkeypatch.setenv("PREFECT_API_KEY", "secret")
    text = script("cpu")
    assert "export PREFECT_API_URL=http://here/api\n" in text
    assert "secret" not in text
    profile = Profile(prefect_api_url="http://head/api", pools={"cpu": Pool(**PLAIN)})
    assert "export PREFECT_API_URL=http://head/api\n" in script("cpu", profile)


def test_memory_and_threads_are_those_of_the_job_not_of_a_worker() -> None:
    lines = script("cpu", cores=8, workers=3, memory="1000MB").splitlines()
    assert "#SBATCH --mem=954M" in lines
    assert "#SBATCH --cpus-per-task=8" in lines
    assert "--nthreads 1 " in lines[-1]
    assert "--nworkers 3 " in lines[-1]
    assert "--nworkers" not in script("cpu", workers=1)


def test_the_name_of_a_run_is_plain_and_a_log_named_after_its_job() -> None:
    for run in ("", "a b", "a;b", "a,b", "-a", "ü", "x" * 65):
        with pytest.raises(UserInputError, match="a run's name"):
            job_name(run, "cpu")
    profile = Profile(pools={"cpu": Pool(**PLAIN)})
    path = log_path(profile, STORE, job_name("r", "cpu"), "17")
    assert path == STORE / "cache/slurm-logs/slvmeval-r-cpu-17.log"


def test_unfit_nodes_are_left_out_besides_those_of_the_profile() -> None:
    for given, expected in (
        ((), "--exclude=n1,n2"),
        (("--exclude=n[7-9]",), "--exclude=n[7-9],n1,n2"),
        (("-x n5", "--exclusive"), "--exclude=n5,n1,n2"),
    ):
        profile = Profile(pools={"cpu": Pool(**{**PLAIN, "directives": given})})
        text = job_script(profile, "cpu", **WHERE, index=1, exclude={"n2": "", "n1": ""})
        lines = [line for line in text.splitlines() if line.startswith("#SBATCH")]
        assert lines[-1] == f"#SBATCH {expected}"
