from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.profile import Profile, load_profile
from slvmeval.cli.doctor.cluster import check_cluster
from slvmeval.cli.doctor.finding import CheckVerdict, Finding
from slvmeval.cli.main import main

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
        self.command(
            "sinfo",
            f"case \"$*\" in *--Node*) cat <<'END'\n{NODES}END\n;; *) cat <<'END'\n{PARTITIONS}END\n;; esac",
        )
        self.command("sbatch", f'echo "$@" >> {folder}/asked; cat >> {folder}/scripts')

    def command(self, name: str, lines: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        path.chmod(0o755)

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
    return Profile.model_validate(profile.model_dump() | changes)


def found(profile: Profile) -> dict[str, Finding]:
    return {finding.what: finding for finding in check_cluster(profile, "profile site.toml", probe=False)}


def test_a_profile_without_pools_asks_no_slurm(tmp_path: Path) -> None:
    assert check_cluster(Profile(store=str(tmp_path)), "profile") == []


def test_a_profile_that_fits(slurm: FakeSlurm, tmp_path: Path) -> None:
    findings = found(site(tmp_path))
    assert {finding.what for finding in findings.values() if finding.verdict is not CheckVerdict.OK} == {
        "nodes"
    }
    assert findings["slurm"].message == "answers: 4 nodes, partitions cpu, h100"
    assert "up to 2 jobs" in findings["pool h100"].message
    assert "gpus 1 x gpu:h100" in findings["pool h100"].message
    assert findings["scheduler"].message == "workers connect to this machine at 127.0.0.1 (interface lo)"
    # only tested: nothing was submitted
    assert (slurm.folder / "asked").read_text().splitlines() == ["--test-only"] * 2
    assert "#SBATCH --gres=gpu:h100:1" in (slurm.folder / "scripts").read_text()
    assert not (tmp_path / "store").exists()


def test_every_pool_that_does_not_fit_is_named_with_file_and_key(slurm: FakeSlurm, tmp_path: Path) -> None:
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


def test_without_sbatch_it_says_what_else_runs_jobs_here(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slurm.folder / "sbatch").unlink()
    slurm.command("pjsub", "exit 0")
    monkeypatch.setenv("PATH", str(slurm.folder))
    finding = found(site(tmp_path))["slurm"]
    assert finding.verdict is CheckVerdict.FAIL
    assert "there is no sbatch here" in finding.message
    assert "pjsub" in finding.message


def test_a_controller_that_is_away(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.says("sinfo", NO_CONTROLLER)
    finding = found(site(tmp_path))["slurm"]
    assert finding.verdict is CheckVerdict.FAIL
    assert "Unable to contact slurm controller" in finding.message
    assert "SLURM_CONF" in finding.message


@pytest.mark.parametrize(
    ("refusal", "keys"),
    [
        (BAD_ACCOUNT, "pools.cpu.account, pools.cpu.partition"),
        ("allocation failure: Invalid qos specification\n", "pools.cpu.qos"),
        ("allocation failure: Invalid feature specification\n", "pools.cpu.constraint"),
        ("sbatch: unrecognized option '--exclud=n1'\n", "pools.cpu.directives"),
    ],
)
def test_a_script_that_slurm_refuses_names_the_keys(
    refusal: str, keys: str, slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.says("sbatch", refusal)
    finding = found(site(tmp_path))["script cpu"]
    assert finding.verdict is CheckVerdict.FAIL
    assert refusal.strip() in finding.message
    assert finding.message.endswith(f"look at {keys} in profile site.toml")


def test_values_that_cannot_stand_in_a_script(slurm: FakeSlurm, tmp_path: Path) -> None:
    pools = site(tmp_path).model_dump()["pools"]
    pools["cpu"]["scratch"] = "/tmp/$(whoami)"
    finding = found(site(tmp_path, pools=pools))["script cpu"]
    assert finding.verdict is CheckVerdict.FAIL
    assert finding.message.startswith("profile site.toml: pools.cpu.scratch: ")


def test_nodes_that_take_no_jobs_now_are_a_warning(slurm: FakeSlurm, tmp_path: Path) -> None:
    nodes = NODES.replace("|idle|4|8000|(null)", "|drained|4|8000|(null)")
    slurm.command(
        "sinfo",
        f"case \"$*\" in *--Node*) cat <<'END'\n{nodes}END\n;; *) cat <<'END'\n{PARTITIONS}END\n;; esac",
    )
    findings = found(site(tmp_path))
    assert findings["pool cpu"].verdict is CheckVerdict.WARN
    assert "(drained)" in findings["pool cpu"].message
    assert findings["pool h100"].verdict is CheckVerdict.OK


def test_an_interface_that_is_not_here(slurm: FakeSlurm, tmp_path: Path) -> None:
    finding = found(site(tmp_path, scheduler_interface="ib7"))["scheduler"]
    assert finding.verdict is CheckVerdict.FAIL
    assert "profile site.toml: scheduler_interface" in finding.message
    assert "lo" in finding.message


def test_logs_that_cannot_be_written(slurm: FakeSlurm, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    finding = found(site(tmp_path, job_logs=str(tmp_path / "file" / "logs")))["job logs"]
    assert finding.verdict is CheckVerdict.FAIL
    assert "job_logs in profile site.toml" in finding.message


def test_doctor_says_it_all_and_exits_1(
    slurm: FakeSlurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "site.toml"
    text = ONE_MACHINE.read_text(encoding="utf-8").replace('partition = "cpu"', 'partition = "cpux"')
    file.write_text(text, encoding="utf-8")
    words = ["doctor", "--profile", str(file), "--store", str(tmp_path / "store"), "--no-probe"]
    assert main(words) == 1
    output = capsys.readouterr().out
    assert f"profile {file}: pools.cpu.partition: no partition 'cpux'" in output
    assert "worker pools cpu of up to 2 jobs, h100 of up to 2 jobs" in output


def test_the_script_of_a_pool_is_what_a_build_sends(
    slurm: FakeSlurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    words = ["slurm", "script", "--profile", str(ONE_MACHINE), "--store", str(store)]
    assert main([*words, "--pool", "h100"]) == 0
    script = capsys.readouterr().out
    assert script.startswith("#!/bin/bash\n")
    assert re.search(r"^#SBATCH -p h100$", script, re.M)
    assert "#SBATCH --gres=gpu:h100:1" in script
    assert "tls://127.0.0.1:PORT" in script
    assert str(store) in script
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert main([*words, "--pool", "gpu"]) == 1
    assert "has no pool 'gpu'; its pools are cpu, h100" in capsys.readouterr().err


def test_the_script_is_shown_where_there_is_no_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("sbatch") is None
    words = [
        "slurm",
        "script",
        "--profile",
        str(ONE_MACHINE),
        "--store",
        str(tmp_path / "s"),
        "--pool",
        "cpu",
    ]
    assert main(words) == 0
    assert "tls://ADDRESS:PORT" in capsys.readouterr().out
