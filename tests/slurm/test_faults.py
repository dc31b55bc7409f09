"""A build on a cluster to which everything happens that happens on clusters, against one that was left alone.

After each of them: the release is complete and equal, checksum by checksum; what was committed was not made
again; no job is left in the queue; no run is left Running.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.progress import read_runs
from storage_schemas.errors import Reason
from storage_schemas.release import Release
from storage_schemas.store import FRAMES, PAIR
from tasks.recipe import Recipe
from tests.flows.prefect_servers import PrefectServer
from tests.inline import build_inline
from tests.slurm.building import Building, flow_runs, states_of_runs
from tests.slurm.conftest import Slurm
from tests.small_films import FilmsOfModule

AddFilm = Callable[[Path, int], Path]
FILMS = (1, 2, 3, 4)
#: A job is not gone before SLURM has looked, and the shortest time limit is a minute.
QUEUE_S = 90.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """One Prefect server for all builds of this file, as on a site."""
    with PrefectServer(tmp_path_factory.mktemp("prefect")) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(films_of_module: FilmsOfModule) -> Release:
    """The release that the films give in one process."""
    return build_inline(films_of_module(*FILMS)).release


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
        made.process.kill()
        made.process.wait()


def check(building: Building, undisturbed: Release, before: dict[str, int]) -> None:
    """What holds after every build, whatever happened to it."""
    assert building.end() == 0, building.said()
    release = building.release()
    assert release.manifest.content_checksum == undisturbed.manifest.content_checksum
    assert [(r.pair_id, r.low_checksum) for r in release.pairs()] == [
        (r.pair_id, r.low_checksum) for r in undisturbed.pairs()
    ]
    assert before.items() <= building.committed().items(), "something committed was made again"
    nothing_left(building)


def nothing_left(building: Building) -> None:
    building.slurm.wait(lambda: not building.slurm.squeue(), QUEUE_S)
    deadline = time.monotonic() + 60
    while {"RUNNING", "PENDING"} & {state for of in states_of_runs(building.api).values() for state in of}:
        assert time.monotonic() < deadline, states_of_runs(building.api)
        time.sleep(1)


def jobs(building: Building, state: str, *options: str) -> list[dict[str, str]]:
    return [job for job in building.slurm.squeue(*options) if job["state"] == state]


def test_left_alone_with_a_node_that_is_not_fit(building: Building, undisturbed: Release) -> None:
    # short enough that the workers of a pool end while the other works, and come again
    building.idle_s = 3
    building.cpu_lines = "setup = ['[ \"$SLURMD_NODENAME\" != c1 ] || export SLVMEVAL_WORKER_STORE=/none']"
    building.start()
    check(building, undisturbed, {})
    assert "1 node was unfit and left out: c1 (pool cpu)" in (building.folder / "build.log").read_text()
    (run,) = read_runs(building.store / "cache")
    assert "the store /none is not visible here" in run["unfit"]["cpu"]["c1"]
    messages = [run["state"]["message"] for run in flow_runs(building.api)]
    assert any("left out: c1 (pool cpu)" in message for message in messages)
    # each aspect was made in its pool, and what was made says so
    store = building.release().store
    partitions = {
        manifest.content["aspect"]: manifest.provenance["partition"] for manifest in store.manifests(PAIR)
    }
    placed = {"aesthetics", "spatial_relationship"}
    assert {a for a, partition in partitions.items() if partition == "h100"} == placed
    assert set(partitions.values()) == {"cpu", "h100"}
    for manifest in store.manifests(FRAMES):
        assert manifest.provenance["partition"] == "cpu"
        assert manifest.provenance["job"].isdigit()
        assert manifest.provenance["node"] == "c2"
    devices = {
        manifest.provenance.get("device")
        for manifest in store.manifests(PAIR)
        if manifest.content["aspect"] in placed
    }
    assert None not in devices


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('constraint = "infiniband"', ("pools.cpu.constraint", "infiniband")),
        ('directives = ["--mem=1"]\nqos = "x y"', ("pools.cpu.qos", "one word")),
        ("corse = 4", ("pools.cpu.corse", "Did you mean 'cores'?")),
    ],
)
def test_a_profile_that_does_not_fit_is_reported_before_the_first_job(
    building: Building, lines: str, said: tuple[str, ...]
) -> None:
    building.cpu_lines = lines
    building.start()
    assert building.end() == 1
    text = building.said()
    assert all(words in text for words in ("site.toml", *said)), text
    assert "Traceback" not in text
    # not even the folder in which a run's jobs would leave their logs
    assert building.slurm.squeue() == []
    assert not list(building.store.glob("cache/slurm*"))


def test_a_time_limit_reached(building: Building, undisturbed: Release) -> None:
    """Jobs of a minute: SLURM ends them in the middle, though the workers had been told to stop before."""
    building.cpu_lines = 'directives = ["--time=1"]'
    building.start()
    check(building, undisturbed, {})


def test_the_flow_is_terminated_then_the_server_stops_and_comes_back(
    building: Building, server: PrefectServer, undisturbed: Release
) -> None:
    before = ended_and_started_again(building, signal.SIGTERM)
    building.reached(len(before) + 1)
    before = building.committed()
    server.kill(signal.SIGTERM)
    time.sleep(8)
    server.start()
    check(building, undisturbed, before)


def ended_and_started_again(building: Building, number: signal.Signals) -> dict[str, int]:
    """End a build in its middle, and start it again when its jobs are gone; return what was committed."""
    if building.process is None:
        building.start()
    building.reached(8)
    building.kill(number)
    building.slurm.wait(lambda: not building.slurm.squeue(), QUEUE_S)
    result = building.committed()
    building.start()
    return result


def test_the_store_is_read_only_for_a_while_then_the_flow_is_killed(
    building: Building, undisturbed: Release
) -> None:
    """Driver and workers wait, jobs that start meanwhile are not at fault, and nothing is made again."""
    building.store.mkdir()
    building.slurm.run("mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(building.store))
    # a file system with files that are open for writing is not made read-only
    logs = building.folder / "logs"
    building.site_lines = f'job_logs = "{logs}"'

    def remounted(mode: str) -> bool:
        command = ["mount", "-o", f"remount,{mode}", str(building.store)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def said(words: str) -> bool:
        return any(words in log.read_text() for log in logs.iterdir())

    try:
        building.start()
        building.reached(3)
        building.wait(lambda: remounted("ro"))
        read_only = building.committed()
        # a worker needs the store, and is back before the flow is killed, however busy the machine
        building.wait(lambda: said("is unavailable"))
        time.sleep(10)
        assert remounted("rw")
        building.wait(lambda: said("is available again after"))
        before = ended_and_started_again(building, signal.SIGKILL)
        assert read_only.items() <= before.items()
        check(building, undisturbed, before)
    finally:
        building.slurm.run("umount", "-l", str(building.store))


def test_the_store_is_full(building: Building, undisturbed: Release) -> None:
    building.store.mkdir()
    building.slurm.run("mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(building.store))
    try:
        building.start()
        code = building.end()
        assert code in (1, 3), building.said()
        assert "space" in building.said()
        building.slurm.wait(lambda: not building.slurm.squeue(), QUEUE_S)
        building.slurm.run("mount", "-o", "remount,size=200m", str(building.store))
        before = building.committed()
        building.start()
        assert building.end() == 0, building.said()
        assert before.items() <= building.committed().items()
        newest = {(r.pair_id, r.low_checksum) for r in building.release().pairs()}
        assert newest == {(r.pair_id, r.low_checksum) for r in undisturbed.pairs()}
        nothing_left(building)
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


def test_a_source_that_ends_its_worker(building: Building, undisturbed: Release) -> None:
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
    others = {r.pair_id: r.low_checksum for r in undisturbed.pairs() if r.source_id != poison}
    assert {r.pair_id: r.low_checksum for r in release.pairs()} == others
    nothing_left(building)
