"""What `doctor` says of a cluster, by commands that print what those of SLURM did, and of its nodes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.profile import Profile, load_profile
from infra.slurm.node_calls import NodeAnswer
from slvmeval.cli.doctor.cluster import check_cluster
from slvmeval.cli.doctor.finding import CheckVerdict, Finding
from slvmeval.cli.doctor.nodes import node_findings
from tests.slvmeval.cli.running import Run, lacks

ONE_MACHINE = Path(__file__).parents[3] / "slurm" / "profiles" / "one-machine.toml"

# output of Slurm 22.05
PARTITIONS = "cpu|up|2-00:00:00\nh100|up|1-00:00:00\n"
NODES = """\
c1|vm|127.0.0.1|idle|4|8000|(null)|cpu|cpu
c2|vm|127.0.0.1|idle|4|8000|(null)|cpu|cpu
g1|vm|127.0.0.1|idle|4|8000|gpu:h100:2|h100|h100
g2|vm|127.0.0.1|idle|4|8000|gpu:h100:2|h100|h100
"""
NO_CONTROLLER = "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n"
BAD_ACCOUNT = "allocation failure: Invalid account or account/partition combination specified\n"


class FakeSlurm:
    """SLURM commands that print the output of real ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.has_nodes(NODES)
        self.command("sbatch", f'echo "$@" >> {folder}/asked; cat >> {folder}/scripts')

    def command(self, name: str, lines: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        path.chmod(0o755)

    def has_nodes(self, nodes: str) -> None:
        both = f"*--Node*) cat <<'END'\n{nodes}END\n;; *) cat <<'END'\n{PARTITIONS}END\n;;"
        self.command("sinfo", f'case "$*" in {both} esac')

    def says(self, name: str, text: str) -> None:
        """Make a command fail with this message."""
        self.command(name, f"cat >&2 <<'END'\n{text}END\nexit 1")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    return fake


def site(tmp_path: Path, **changes: object) -> Profile:
    profile = load_profile(ONE_MACHINE, {"store": str(tmp_path / "store")}, {})
    changed = Profile.model_validate(profile.model_dump() | changes)
    changed._file = Path("site.toml")
    return changed


def found(profile: Profile) -> dict[str, Finding]:
    return {finding.what: finding for finding in check_cluster(profile, probe=False)}


def failure(profile: Profile, what: str) -> str:
    """The message of what fails."""
    finding = found(profile)[what]
    assert finding.verdict is CheckVerdict.FAIL
    return finding.message


def test_a_profile_without_pools_asks_no_slurm(tmp_path: Path) -> None:
    assert check_cluster(Profile(store=str(tmp_path))) == []


def test_a_profile_that_fits(slurm: FakeSlurm, tmp_path: Path) -> None:
    findings = found(site(tmp_path))
    odd = {finding.what for finding in findings.values() if finding.verdict is not CheckVerdict.OK}
    assert odd == {"nodes"}
    assert findings["slurm"].message == "answers: 4 nodes, partitions cpu, h100"
    assert "up to 2 jobs" in findings["pool h100"].message
    assert "gpus 1 x gpu:h100" in findings["pool h100"].message
    assert findings["scheduler"].message == "workers connect to this machine at 127.0.0.1 (interface lo)"
    # only tested: nothing was submitted
    assert (slurm.folder / "asked").read_text().splitlines() == ["--test-only"] * 2
    assert "#SBATCH --gres=gpu:h100:1" in (slurm.folder / "scripts").read_text()
    assert not (tmp_path / "store").exists()
    slurm.has_nodes(NODES.replace("|idle|4|8000|(null)", "|drained|4|8000|(null)"))
    findings = found(site(tmp_path))
    # nodes that take no jobs now are a warning
    assert findings["pool cpu"].verdict is CheckVerdict.WARN
    assert "(drained)" in findings["pool cpu"].message
    assert findings["pool h100"].verdict is CheckVerdict.OK


def test_every_pool_that_does_not_fit_is_named_with_file_and_key(
    slurm: FakeSlurm, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = site(tmp_path).model_dump()["pools"]
    pools["cpu"]["partition"] = "cpus"
    pools["h100"]["gres"] = "gpu:a100"
    findings = found(site(tmp_path, pools=pools))
    assert findings["pool cpu"].message.startswith(
        "profile site.toml: pools.cpu.partition: no partition 'cpus'. Did you mean 'cpu'?"
    )
    assert "its nodes have: gpu:h100" in findings["pool h100"].message
    # a mismatch is reported once
    assert not (slurm.folder / "asked").exists()
    assert "script cpu" not in findings
    # the command says it all and exits 1
    file = tmp_path / "site.toml"
    text = ONE_MACHINE.read_text(encoding="utf-8").replace('partition = "cpu"', 'partition = "cpux"')
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr("slvmeval.cli.doctor.checks.check_our_packages", list)
    words = ("doctor", "--profile", file, "--store", tmp_path / "store", "--set", "probe_nodes=0")
    output = run(*words, code=1).out
    assert f"profile {file}: pools.cpu.partition: no partition 'cpux'" in output
    assert "worker pools cpu of up to 2 jobs, h100 of up to 2 jobs" in output


def test_a_controller_that_is_away_and_no_sbatch(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.says("sinfo", NO_CONTROLLER)
    message = failure(site(tmp_path), "slurm")
    assert not lacks(message, "Unable to contact slurm controller", "SLURM_CONF")
    (slurm.folder / "sbatch").unlink()
    slurm.command("pjsub", "exit 0")
    monkeypatch.setenv("PATH", str(slurm.folder))
    message = failure(site(tmp_path), "slurm")
    assert "there is no sbatch here" in message
    # it says what else runs jobs here
    assert "pjsub" in message


@pytest.mark.parametrize(
    ("refusal", "keys"),
    [
        (BAD_ACCOUNT, "pools.cpu.account, pools.cpu.partition"),
        ("allocation failure: Invalid qos specification\n", "pools.cpu.qos"),
        ("allocation failure: Invalid feature specification\n", "pools.cpu.constraint"),
        ("sbatch: unrecognized option '--exclud=n1'\n", "pools.cpu.directives"),
    ],
)
def test_a_refused_script_names_the_keys(refusal: str, keys: str, slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.says("sbatch", refusal)
    message = failure(site(tmp_path), "script cpu")
    assert refusal.strip() in message
    assert message.endswith(f"look at {keys} in profile site.toml")


def test_values_that_cannot_be(slurm: FakeSlurm, tmp_path: Path) -> None:
    pools = site(tmp_path).model_dump()["pools"]
    pools["cpu"]["scratch"] = "/tmp/$(whoami)"
    (tmp_path / "file").write_text("x", encoding="utf-8")
    logs = str(tmp_path / "file" / "logs")
    wrong = site(tmp_path, pools=pools, scheduler_interface="ib7", job_logs=logs)
    assert failure(wrong, "script cpu").startswith("profile site.toml: pools.cpu.scratch: ")
    message = failure(wrong, "scheduler")
    assert not lacks(message, "profile site.toml: scheduler_interface", "lo")
    assert "job_logs in profile site.toml" in failure(wrong, "job logs")


def test_the_script_of_a_pool_is_what_a_build_sends(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    store = tmp_path / "store"
    words = ("doctor", "--script", "--profile", ONE_MACHINE, "--store", store, "--pool")
    script = run(*words, "h100").out
    assert script.startswith("#!/bin/bash\n")
    assert re.search(r"^#SBATCH -p h100$", script, re.M)
    for line in ("#SBATCH --gres=gpu:h100:1", "tls://127.0.0.1:PORT", str(store)):
        assert line in script
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert "no pool 'h10'; did you mean h100" in run(*words, "h10", code=1).err
    # it is shown where there is no Slurm, too
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "tls://ADDRESS:PORT" in run(*words, "cpu").out


# -- nodes on which a probe ran ----------------------------------------------------------------------------

POOL = {"partition": "p", "cores": 2, "memory": "2GiB", "walltime": "01:00:00"}
GPU_POOL = {**POOL, "gpus": 1}
GOOD: dict[str, Any] = {"node": "n1", "python": "3.12.9", "gpus": [], "problems": [], "gpu_problems": []}


def of_node(pool: str, answer: NodeAnswer, allow_cpu_models: bool = False) -> list[Finding]:
    values = {"pools": {"cpu": POOL, "h100": GPU_POOL}, "allow_cpu_models": allow_cpu_models}
    return node_findings(Profile.model_validate(values), pool, "n1", answer)


@pytest.mark.parametrize(("gpus", "shown"), [([], ""), (["NVIDIA H100"], ", NVIDIA H100")])
def test_a_node_on_which_all_is_well(gpus: list[str], shown: str) -> None:
    words = f"n1: Python 3.12.9, the same store and versions{shown}, reaches this machine"
    answer = NodeAnswer({**GOOD, "gpus": gpus})
    assert of_node("h100", answer) == [Finding("node of h100", CheckVerdict.OK, words)]


def test_all_that_is_wrong_is_reported() -> None:
    bad = NodeAnswer({**GOOD, "problems": ["no store", "no cv2"], "gpu_problems": ["no GPU"]})
    wrong = [Finding("node of h100", CheckVerdict.FAIL, f"n1: no {what}") for what in ("store", "cv2", "GPU")]
    assert of_node("h100", bad) == wrong
    warning = Finding("node of h100", CheckVerdict.WARN, "n1: no GPU")
    assert of_node("h100", bad, allow_cpu_models=True) == [*wrong[:2], warning]
    # where nothing but the GPU is missing, all else is well
    good, gpu = of_node("h100", NodeAnswer({**GOOD, "gpu_problems": ["no GPU"]}), allow_cpu_models=True)
    assert (good.verdict, gpu) == (CheckVerdict.OK, warning)


@pytest.mark.parametrize(("waited", "verdict"), [(True, CheckVerdict.UNSEEN), (False, CheckVerdict.FAIL)])
def test_a_node_that_did_not_answer(waited: bool, verdict: CheckVerdict) -> None:
    (finding,) = of_node("cpu", NodeAnswer(None, waited, "job 7 ended. Its log:\nno python"))
    assert finding == Finding("node of cpu", verdict, "n1 was not checked: job 7 ended. Its log:; no python")
