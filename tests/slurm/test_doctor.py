from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
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


def doctor(
    capsys: pytest.CaptureFixture[str], profile: Path, store: Path, *words: str, code: int = 0
) -> Findings:
    """Run it; return what it found of cluster and nodes: the worst verdict of a kind and all its words."""
    assert main(["doctor", "--profile", str(profile), "--store", str(store), "--json", *words]) == code
    result: Findings = {}
    for finding in json.loads(capsys.readouterr().out):
        before = result.get(finding["what"], ("ok", ""))
        worst = max(before[0], finding["verdict"], key=("ok", "warn", "?", "FAIL").index)
        result[finding["what"]] = (worst, f"{before[1]}{finding['message']}\n")
    return result


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


def test_a_profile_that_fits_is_good_and_leaves_nothing(
    slurm: Slurm, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = doctor(capsys, ONE_MACHINE, store)
    assert result["slurm"] == ("ok", "answers: 4 nodes, partitions cpu, h100\n")
    good = ("pool cpu", "pool h100", "job logs", "scheduler", "script cpu", "script h100", "node of cpu")
    assert {what: result[what][0] for what in good} == dict.fromkeys(good, "ok"), result
    verdict, words = result["node of h100"]
    assert "reaches this machine" in words
    assert "the same store" in words
    # these GPUs are no GPUs
    assert verdict == "warn"
    assert "allow_cpu_models" in words
    assert slurm.squeue() == []
    assert list(store.parent.iterdir()) == []


def test_what_no_node_has_is_found_before_a_job_is_sent(
    slurm: Slurm, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = changed(
        tmp_path,
        ('partition = "cpu"', 'partition = "cpus"'),
        ('memory = "2000MiB"', 'memory = "20GiB"'),
        ('walltime = "00:20:00"', 'walltime = "1-12:00:00"'),
        ('gres = "gpu:h100"', 'gres = "gpu:h200"\nconstraint = "nvlink"'),
    )
    result = doctor(capsys, profile, store, code=1)
    assert "Did you mean 'cpu'? Partitions: cpu, h100" in result["pool cpu"][1]
    for words in (
        f"profile {profile}: pools.h100.memory: no node of partition 'h100' has 20GiB",
        "the maximum is '8000MiB'",
        "pools.h100.walltime: 1-12:00:00 is more than partition 'h100' allows, 1-00:00:00",
        "has 'gpu:h200'. Did you mean 'gpu:h100'?",
        "has the feature 'nvlink'. Features there: h100",
    ):
        assert words in result["pool h100"][1]
    assert "node of cpu" not in result
    assert slurm.squeue() == []
    site = load_profile(profile, environment={})
    assert len(check_profile_fits(site, partitions(), nodes())) == 5
    with pytest.raises(UserInputError, match=r"profile site\.toml: pools\.cpu\.partition"):
        require_fit(site, "profile site.toml")
    require_fit(load_profile(ONE_MACHINE, environment={}))


def test_a_script_that_slurm_refuses(
    slurm: Slurm, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = changed(tmp_path, ("[pools.cpu]", '[pools.cpu]\ndirectives = ["--nodelist=nowhere"]'))
    verdict, words = doctor(capsys, profile, store, "--no-probe", code=1)["script cpu"]
    assert verdict == "FAIL"
    assert "node" in words
    assert f"look at pools.cpu.directives in profile {profile}" in words


#: A Python for each node: without the store, without a network, without our packages, none at all.
PYTHONS = """#!/bin/sh
case $SLURMD_NODENAME in
c1) exec unshare -m sh -c 'mount -t tmpfs none {store}; exec "$0" "$@"' {python} "$@" ;;
c2) exec unshare -n {python} "$@" ;;
g1) exec {bare} "$@" ;;
*) exec /nowhere/python "$@" ;;
esac
"""


def test_what_is_wrong_with_each_node_is_said(
    slurm: Slurm, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    given = {"store": store.parent, "python": sys.executable, "bare": os.path.realpath(sys.executable)}
    python.write_text(PYTHONS.format(**given), encoding="utf-8")
    python.chmod(0o755)
    line = f'\npython = "{python}"'
    profile = changed(tmp_path, *((f"[pools.{name}]", f"[pools.{name}]{line}") for name in ("cpu", "h100")))
    result = doctor(capsys, profile, store, "--probe-nodes", "5", code=1)
    lines = {}
    for pool in ("cpu", "h100"):
        verdict, words = result[f"node of {pool}"]
        assert verdict == "FAIL"
        for text in words.split("\n"):
            node, _, rest = text.partition(": ")
            if node in ("c1", "c2", "g1", "g2"):
                lines[node] = rest
    assert f"{store.parent} does not exist there" in lines["c1"]
    assert "file system" in lines["c1"]
    assert "cannot connect to this machine" in lines["c2"]
    assert "scheduler_interface" in lines["c2"]
    assert "slvmeval missing" in lines["g1"]
    assert f"in profile {profile}" in lines["g1"]
    assert "/nowhere/python" in result["node of h100"][1]


def test_nodes_that_take_no_jobs_are_not_called_good(
    slurm: Slurm, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in ("c1", "c2"):
        slurm.drain(node)
    slurm.wait(lambda: slurm.sinfo()["c2"] == "drained")
    profile = changed(tmp_path, only_cpu=True)
    result = doctor(capsys, profile, store, code=3)
    assert result["pool cpu"][0] == "warn"
    assert "(drained)" in result["pool cpu"][1]
    verdict, words = result["node of cpu"]
    assert verdict == "?"
    assert "takes jobs now (c1 drained, c2 drained): none was checked" in words
    slurm.run("scontrol", "update", "PartitionName=cpu", "State=DOWN")
    try:
        verdict, words = doctor(capsys, profile, store, code=1)["pool cpu"]
    finally:
        slurm.run("scontrol", "update", "PartitionName=cpu", "State=UP")
    assert verdict == "FAIL"
    assert "accepts no jobs now" in words


def test_a_busy_cluster_is_not_called_good_and_the_job_is_taken_away(
    slurm: Slurm, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = changed(tmp_path, only_cpu=True)
    quiet = ("-p", "cpu", "--exclusive", "--output=/dev/null")
    busy = [slurm.sbatch(*quiet, "-w", node, wrap="sleep 600") for node in ("c1", "c2")]
    slurm.wait(lambda: all(job["state"] == "RUNNING" for job in slurm.squeue()))
    verdict, words = doctor(capsys, profile, store, "--probe-wait", "3", code=3)["node of cpu"]
    assert verdict == "?"
    assert "was still waiting (" in words
    assert "--probe-wait" in words
    slurm.wait(lambda: {int(job["id"]) for job in slurm.squeue()} == set(busy))
    # the last line for people
    assert main(["doctor", "--profile", str(profile), "--store", str(store), "--no-probe"]) == 3
    assert "nothing wrong was found, but 1 thing could not be checked" in capsys.readouterr().out


def test_each_kind_of_node_is_probed_with_what_the_pool_asks_for(
    slurm: Slurm, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = changed(tmp_path, only_cpu=True)
    slurm.run("scontrol", "update", "NodeName=c2", "AvailableFeatures=big", "ActiveFeatures=big")
    try:
        slurm.wait(lambda: "big" in slurm.run("sinfo", "-h", "-N", "-n", "c2", "-o", "%f"))
        verdict, words = doctor(capsys, profile, store)["node of cpu"]
        assert verdict == "ok"
        assert [line.split(":")[0] for line in words.splitlines()] == ["c1", "c2"]
    finally:
        slurm.run("scontrol", "update", "NodeName=c2", "AvailableFeatures=", "ActiveFeatures=")
    # what the probes asked for, as SLURM has it
    asked = [
        slurm.job(line.split()[0].removeprefix("JobId="))
        for line in (slurm.folder / "log" / "jobs.txt").read_text().splitlines()
        if "slvmeval-doctor-" in line
    ]
    pool = load_profile(profile, environment={}).pools["cpu"]
    assert {job["NumCPUs"] for job in asked if job["Partition"] == "cpu"} == {str(pool.cores)}
    assert all("mem=4000M" in job["TRES"] for job in asked if job["Partition"] == "cpu")


def test_a_wait_that_does_not_end_by_itself_is_an_error(
    slurm: Slurm, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = ("[pools.cpu]", '[pools.cpu]\ndirectives = ["--hold"]')
    verdict, words = doctor(capsys, changed(tmp_path, held, only_cpu=True), store, code=1)["node of cpu"]
    assert verdict == "FAIL"
    assert "would never start by itself (JobHeld" in words
    assert "`scontrol release`" in words
    slurm.wait(lambda: not slurm.squeue())


def test_the_printed_script_is_one_that_sbatch_takes(
    slurm: Slurm, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pool in ("cpu", "h100"):
        words = ["slurm", "script", "--pool", pool, "--profile", str(ONE_MACHINE), "--store", str(store)]
        assert main(words) == 0
        script = tmp_path / pool
        script.write_text(capsys.readouterr().out, encoding="utf-8")
        slurm.run("sbatch", "--test-only", str(script))
