"""What `doctor` says of a node on which it ran a probe."""

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
    allow_cpu_models: bool = False,
) -> list[Finding]:
    values = {"pools": {"cpu": POOL, "h100": GPU}, "allow_cpu_models": allow_cpu_models}
    site, probed = Profile.model_validate(values), Probed("n1", job, reply, log, "token")
    return node_findings(site, "profile s.toml", pool, probed, STORE)


def failure(*given: Any, **more: Any) -> str:
    """The message of the one thing that is found, a failure."""
    (finding,) = findings(*given, **more)
    assert finding.verdict is CheckVerdict.FAIL
    return finding.message


def waiting(reason: str) -> Job:
    return Job("7", "probe", "PENDING", reason)


def ended(state: str, reason: str = "") -> Job:
    return Job("7", "probe", state, reason, "n3")


def test_a_node_on_which_all_is_well() -> None:
    said = f"n1: Python {PYTHON}.9, the same store and versions, GPU 0: NVIDIA H100, reaches this machine"
    assert findings("h100", answer()) == [Finding("node of h100", CheckVerdict.OK, said)]
    (finding,) = findings("cpu", answer(gpus={"given": [], "seen": None}))
    assert finding.verdict is CheckVerdict.OK
    assert "GPU" not in finding.message


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("token", None, "/shared/store does not exist there|store in profile s.toml"),
        ("token", "another", "is a different folder|store in profile s.toml"),
        ("folder_errors", {"/w": "is away"}, "/w is away|model_folders, job_logs in profile s.toml"),
        ("python", "2.7.1", f"python 2.7 (here {PYTHON})|pools.h100.python|/shared/python"),
        ("versions", {"slvmeval": None}, "slvmeval missing (here|pools.h100.setup in profile s.toml"),
        ("import_errors", {"cv2": "ImportError: libGL"}, "cannot import cv2: ImportError: libGL"),
        ("scratch_error", "/l: denied", "scratch /l: denied: change pools.h100.scratch in profile s.toml"),
        (
            "driver_error",
            "late",
            "cannot connect to this machine (late)|scheduler_interface in profile s.toml",
        ),
        (
            "worker_error",
            "no ib9",
            "ib9|change pools.h100.interface in profile s.toml. Its interfaces: lo, ib0",
        ),
        (
            "gpus",
            {"given": [], "seen": None},
            "SLURM gave the job 0 GPUs of 1|pools.h100.gres and pools.h100.gpus in profile s.toml",
        ),
        ("gpus", {"given": ["0"], "seen": []}, "SLURM gave the job GPU 0, but its driver shows no GPU"),
    ],
)
def test_each_thing_that_is_wrong_says_what_to_change(field: str, value: Any, words: str) -> None:
    message = failure("h100", answer(**{field: value}))
    assert message.startswith("n1: ")
    for word in words.split("|"):
        assert word in message


def test_all_that_is_wrong_is_reported() -> None:
    bad = answer(python="2.7.1", driver_error="refused", scratch_error="/x: full", import_errors={"av": "x"})
    assert len(findings("h100", bad)) == 4


def test_a_missing_gpu_is_a_warning_where_models_may_run_without() -> None:
    good, warning = findings("h100", answer(gpus={"given": ["0"], "seen": None}), allow_cpu_models=True)
    assert (good.verdict, warning.verdict) == (CheckVerdict.OK, CheckVerdict.WARN)
    assert "allow_cpu_models" in warning.message


def test_a_job_that_only_waited_was_not_checked() -> None:
    reserved, most = "ReqNodeNotAvail, Reserved", "QOSMaxCpuPerUserLimit"
    for reason in ("Priority", "Resources", reserved, most, "None"):
        (finding,) = findings(job=waiting(reason))
        assert finding.verdict is CheckVerdict.UNSEEN
        assert f"n1 was not checked: the probe job was still waiting ({reason})" in finding.message
        assert "--set max_wait=…" in finding.message


def test_a_reason_that_nobody_knows_is_for_the_user_to_judge() -> None:
    (finding,) = findings(job=Job("7", "probe", "PENDING", "The licence server says no"))
    assert finding.verdict is CheckVerdict.UNSEEN
    assert "SLURM says: The licence server says no. If that does not end by itself" in finding.message


@pytest.mark.parametrize(
    ("reasons", "keys"),
    [
        (("AccountNotAllowed", "InvalidAccount"), "account, pools.cpu.partition"),
        (("InvalidQOS", "QOSNotAllowed"), "qos"),
        (("PartitionTimeLimit", "QOSMaxWallDurationPerJobLimit"), "walltime, pools.cpu.qos"),
        (("AssocMaxWallDurationPerJobLimit",), "walltime, pools.cpu.qos"),
        (("QOSMaxCpuPerJobLimit", "AssocMaxCpuPerJobLimit"), "cores, pools.cpu.qos"),
        (("QOSMaxMemoryPerJob", "MaxMemPerLimit"), "memory, pools.cpu.qos"),
        (("QOSMaxGRESPerJob", "QOSMinGRES"), "gpus, pools.cpu.qos"),
        (("PartitionNodeLimit", "PartitionDown"), "partition"),
        (("BadConstraints",), "constraint"),
        (("AssocGrpCPUMinutesLimit",), "account"),
    ],
)
def test_a_wait_that_does_not_end_is_an_error_with_what_to_change(
    reasons: tuple[str, ...], keys: str
) -> None:
    # one that is held has no key to change
    assert failure(job=waiting("JobHeldAdmin")).endswith("`scontrol release` lets it go")
    for reason in reasons:
        message = failure(job=waiting(reason))
        assert f"would never start by itself ({reason})" in message
        assert f"look at pools.cpu.{keys}" in message
        assert "profile s.toml" in message


@pytest.mark.parametrize(
    ("job", "log", "words"),
    [
        (ended("RUNNING"), "", "ran on n3 and did not report in time"),
        (
            ended("FAILED", "NonZeroExitCode"),
            "slurm_script: line 9: /no/python: No such file or directory",
            "/no/python: No such file or directory: look at python and setup of pools.cpu in profile s.toml",
        ),
        (ended("FAILED"), "", "(FAILED on n3), and its report did not reach /shared/store"),
        (None, "", "the probe job ended, and its report did not reach /shared/store"),
    ],
)
def test_a_node_that_said_nothing(job: Job | None, log: str, words: str) -> None:
    assert words in failure(job=job, log=log)
