"""The driver as a job: it takes runs, and continues them in its next round when its time is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.recipe import Recipe
from tests.flows.prefect_servers import PrefectServer, wait_for
from tests.slurm.conftest import Slurm

AddFilm = Callable[[Path, int], Path]
DRIVER = Path(__file__).parents[2] / "slurm" / "driver.sbatch"

PROFILE = """
name = "test"
store = "{folder}/store"
sources = ["folder:{folder}/videos"]
prefect_api_url = "{api}"
poll_s = 1.0

[pools.cpu]
partition = "h100"
cores = 1
memory = "2GiB"
walltime = "00:10:00"
longest_item = "00:01:00"
idle_s = 3
"""


@pytest.fixture
def server(tmp_path: Path, slurm: Slurm) -> Iterator[PrefectServer]:
    """A Prefect server, in whose environment jobs are sent and commands run."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    with PrefectServer(tmp_path, SLURM_CONF=str(slurm.conf), PATH=path) as started:
        yield started
        slurm.clean()


def driver(slurm: Slurm) -> dict[str, str]:
    (result,) = [job for job in slurm.squeue() if job["name"] == "slvmeval-driver"]
    return result


def pools(slurm: Slurm) -> list[str]:
    """Return the states of the jobs of worker pools."""
    return [job["state"] for job in slurm.squeue() if job["name"] != "slvmeval-driver"]


def test_a_run_continues_in_the_next_round(
    slurm: Slurm, server: PrefectServer, add_film: AddFilm, small_recipe: Recipe, tmp_path: Path
) -> None:
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    (tmp_path / "site.toml").write_text(PROFILE.format(folder=tmp_path, api=server.api), encoding="utf-8")
    (tmp_path / "recipe.json").write_text(small_recipe.model_dump_json(), encoding="utf-8")
    server.slvmeval_here("deploy", "--profile", "site.toml", "--recipe", "recipe.json")
    server.processes.run("sbatch", "--partition=cpu", "--mem=3G", "--time=20", str(DRIVER))

    # no node takes the jobs of the pool, so that the run is not over when the time of the driver is over
    for node in ("g1", "g2"):
        slurm.drain(node)
    server.slvmeval_here("run", "build-slvmeval", "--profile", "site.toml")
    wait_for(lambda: pools(slurm) == ["PENDING"], 120, "job of the pool", 0.5)
    (run,) = server.runs("RUNNING")
    # SLURM sends this some minutes before the end
    slurm.run("scancel", "--signal=USR1", "--batch", driver(slurm)["id"])
    wait_for(lambda: driver(slurm)["state"] == "PENDING", 120, "driver in the queue again", 0.5)
    assert [result["id"] for result in server.runs("CRASHED", "RUNNING")] == [run["id"]]
    assert pools(slurm) == []

    for node in ("g1", "g2"):
        slurm.resume(node)
    # SLURM lets two minutes pass before a job that was put back starts; at once it would not start it at all
    slurm.run("scontrol", "update", f"JobId={driver(slurm)['id']}", "StartTime=now+15")
    slurm.wait(lambda: driver(slurm)["state"] == "RUNNING", 60)
    wait_for(lambda: server.runs("COMPLETED"), 240, "end of the run", 0.5)
    assert [result["id"] for result in server.runs("COMPLETED")] == [run["id"]]
    release = Release.open(Store.open(tmp_path / "store"), "main")
    assert {counts["built"] for counts in release.summary().values()} == {2}

    log = said(tmp_path)
    assert "driver: round 1 on" in log
    assert "driver: round 2 on" in log
    slurm.run("scancel", "--name=slvmeval-driver")
    slurm.wait(lambda: not slurm.squeue())
    assert list(tmp_path.glob("*.unfinished")) == []


def said(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in folder.glob("slvmeval-driver-*.log"))


def test_what_the_driver_lacks_is_reported(slurm: Slurm, tmp_path: Path) -> None:
    output = tmp_path / "log"
    options = ["--partition=cpu", "--mem=500", f"--output={output}"]
    for variables in (f"PATH={Path(sys.executable).parent}:/usr/bin:/bin", "PATH=/usr/bin:/bin"):
        slurm.run("sbatch", "--wait-all-nodes=0", *options, f"--export={variables}", str(DRIVER))
        slurm.wait(lambda: not slurm.squeue())
    log = output.read_text(encoding="utf-8")
    assert "driver: set PREFECT_API_URL to the Prefect server's address" in log
    assert "driver: there is no prefect: activate the environment" in log
