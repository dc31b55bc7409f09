"""What came of a program on a node, by what SLURM says of its job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.profile import Profile
from infra.slurm import commands, node_calls
from infra.slurm.commands import Job
from infra.slurm.node_calls import MARK, NodeAnswer, NodeProgram, run_on_nodes
from storage_schemas.errors import PrerequisiteError

NAME = "slvmeval-r-cpu"


class Calls:
    """Calls a node by commands of SLURM that do nothing."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.cancelled: list[str] = []
        self.told: list[str] = []

    def answer(self, jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> NodeAnswer:
        """Return what came of a call if SLURM lists these jobs."""
        monkeypatch.setattr(commands, "jobs", lambda names: jobs)
        profile = Profile.model_validate(
            {"pools": {"cpu": {"partition": "p", "cores": 2, "memory": "2GiB", "walltime": "01:00:00"}}}
        )
        profile._file = Path("s.toml")
        program, limits = NodeProgram("cpu", "r", (), "", self.log), {"wait_s": 0.0, "run_s": 0.05}
        (came,) = run_on_nodes(
            profile, [program], self.log.parent, **limits, poll_s=0.01, tell=self.told.append
        )
        assert self.cancelled[-1:] == [NAME]
        return came


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(tmp_path)
    monkeypatch.setattr(commands, "submit", lambda script: "7")
    monkeypatch.setattr(commands, "cancel_by_name", made.cancelled.extend)
    monkeypatch.setattr(node_calls, "_FILE_COMES_S", 0.0)
    monkeypatch.setattr(node_calls, "_SETTLES_S", 0.0)
    return made


def waiting(reason: str) -> list[Job]:
    return [Job("7", NAME, "PENDING", reason)]


def ended(state: str, reason: str = "") -> list[Job]:
    return [Job("7", NAME, state, reason, "n3")]


def test_the_last_answer_in_the_log_counts(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    calls.log.write_text(f'loading\n{MARK}{{"a": 1}}\n{MARK}{{"a": 2}}\nslurmstepd: error\n')
    assert calls.answer(ended("COMPLETED"), monkeypatch) == NodeAnswer({"a": 2})
    assert calls.told == ["job 7: completed"]
    # it is still being written
    calls.log.write_text(f'{MARK}{{"a":')
    assert calls.answer(ended("COMPLETED"), monkeypatch).answer is None


def test_a_job_that_only_waited_tells_nothing_of_the_node(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved, most = "ReqNodeNotAvail, Reserved", "QOSMaxCpuPerUserLimit"
    for reason in ("Priority", "Resources", reserved, most, "None"):
        came = calls.answer(waiting(reason), monkeypatch)
        assert came.waited
        assert f"job 7 was still waiting ({reason}) after 0 s and was cancelled" in came.problem
        assert "--set max_wait=…" in came.problem


def test_a_reason_that_nobody_knows_is_for_the_user_to_judge(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = calls.answer(waiting("The licence server says no"), monkeypatch)
    assert came.waited
    assert "SLURM says: The licence server says no. If that does not end by itself" in came.problem
    assert "change pools.cpu in profile s.toml" in came.problem


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
    reasons: tuple[str, ...], keys: str, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    # one that is held has no key to change
    held = calls.answer(waiting("JobHeldAdmin"), monkeypatch)
    assert held.problem.endswith("`scontrol release` releases it")
    for reason in reasons:
        came = calls.answer(waiting(reason), monkeypatch)
        assert not came.waited
        assert f"would never start by itself ({reason})" in came.problem
        assert f"look at pools.cpu.{keys}" in came.problem
        assert "profile s.toml" in came.problem


@pytest.mark.parametrize(
    ("jobs", "log", "words"),
    [
        (ended("RUNNING"), "", "job 7 ran on n3 and did not report in time"),
        (
            ended("FAILED", "NonZeroExitCode"),
            "slurm_script: line 9: /no/python: No such file or directory",
            r"job 7 ended as failed on n3 without an answer: look at pools.cpu.python and pools.cpu.setup in "
            r"profile s.toml. The end of its log:\n.*/no/python: No such file or directory",
        ),
        (ended("OUT_OF_MEMORY"), "killed", "more memory than allowed; raise pools.cpu.memory in"),
        (ended("TIMEOUT"), "still loading", "longer than its time limit"),
        (ended("FAILED"), "", "ended as failed on n3, but its report did not reach .*job_logs in profile"),
        ([], "", "its job ended, but its report did not reach"),
    ],
)
def test_a_node_that_said_nothing(
    jobs: list[Job], log: str, words: str, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    if log:
        calls.log.write_text(log)
    came = calls.answer(jobs, monkeypatch)
    assert (came.answer, came.waited) == (None, False)
    assert re.search(words, came.problem)


def test_a_job_that_slurm_refuses_names_the_pool(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(script: str) -> str:
        raise PrerequisiteError("sbatch failed: Invalid account")

    monkeypatch.setattr(commands, "submit", refuse)
    came = calls.answer([], monkeypatch)
    assert came == NodeAnswer(
        None, problem="sbatch failed: Invalid account: look at pools.cpu in profile s.toml"
    )
