"""The scripts that users send: a build on one node, and the driver, which goes on in its next round."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.recipe import Recipe
from tests.flows.prefect_servers import SLVMEVAL, PrefectServer, Processes, wait_for
from tests.flows.small_builds import AddFilm
from tests.slurm.conftest import Slurm

SCRIPT = Path(__file__).parents[2] / "slurm" / "one_node.sbatch"


def test_a_job_builds_on_its_node(
    slurm: Slurm, add_film: AddFilm, small_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_film(tmp_path / "videos", 1)
    (tmp_path / "recipe.json").write_text(small_recipe.model_dump_json(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    options = ["--partition=cpu", "--cpus-per-task=1", "--mem=2G", "--time=10"]
    words = ["--sources", "videos", "--store", "store", "--recipe", "recipe.json"]
    job = slurm.run("sbatch", "--parsable", *options, str(SCRIPT), *words)
    slurm.wait(lambda: not slurm.squeue(), 120)
    log = (tmp_path / f"slvmeval-one-node-{job}.log").read_text(encoding="utf-8")
    assert slurm.job(job)["JobState"] == "COMPLETED", log
    release = Release.open(Store.open(tmp_path / "store"), "main")
    assert {counts["built"] for counts in release.summary().values()} == {1}


def test_a_missing_environment_is_said(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    job = slurm.run("sbatch", "--parsable", "--partition=cpu", "--mem=500", "--cpus-per-task=1", str(SCRIPT))
    slurm.wait(lambda: not slurm.squeue())
    log = (tmp_path / f"slvmeval-one-node-{job}.log").read_text(encoding="utf-8")
    assert "one_node: there is no slvmeval: activate the environment" in log


DRIVER = Path(__file__).parents[2] / "slurm" / "driver.sbatch"

PROFILE = """
name = "test"
store = "{folder}/store"
sources = ["folder:{folder}/videos"]
prefect_api_url = "{api}"
poll_s = 1.0

[pools.cpu]
partition = "h100"
cores = 2
memory = "2GiB"
walltime = "00:10:00"
longest_item = "00:01:00"
idle_s = 3
"""


def driver(slurm: Slurm) -> dict[str, str]:
    (result,) = [job for job in slurm.squeue() if job["name"] == "slvmeval-driver"]
    return result


def pools(slurm: Slurm) -> list[str]:
    """Return the states of the jobs of worker pools."""
    return [job["state"] for job in slurm.squeue() if job["name"] != "slvmeval-driver"]


def test_a_run_goes_on_in_the_next_round(
    slurm: Slurm, server: PrefectServer, add_film: AddFilm, small_recipe: Recipe, tmp_path: Path
) -> None:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    commands = Processes(tmp_path, PREFECT_API_URL=server.api, SLURM_CONF=str(slurm.conf), PATH=path)
    site = ("--profile", "site.toml")

    def runs(*states: str) -> list[str]:
        mine = str(tmp_path / "site.toml")
        return [run["id"] for run in server.runs(*states) if run["parameters"].get("profile") == mine]

    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    (tmp_path / "site.toml").write_text(PROFILE.format(folder=tmp_path, api=server.api), encoding="utf-8")
    (tmp_path / "recipe.json").write_text(small_recipe.model_dump_json(), encoding="utf-8")
    commands.run(*SLVMEVAL, "deploy", *site, "--recipe", "recipe.json")
    commands.run("sbatch", "--partition=cpu", "--mem=3G", "--time=20", str(DRIVER))

    # no node takes the jobs of the pool, so that the run is going on when the time of the driver is over
    for node in ("g1", "g2"):
        slurm.drain(node)
    commands.run(*SLVMEVAL, "run", "build-slvmeval", *site)
    wait_for(lambda: pools(slurm) == ["PENDING"], 120, "job of the pool")
    run = runs("RUNNING")
    assert len(run) == 1
    # SLURM sends this some minutes before the end
    slurm.run("scancel", "--signal=USR1", "--batch", driver(slurm)["id"])
    wait_for(lambda: driver(slurm)["state"] == "PENDING", 120, "driver in the queue again")
    assert runs("CRASHED", "RUNNING") == run
    assert pools(slurm) == []

    for node in ("g1", "g2"):
        slurm.resume(node)
    # SLURM lets two minutes pass before a job that was put back starts; at once it would not start it at all
    slurm.run("scontrol", "update", f"JobId={driver(slurm)['id']}", "StartTime=now+15")
    slurm.wait(lambda: driver(slurm)["state"] == "RUNNING", 60)
    wait_for(lambda: runs("COMPLETED") == run, 240, "end of the run", 0.3)
    release = Release.open(Store.open(tmp_path / "store"), "main")
    assert {counts["built"] for counts in release.summary().values()} == {2}

    logs = [path.read_text(encoding="utf-8") for path in tmp_path.glob("slvmeval-driver-*.log")]
    log = "".join(logs)
    assert "driver: round 1 on" in log
    assert "driver: round 2 on" in log
    slurm.run("scancel", "--name=slvmeval-driver")
    slurm.wait(lambda: not slurm.squeue())
    assert list(tmp_path.glob("*.unfinished")) == []


def test_what_the_driver_lacks_is_said(slurm: Slurm, tmp_path: Path) -> None:
    output = tmp_path / "log"
    options = ["--partition=cpu", "--mem=500", f"--output={output}"]
    for variables in (f"PATH={Path(sys.executable).parent}:/usr/bin:/bin", "PATH=/usr/bin:/bin"):
        slurm.run("sbatch", "--wait-all-nodes=0", *options, f"--export={variables}", str(DRIVER))
        slurm.wait(lambda: not slurm.squeue())
    log = output.read_text(encoding="utf-8")
    assert "driver: set PREFECT_API_URL to the Prefect server's address" in log
    assert "driver: there is no prefect: activate the environment" in log
