"""What SLURM's commands print is read right, and what they say on failure is told apart."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.slurm import commands
from infra.slurm.commands import Job, Node, Partition, SlurmAway
from storage_schemas.errors import PrerequisiteError

Fake = Callable[[str, str], Path]


def test_a_job_is_submitted_from_its_text(fake: Fake, tmp_path: Path) -> None:
    fake("sbatch", f'cat >"{tmp_path}/script"; echo "4711;cluster"')
    assert commands.submit("#!/bin/sh\necho ä\n") == "4711"
    assert (tmp_path / "script").read_text(encoding="utf-8") == "#!/bin/sh\necho ä\n"


def test_jobs_are_read_with_their_times(fake: Fake) -> None:
    calls = fake(
        "squeue",
        "cat <<'E'\n"
        "11|run-cpu|PENDING||N/A|N/A|held (a|b)\n"
        "12|run-cpu|RUNNING|n1|1795314534|1795318134|None\n"
        "13|run-h100|COMPLETING|n2|1795314534|1795314600|None\n"
        "14|run-h100|FAILED|n2|1795314534|1795314535|NonZeroExitCode\n"
        "15|run-cpu|CONFIGURING|n3|1795314534|1795318134|None\n"
        "E",
    )
    result = commands.jobs(["run-cpu", "run-h100"])
    assert result[:2] == [
        Job("11", "run-cpu", "PENDING", "held (a|b)"),
        Job("12", "run-cpu", "RUNNING", "", "n1", 1795314534.0, 1795318134.0),
    ]
    assert [(job.pending, job.running, job.there) for job in result] == [
        (True, False, True),
        (False, True, True),
        (False, False, True),
        (False, False, False),
        (True, False, True),
    ]
    assert f"--array --states=all --user={os.getuid()} --name=run-cpu,run-h100" in calls.read_text()


def test_partitions_and_nodes_are_read(fake: Fake) -> None:
    fake(
        "sinfo",
        'case "$*" in *--Node*)\n'
        "echo 'c1|vm|127.0.0.1|idle|4|8000|(null)|cpu|cpu'\n"
        "echo 'g1|gpu1|10.0.0.7|drained*|64+|1031000|gpu:h100:4(S:0-1)|ib,h100|gpu'\n"
        "echo 'g1|gpu1|10.0.0.7|drained*|64+|1031000|gpu:h100:4(S:0-1)|ib,h100|long';;\n"
        "*)\n"
        "echo 'cpu|up|2-00:00:00'; echo 'gpu|down|5:00'; echo 'gpu|down|5:00'; echo 'long|up|infinite';;\n"
        "esac",
    )
    assert commands.partitions() == [
        Partition("cpu", True, 172_800),
        Partition("gpu", False, 300),
        Partition("long", True, None),
    ]
    assert commands.nodes() == [
        Node("c1", "vm", "127.0.0.1", "idle", 4, 8000, "", ("cpu",), ("cpu",)),
        Node(
            "g1", "gpu1", "10.0.0.7", "drained*", 64, 1_031_000, "gpu:h100:4(S:0-1)", ("ib", "h100"),
            ("gpu", "long"),
        ),
    ]  # fmt: skip


AWAY = (
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    "squeue: error: Zero Bytes were transmitted or received",
    "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
)
REFUSALS = (
    "Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
    "sbatch: error: invalid partition specified: nope",
)


def test_a_controller_that_is_away_is_told_from_a_refusal(fake: Fake) -> None:
    for said in AWAY:
        for name in ("sbatch", "squeue", "scancel", "sinfo"):
            fake(name, f"echo '{said}' >&2; exit 1")
        for call in (lambda: commands.submit("x"), lambda: commands.jobs(["x"]), commands.nodes):
            with pytest.raises(SlurmAway, match=re.escape(said[-20:])):
                call()
        for cancel in (commands.cancel, commands.cancel_by_name):
            with pytest.raises(SlurmAway):
                cancel(["1"])
    for said in REFUSALS:
        fake("sbatch", f"echo '{said}' >&2; exit 1")
        with pytest.raises(PrerequisiteError, match=re.escape(said)):
            commands.submit("x")


def test_a_command_that_hangs_is_given_up(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake("squeue", "exec sleep 60")
    monkeypatch.setattr(commands, "TIMEOUT_S", 0.2)
    with pytest.raises(SlurmAway, match="squeue did not answer within"):
        commands.jobs(["x"])


def test_an_answer_that_is_not_a_list_of_jobs_or_no_number_is_none(fake: Fake) -> None:
    fake("squeue", "echo 'CLUSTER: other'")
    with pytest.raises(SlurmAway, match="'CLUSTER: other'"):
        commands.jobs(["x"])
    fake("sbatch", "echo what")
    with pytest.raises(SlurmAway, match="'what'"):
        commands.submit("x")


def test_jobs_that_have_ended_already_are_not_error(fake: Fake) -> None:
    calls = fake(
        "scancel", "echo 'scancel: error: Kill job error on job id 9: Invalid job id specified' >&2; exit 1"
    )
    commands.cancel(["8", "9"])
    commands.cancel([])
    commands.cancel_by_name(["a", "b"])
    assert [line.split()[-1] for line in calls.read_text().splitlines()] == ["9", "--name=a", "--name=b"]


def test_a_machine_without_slurm_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrerequisiteError, match=r"no command sbatch here: .*\[pools\]"):
        commands.submit("x")


def test_the_users_settings_of_these_commands_are_left_out(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SBATCH_PARTITION", "SQUEUE_FORMAT", "SLURM_JOB_ID", "SLURM_TIME_FORMAT", "SINFO_FORMAT"):
        monkeypatch.setenv(name, "theirs")
    monkeypatch.setenv("SLURM_CONF", "/conf")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    fake("sbatch", "env >&2; exit 1")
    with pytest.raises(PrerequisiteError) as problem:
        commands.submit("x")
    seen = str(problem.value).splitlines()
    assert "theirs" not in str(problem.value)
    assert {"SLURM_CONF=/conf", "SLURM_TIME_FORMAT=%s", "LC_ALL=C"} <= set(seen)
