from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.profile import load_profile
from infra.slurm.commands import nodes, partitions
from infra.slurm.profile_check import check_profile_fits, require_fit
from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from tests.slurm.conftest import Slurm

PROFILES = Path(__file__).parents[2] / "slurm" / "profiles"
ONE_MACHINE = PROFILES / "one-machine.toml"

Findings = dict[str, tuple[str, str]]


@pytest.fixture
def store() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="store-") as name:
        yield Path(name) / "store"


Doctor = Callable[..., Findings]


@pytest.fixture
def doctor(slurm: Slurm, store: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Run it; return what it found of cluster and nodes: the worst verdict of a kind and all its words."""

    def found(profile: Path, *words: str, code: int = 0) -> Findings:
        command = ["doctor", "--profile", str(profile), "--store", str(store), "--format", "json", *words]
        assert main(command) == code
        result: Findings = {}
        for finding in json.loads(capsys.readouterr().out):
            before = result.get(finding["what"], ("ok", ""))
            worst = max(before[0], finding["verdict"], key=("ok", "warn", "?", "FAIL").index)
            result[finding["what"]] = (worst, f"{before[1]}{finding['message']}\n")
        return result

    return found


def changed(tmp_path: Path, *changes: tuple[str, str], only_cpu: bool = False) -> Path:
    """Return a copy of the profile with lines changed, each wherever it stands."""
    text = ONE_MACHINE.read_text(encoding="utf-8")
    if only_cpu:
        text = text[: text.index("[pools.h100]")]
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / "site.toml"
    path.write_text(text, encoding="utf-8")
    return path


def wrapper(tmp_path: Path, before: str) -> Path:
    """Return a Python that runs a shell line first, cut off from the rest of the machine."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {before} {sys.executable} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_profile_that_fits_is_good_and_leaves_nothing(
    slurm: Slurm, doctor: Doctor, store: Path, record_property: pytest.RecordProperty
) -> None:
    began = time.monotonic()
    result = doctor(ONE_MACHINE)
    record_property("doctor_s", time.monotonic() - began)
    assert result["slurm"] == ("ok", "answers: 4 nodes, partitions cpu, h100\n")
    for what in (
        "pool cpu",
        "pool h100",
        "job logs",
        "scheduler",
        "script cpu",
        "script h100",
        "node of cpu",
    ):
        assert result[what][0] == "ok", result[what]
    verdict, words = result["node of h100"]
    assert "reaches this machine" in words
    assert "the same store" in words
    # these GPUs are not GPUs
    assert verdict == "warn"
    assert "allow_cpu_models" in words
    assert slurm.squeue() == []
    assert list(store.parent.iterdir()) == []


def test_gpus_that_are_none_fail_where_models_need_them(doctor: Doctor, tmp_path: Path) -> None:
    profile = changed(tmp_path, ("allow_cpu_models = true", "allow_cpu_models = false"))
    verdict, words = doctor(profile, code=1)["node of h100"]
    assert verdict == "FAIL"
    assert "SLURM assigned the GPU 0, which does not answer" in words


def test_what_no_node_has_is_found_before_a_job_is_sent(slurm: Slurm, doctor: Doctor, tmp_path: Path) -> None:
    profile = changed(
        tmp_path,
        ('partition = "cpu"', 'partition = "cpus"'),
        ('memory = "2000MiB"', 'memory = "20GiB"'),
        ('gres = "gpu:h100"', 'gres = "gpu:h200"\nconstraint = "nvlink"'),
    )
    result = doctor(profile, code=1)
    assert "Did you mean 'cpu'? Partitions: cpu, h100" in result["pool cpu"][1]
    for words in (
        f"profile {profile}: pools.h100.memory: no node of partition 'h100' has 20GiB",
        "the maximum is '8000MiB'",
        "has 'gpu:h200'. Did you mean 'gpu:h100'?",
        "has the feature 'nvlink'. Features there: h100",
    ):
        assert words in result["pool h100"][1]
    assert "node of cpu" not in result
    assert slurm.squeue() == []
    site = load_profile(profile, environment={})
    assert len(check_profile_fits(site, partitions(), nodes())) == 4
    with pytest.raises(UserInputError, match=r"profile .*site\.toml: pools\.cpu\.partition"):
        require_fit(site)
    require_fit(load_profile(ONE_MACHINE, environment={}))


def test_a_time_that_the_partition_does_not_allow_and_a_script_that_slurm_refuses(
    doctor: Doctor, tmp_path: Path
) -> None:
    profile = changed(
        tmp_path,
        ('walltime = "00:20:00"', 'walltime = "1-12:00:00"'),
        ("[pools.cpu]", '[pools.cpu]\ndirectives = ["--nodelist=nowhere"]'),
    )
    result = doctor(profile, "--set", "probe_nodes=0", code=1)
    assert (
        "pools.h100.walltime: 1-12:00:00 is more than partition 'h100' allows, 1-00:00:00"
        in (result["pool h100"][1])
    )
    assert result["pool cpu"][0] == "ok"
    verdict, words = result["script cpu"]
    assert verdict == "FAIL"
    assert "node" in words
    assert f"look at pools.cpu.directives in profile {profile}" in words


#: What cuts Python off from the rest of the machine, or another Python, and what is then said of the node.
UNFIT = {
    "a store that nodes do not see": (
        'unshare -m sh -c \'mount -t tmpfs none {store}; exec "$0" "$@"\'',
        "the folder {store} is not the driver's store but another one",
        "file system that all nodes see at the same path (store in profile {profile})",
    ),
    "a node that cannot call this machine": (
        "unshare -n",
        "cannot connect to the driver's machine",
        "scheduler_interface",
    ),
    "a Python that is not there": ("/nowhere/python", "/nowhere/python: No such file or directory"),
    "a Python without our packages": (os.path.realpath(sys.executable), "slvmeval is not installed here"),
}


@pytest.mark.parametrize("why", UNFIT)
def test_what_is_wrong_on_a_node_fails_with_what_to_change(
    doctor: Doctor, why: str, store: Path, tmp_path: Path
) -> None:
    before, *said = (words.format(store=store.parent, profile=tmp_path / "site.toml") for words in UNFIT[why])
    python = wrapper(tmp_path, before) if before.startswith("unshare") else before
    profile = changed(tmp_path, ("[pools.cpu]", f'[pools.cpu]\npython = "{python}"'), only_cpu=True)
    verdict, words = doctor(profile, code=1)["node of cpu"]
    assert verdict == "FAIL"
    assert all(part in words for part in (*said, f"in profile {profile}")), words


def test_an_interface_that_nodes_lack(doctor: Doctor, tmp_path: Path) -> None:
    profile = changed(tmp_path, ('\ninterface = "lo"', '\ninterface = "ib9"'), only_cpu=True)
    verdict, words = doctor(profile, code=1)["node of cpu"]
    assert verdict == "FAIL"
    assert "'ib9'" in words
    assert "pools.cpu.interface" in words


def test_nodes_that_take_no_jobs_are_not_called_good(slurm: Slurm, doctor: Doctor) -> None:
    for node in ("c1", "c2"):
        slurm.drain(node)
    slurm.wait(lambda: [slurm.sinfo()[node] for node in ("c1", "c2")] == ["drained"] * 2)
    result = doctor(ONE_MACHINE, code=3)
    assert result["pool cpu"][0] == "warn"
    assert "(drained)" in result["pool cpu"][1]
    verdict, words = result["node of cpu"]
    assert verdict == "?"
    # in one line, or in one for each kind of node
    assert all("accepts jobs now (" in one and "): none was checked" in one for one in words.splitlines())
    assert all(f"{node} drained" in words for node in ("c1", "c2"))
    assert "reaches this machine" in result["node of h100"][1]


def test_a_busy_cluster_is_not_called_good_and_the_job_is_taken_away(
    slurm: Slurm, doctor: Doctor, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = changed(tmp_path, only_cpu=True)
    quiet = ("-p", "cpu", "--exclusive", "--output=/dev/null")
    busy = [slurm.sbatch(*quiet, "-w", node, wrap="sleep 600") for node in ("c1", "c2")]
    slurm.wait(lambda: all(job["state"] == "RUNNING" for job in slurm.squeue()))
    verdict, words = doctor(profile, "--set", "max_wait=3", code=3)["node of cpu"]
    assert verdict == "?"
    assert "was still waiting (" in words
    assert "--set max_wait=…" in words
    slurm.wait(lambda: {int(job["id"]) for job in slurm.squeue()} == set(busy))
    # the last line for people
    assert main(["doctor", "--profile", str(profile), "--store", str(store), "--set", "probe_nodes=0"]) == 3
    assert "no problems were found, but 1 item could not be checked" in capsys.readouterr().out


def test_each_kind_of_node_is_probed_with_what_the_pool_asks_for(
    slurm: Slurm, doctor: Doctor, tmp_path: Path
) -> None:
    profile = changed(tmp_path, only_cpu=True)
    ended = slurm.folder / "log" / "jobs.txt"
    # Slurm forgets jobs of earlier tests
    earlier = len(ended.read_text().splitlines()) if ended.exists() else 0
    slurm.run("scontrol", "update", "NodeName=c2", "AvailableFeatures=big", "ActiveFeatures=big")
    try:
        slurm.wait(lambda: "big" in slurm.run("sinfo", "-h", "-N", "-n", "c2", "-o", "%f"))
        verdict, words = doctor(profile)["node of cpu"]
        assert verdict == "ok"
        assert [line.split(":")[0] for line in words.splitlines()] == ["c1", "c2"]
    finally:
        slurm.run("scontrol", "update", "NodeName=c2", "AvailableFeatures=", "ActiveFeatures=")
    verdict, words = doctor(profile, "--set", "probe_nodes=5")["node of cpu"]
    assert [line.split(":")[0] for line in words.splitlines()] == ["c1", "c2"]
    # what the probes asked for, as SLURM has it
    asked = [
        slurm.job(line.split()[0].removeprefix("JobId="))
        for line in ended.read_text().splitlines()[earlier:]
        if "slvmeval-doctor-" in line
    ]
    pool = load_profile(profile, environment={}).pools["cpu"]
    assert {job["NumCPUs"] for job in asked if job["Partition"] == "cpu"} == {str(pool.cores)}
    assert all("mem=4000M" in job["TRES"] for job in asked if job["Partition"] == "cpu")


def test_a_wait_that_does_not_end_by_itself_is_an_error(slurm: Slurm, doctor: Doctor, tmp_path: Path) -> None:
    held = ("[pools.cpu]", '[pools.cpu]\ndirectives = ["--hold"]')
    began = time.monotonic()
    verdict, words = doctor(changed(tmp_path, held, only_cpu=True), code=1)["node of cpu"]
    assert verdict == "FAIL"
    assert "would never start by itself (JobHeld" in words
    assert "`scontrol release`" in words
    # it is not waited for to the end
    assert time.monotonic() - began < 60
    slurm.wait(lambda: not slurm.squeue())


def test_a_partition_that_is_down_is_an_error(slurm: Slurm, doctor: Doctor, tmp_path: Path) -> None:
    profile = changed(tmp_path, only_cpu=True)
    slurm.run("scontrol", "update", "PartitionName=cpu", "State=DOWN")
    try:
        verdict, words = doctor(profile, code=1)["pool cpu"]
    finally:
        slurm.run("scontrol", "update", "PartitionName=cpu", "State=UP")
    assert verdict == "FAIL"
    assert "accepts no jobs now" in words


def test_the_printed_script_is_one_that_sbatch_takes(
    slurm: Slurm, doctor: Doctor, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pool in ("cpu", "h100"):
        words = ["doctor", "--script", "--pool", pool, "--profile", str(ONE_MACHINE), "--store", str(store)]
        assert main(words) == 0
        script = tmp_path / pool
        script.write_text(capsys.readouterr().out, encoding="utf-8")
        slurm.run("sbatch", "--test-only", str(script))
