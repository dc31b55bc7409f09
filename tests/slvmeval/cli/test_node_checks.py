from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.profile import Profile
from infra.slurm.commands import Job
from infra.slurm.probe import Probed
from infra.slurm.run_folder import versions
from slvmeval.cli.doctor.finding import CheckVerdict, Finding
from slvmeval.cli.doctor.nodes import node_findings

STORE = Path("/shared/store")
PYTHON = versions()["python"]
POOL = {"partition": "p", "cores": 2, "memory": "2GiB", "walltime": "01:00:00"}
GPU = {**POOL, "gpus": 1}
DONE = Job("7", "probe", "COMPLETED", "", "n1")


def site(allow_cpu_models: bool = False) -> Profile:
    values = {"pools": {"cpu": POOL, "h100": GPU}, "allow_cpu_models": allow_cpu_models}
    return Profile.model_validate(values)


def answer(**changes: Any) -> dict[str, Any]:
    good: dict[str, Any] = {
        "node": "n1",
        "python": f"{PYTHON}.9",
        "executable": "/shared/python",
        "versions": {name: text for name, text in versions().items() if name != "python"},
        "import_errors": {},
        "token": "token",
        "folder_errors": {"/shared/store": None, "/shared/weights": None},
        "scratch_error": None,
        "interfaces": ["lo", "ib0"],
        "gpus": {"given": ["0"], "seen": ["GPU 0: NVIDIA H100"]},
        "driver_error": None,
        "worker_error": None,
    }
    assert set(changes) <= set(good)
    return good | changes


def findings(
    pool: str = "cpu",
    reply: dict[str, Any] | None = None,
    job: Job | None = DONE,
    log: str = "",
    **of_site: bool,
) -> list[Finding]:
    return node_findings(
        site(**of_site), "profile s.toml", pool, Probed("n1", job, reply, log, "token"), STORE
    )


def test_a_node_on_which_all_is_well() -> None:
    assert findings("h100", answer()) == [
        Finding(
            "node of h100",
            CheckVerdict.OK,
            f"n1: Python {PYTHON}.9, the same store and versions, GPU 0: NVIDIA H100, reaches this machine",
        )
    ]
    (finding,) = findings("cpu", answer(gpus={"given": [], "seen": None}))
    assert finding.verdict is CheckVerdict.OK
    assert "GPU" not in finding.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"token": None}, ("/shared/store does not exist there", "store in profile s.toml")),
        ({"token": "another"}, ("is a different folder", "store in profile s.toml")),
        (
            {"folder_errors": {"/shared/weights": "is not there"}},
            ("/shared/weights is not there", "model_folders, job_logs in profile s.toml"),
        ),
        ({"python": "2.7.1"}, (f"python 2.7 (here {PYTHON})", "pools.h100.python", "/shared/python")),
        (
            {"versions": {"slvmeval": None}},
            ("slvmeval missing (here", "pools.h100.setup in profile s.toml"),
        ),
        ({"import_errors": {"cv2": "ImportError: libGL"}}, ("cannot import cv2: ImportError: libGL",)),
        (
            {"scratch_error": "/local/7: Permission denied"},
            ("scratch /local/7: Permission denied: change pools.h100.scratch in profile s.toml",),
        ),
        (
            {"driver_error": "timed out"},
            ("cannot connect to this machine (timed out)", "scheduler_interface in profile s.toml"),
        ),
        (
            {"worker_error": "no interface 'ib9' with an address"},
            ("ib9", "change pools.h100.interface in profile s.toml. Its interfaces: lo, ib0"),
        ),
        (
            {"gpus": {"given": [], "seen": None}},
            ("SLURM gave the job 0 GPUs of 1", "pools.h100.gres and pools.h100.gpus in profile s.toml"),
        ),
        ({"gpus": {"given": ["0"], "seen": []}}, ("SLURM gave the job GPU 0, but its driver shows no GPU",)),
    ],
)
def test_each_thing_that_is_wrong_says_what_to_change(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    (finding,) = findings("h100", answer(**changes))
    assert finding.verdict is CheckVerdict.FAIL
    assert finding.message.startswith("n1: ")
    for word in words:
        assert word in finding.message


def test_all_that_is_wrong_is_said() -> None:
    bad = answer(python="2.7.1", driver_error="refused", scratch_error="/x: full", import_errors={"av": "x"})
    assert len(findings("h100", bad)) == 4


def test_a_missing_gpu_is_a_warning_where_models_may_run_without() -> None:
    good, warning = findings("h100", answer(gpus={"given": ["0"], "seen": None}), allow_cpu_models=True)
    assert (good.verdict, warning.verdict) == (CheckVerdict.OK, CheckVerdict.WARN)
    assert "allow_cpu_models" in warning.message


@pytest.mark.parametrize(
    "reason",
    ["Priority", "Resources", "ReqNodeNotAvail, Reserved", "QOSMaxCpuPerUserLimit", "None"],
)
def test_a_job_that_only_waited_was_not_checked(reason: str) -> None:
    (finding,) = findings(job=Job("7", "probe", "PENDING", reason))
    assert finding.verdict is CheckVerdict.UNSEEN
    assert f"n1 was not checked: the probe job was still waiting ({reason})" in finding.message
    assert "--probe-wait" in finding.message


def test_a_reason_that_nobody_knows_is_for_the_user_to_judge() -> None:
    (finding,) = findings(job=Job("7", "probe", "PENDING", "The licence server says no"))
    assert finding.verdict is CheckVerdict.UNSEEN
    assert "SLURM says: The licence server says no. If that does not end by itself" in finding.message


@pytest.mark.parametrize(
    ("reason", "keys"),
    [
        ("AccountNotAllowed", "pools.cpu.account, pools.cpu.partition"),
        ("InvalidAccount", "pools.cpu.account, pools.cpu.partition"),
        ("InvalidQOS", "pools.cpu.qos"),
        ("QOSNotAllowed", "pools.cpu.qos"),
        ("PartitionTimeLimit", "pools.cpu.walltime, pools.cpu.qos"),
        ("QOSMaxWallDurationPerJobLimit", "pools.cpu.walltime, pools.cpu.qos"),
        ("AssocMaxWallDurationPerJobLimit", "pools.cpu.walltime, pools.cpu.qos"),
        ("QOSMaxCpuPerJobLimit", "pools.cpu.cores, pools.cpu.qos"),
        ("AssocMaxCpuPerJobLimit", "pools.cpu.cores, pools.cpu.qos"),
        ("QOSMaxMemoryPerJob", "pools.cpu.memory, pools.cpu.qos"),
        ("MaxMemPerLimit", "pools.cpu.memory, pools.cpu.qos"),
        ("QOSMaxGRESPerJob", "pools.cpu.gpus, pools.cpu.qos"),
        ("QOSMinGRES", "pools.cpu.gpus, pools.cpu.qos"),
        ("PartitionNodeLimit", "pools.cpu.partition"),
        ("PartitionDown", "pools.cpu.partition"),
        ("BadConstraints", "pools.cpu.constraint"),
        ("AssocGrpCPUMinutesLimit", "pools.cpu.account"),
    ],
)
def test_a_wait_that_does_not_end_is_an_error_with_what_to_change(reason: str, keys: str) -> None:
    (finding,) = findings(job=Job("7", "probe", "PENDING", reason))
    assert finding.verdict is CheckVerdict.FAIL
    assert f"would never start by itself ({reason})" in finding.message
    assert f"look at {keys}" in finding.message
    assert "profile s.toml" in finding.message


def test_a_held_job_has_no_key_to_change() -> None:
    (finding,) = findings(job=Job("7", "probe", "PENDING", "JobHeldAdmin"))
    assert finding.verdict is CheckVerdict.FAIL
    assert finding.message.endswith("`scontrol release` lets it go")


@pytest.mark.parametrize(
    ("job", "log", "words"),
    [
        (Job("7", "probe", "RUNNING", "", "n3"), "", "ran on n3 and did not report in time"),
        (
            Job("7", "probe", "FAILED", "NonZeroExitCode", "n3"),
            "slurm_script: line 9: /no/python: No such file or directory",
            "/no/python: No such file or directory: look at python and setup of pools.cpu in profile s.toml",
        ),
        (
            Job("7", "probe", "FAILED", "", "n3"),
            "",
            "(FAILED on n3), and its report did not reach /shared/store",
        ),
        (None, "", "the probe job ended, and its report did not reach /shared/store"),
    ],
)
def test_a_node_that_said_nothing(job: Job | None, log: str, words: str) -> None:
    (finding,) = findings(job=job, log=log)
    assert finding.verdict is CheckVerdict.FAIL
    assert words in finding.message
