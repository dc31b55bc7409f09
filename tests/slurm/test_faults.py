"""A build on a cluster to which happens what happens on clusters, against one that was left alone.

After each of them: the release is complete and equal, checksum by checksum; what was committed was not made
again; no job is left in the queue; no run is left Running. The campaign ends and stops everything else.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.build.options import BuildOptions, SourceRoot
from infra.progress import read_runs
from storage_schemas.errors import Reason
from storage_schemas.release import Release
from storage_schemas.store import FRAMES, PAIR
from tasks.recipe import Recipe
from tests.flows.prefect_servers import PrefectServer, wait_for
from tests.flows.small_builds import AddFilm
from tests.inline import build_inline
from tests.slurm.building import Building
from tests.slurm.conftest import Slurm

FILMS = (1, 2, 3, 4)
#: A job is not gone before SLURM has looked, and the shortest time limit is a minute.
QUEUE_S = 90.0


@pytest.fixture(scope="module")
def undisturbed(add_film: AddFilm, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The release that the films give in one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    for number in FILMS:
        add_film(folder / "videos", number)
    sources = (SourceRoot(path=str(folder / "videos")),)
    options = BuildOptions(store=str(folder / "store"), sources=sources, recipe=small_recipe)
    return build_inline(options).release


@pytest.fixture
def building(
    slurm: Slurm, server: PrefectServer, add_film: AddFilm, small_recipe: Recipe, tmp_path: Path
) -> Iterator[Building]:
    """A build of the films that has not been started."""
    for number in FILMS:
        add_film(tmp_path / "videos", number)
    (tmp_path / "recipe.json").write_text(small_recipe.model_dump_json())
    made = Building(slurm, tmp_path, server.api)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


def pairs_of(release: Release) -> list[tuple[str, str]]:
    return [(pair.pair_id, pair.low_checksum) for pair in release.pairs()]


def nothing_left(building: Building, server: PrefectServer) -> None:
    building.slurm.wait(lambda: not building.slurm.squeue(), QUEUE_S)
    under_way = {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}
    wait_for(lambda: not server.runs("RUNNING", "PENDING"), 60, "end of the run", 1.0)
    wait_for(lambda: not server.ask("/task_runs/filter", {"task_runs": under_way}), 60, "end of tasks", 1.0)


def test_left_alone_with_a_node_that_is_not_fit(
    building: Building, server: PrefectServer, undisturbed: Release
) -> None:
    # short enough that the workers of a pool end while the other works, and come again
    building.idle_s = 3
    building.cpu_lines = "setup = ['[ \"$SLURMD_NODENAME\" != c1 ] || export SLVMEVAL_WORKER_STORE=/none']"
    building.start()
    assert building.end() == 0, building.said()
    release = building.release()
    assert release.manifest.content_checksum == undisturbed.manifest.content_checksum
    assert pairs_of(release) == pairs_of(undisturbed)
    nothing_left(building, server)
    assert "1 node was unfit and left out: c1 (pool cpu)" in (building.folder / "build.log").read_text()
    (run,) = read_runs(building.store / "cache")
    assert "the store /none is not visible here" in run["unfit"]["cpu"]["c1"]
    assert any("left out: c1 (pool cpu)" in (run["state"]["message"] or "") for run in server.runs())
    # each aspect was made in its pool, and what was made says so
    made = {pair.content["aspect"]: pair.provenance for pair in release.store.manifests(PAIR)}
    placed = {"aesthetics", "spatial_relationship"}
    assert {aspect for aspect, where in made.items() if where["partition"] == "h100"} == placed
    assert {where["partition"] for where in made.values()} == {"cpu", "h100"}
    assert all(made[aspect].get("device") for aspect in placed)
    for manifest in release.store.manifests(FRAMES):
        where = manifest.provenance
        assert (where["partition"], where["node"], where["job"].isdigit()) == ("cpu", "c2", True)


def test_a_profile_that_does_not_fit_is_said_before_the_first_job(building: Building) -> None:
    building.cpu_lines = 'constraint = "infiniband"'
    building.start()
    assert building.end() == 1
    text = building.said()
    assert all(words in text for words in ("site.toml", "pools.cpu.constraint", "infiniband")), text
    assert "Traceback" not in text
    # not even the folder in which a run's jobs would leave their logs
    assert building.slurm.squeue() == []
    assert not list(building.store.glob("cache/slurm*"))


def test_a_time_limit_reached(building: Building, server: PrefectServer, undisturbed: Release) -> None:
    """Jobs of a minute: SLURM ends them in the middle, though the workers had been told to stop before."""
    building.cpu_lines = 'directives = ["--time=1"]'
    building.start()
    assert building.end() == 0, building.said()
    assert pairs_of(building.release()) == pairs_of(undisturbed)
    nothing_left(building, server)


def test_the_store_is_full_and_then_read_only_for_a_while(
    building: Building, server: PrefectServer, undisturbed: Release
) -> None:
    """Driver and workers wait for a disk that they cannot write, and nothing is made again."""
    building.store.mkdir()
    building.slurm.run("mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(building.store))
    # a file system with files that are open for writing is not made read-only
    logs = building.folder / "logs"
    building.site_lines = f'job_logs = "{logs}"'

    def remounted(how: str) -> bool:
        command = ["mount", "-o", f"remount,{how}", str(building.store)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    try:
        building.start()
        assert building.end() in (1, 3), building.said()
        assert "space" in building.said()
        building.slurm.wait(lambda: not building.slurm.squeue(), QUEUE_S)
        assert remounted("size=200m")
        there = len([name for name in building.committed() if name.startswith("artifacts/")])
        building.start()
        building.reached(there + 3)
        building.wait(lambda: remounted("ro"))
        before = building.committed()
        time.sleep(8)
        assert remounted("rw")
        assert building.end() == 0, building.said()
        assert sorted(pairs_of(building.release())) == sorted(pairs_of(undisturbed))
        assert before.items() <= building.committed().items(), "something committed was made again"
        assert any("is back after" in log.read_text() for log in logs.iterdir())
        nothing_left(building, server)
    finally:
        building.slurm.run("umount", "-l", str(building.store))


#: Ends a worker, as a broken decoder does, while it reads one film.
POISON = """
import os, threading, time

def watch():
    while True:
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.readlink("/proc/self/fd/" + name).endswith("film3.mp4"):
                    os.abort()
            except OSError:
                pass
        time.sleep(0.001)

if "SLURM_JOB_ID" in os.environ:
    threading.Thread(target=watch, daemon=True).start()
"""


def test_a_source_that_ends_its_worker(
    building: Building, server: PrefectServer, undisturbed: Release
) -> None:
    path = building.folder / "poison"
    path.mkdir()
    (path / "sitecustomize.py").write_text(POISON)
    building.cpu_lines = f'setup = ["export PYTHONPATH={path}:$PYTHONPATH"]'
    building.start()
    assert building.end() == 3, building.said()
    release = building.release()
    rows = [row for row in release.set_aside() if row.reason is Reason.WORKER_DIED]
    assert {row.location.rpartition("/")[2] for row in rows} == {"film3.mp4"}
    (poison,) = [source.source_id for source in undisturbed.sources() if source.video.endswith("film3.mp4")]
    others = {pair.pair_id: pair.low_checksum for pair in undisturbed.pairs() if pair.source_id != poison}
    assert dict(pairs_of(release)) == others
    nothing_left(building, server)
