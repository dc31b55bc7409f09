"""What goes away in the middle of a deployed build: the server, the process of the flow, its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows import deployments
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.recipe import load_recipe
from tests.flows.deployed_site import RECIPE, AddFilm, settled
from tests.flows.prefect_servers import PrefectServer, wait_for
from tests.flows.small_builds import changed
from tests.inline import build_inline
from tests.small_films import options_in

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect-faults")]

FILMS = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, add_film: AddFilm) -> Iterator[PrefectServer]:
    """A server with deployments for films, enough that one worker is in the middle of them for a while."""
    with PrefectServer(tmp_path_factory.mktemp("faults")) as result:
        folder = result.processes.folder
        for number in range(FILMS):
            settled(add_film(folder / "videos", number))
        (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
        (folder / "site.toml").write_text(
            f'store = "store"\nsources = ["folder:videos"]\nworkers = 1\nprefect_api_url = "{result.api}"\n'
        )
        result.slvmeval_here("deploy", "--profile", "site.toml", "--recipe", "recipe.toml")
        yield result


@pytest.fixture
def worker(server: PrefectServer) -> subprocess.Popen[bytes]:
    """The worker of the tests, or another one where a test has killed it."""
    for process in server.processes.started:
        if "worker" in process.args and process.poll() is None:  # type: ignore[operator]
            return process
    return server.start_worker()


@pytest.fixture(scope="module")
def direct(server: PrefectServer) -> str:
    """The checksum of the release that nobody disturbs."""
    folder = server.processes.folder
    options = options_in(folder, load_recipe(str(folder / "recipe.toml")))
    return build_inline(changed(options, store=str(folder / "direct"))).release.manifest.content_checksum


class Middle:
    """A run in the middle: its store, its flow run, and the processes of its worker."""

    def __init__(
        self,
        server: PrefectServer,
        worker: subprocess.Popen[bytes],
        name: str,
        deployment: str = "build-slvmeval",
        followed: bool = False,
        id_: str = "",
    ) -> None:
        self.server = server
        self.store = server.processes.folder / name
        flow = f"build-slvmeval/{deployment}"
        self.id = id_ or server.start_run(flow, store=str(self.store))
        if followed:
            # a worker may look only now, and take the other one first
            wait_for(lambda: self._state() != "SCHEDULED", 120, "start of the run", 0.3)
            self.follower = server.start_run(flow, store=str(self.store))
        wait_for(lambda: self._state() == "RUNNING", 120, "run", 0.3)
        wait_for(lambda: any(self.store.glob("artifacts/timeline/*/*/manifest.json")), 120, "frames")
        assert not self.versions(), "it was over too soon"
        assert [run["id"] for run in server.runs("RUNNING")] == [self.id]
        children = psutil.Process(worker.pid).children(recursive=True)
        (self.flow,) = [child for child in children if child.ppid() == worker.pid]
        self.processes = children

    def _state(self) -> str:
        return str(self.server.ask(f"/flow_runs/{self.id}")["state"]["type"])

    def versions(self) -> list[Path]:
        return list(self.store.glob("releases/main/versions/*/manifest.json"))

    def ends(self, seconds: float) -> dict[str, Any]:
        """Return the state in which the run ends, and wait until none of its processes is left."""
        result = self.server.end_of(self.id, seconds)
        _, left = psutil.wait_procs(self.processes, timeout=60)
        assert [other.cmdline() for other in left if other.status() != psutil.STATUS_ZOMBIE] == []
        return result

    def checksum(self) -> str:
        return Release.open(Store.open(self.store), "main").manifest.content_checksum


def test_a_run_continues_without_its_worker_and_for_a_while_without_the_server(
    server: PrefectServer, worker: subprocess.Popen[bytes], direct: str
) -> None:
    run = Middle(server, worker, "away", "nightly")
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait(10)
    server.kill()
    # the build continues to its end without both
    wait_for(run.versions, 180, "release")
    time.sleep(2)
    server.start()
    state = run.ends(120)
    assert (state["type"], run.checksum()) == ("COMPLETED", direct)
    assert state["message"] == f"Version 1 of release main is written: {3 * FILMS} pairs of {FILMS} sources."
    shown = server.artifacts(run.id)
    assert shown["result-main"] == state["message"]
    assert shown["progress-verify"] == 100
    assert {"summary-main", "release-main", "sheet-main-aesthetics"} <= set(shown)


def test_nights_come_one_after_another_also_where_one_is_killed(
    server: PrefectServer, worker: subprocess.Popen[bytes]
) -> None:
    run = Middle(server, worker, "night", "nightly", followed=True)
    os.kill(run.flow.pid, signal.SIGKILL)
    assert run.ends(60)["type"] == "CRASHED"
    # what follows it is cancelled, which leaves nothing either
    follower = Middle(server, worker, "night", id_=run.follower)
    server.ask(f"/flow_runs/{follower.id}/set_state", {"state": {"type": "CANCELLING"}})
    assert follower.ends(90)["type"] == "CANCELLED"
    assert not run.versions()
    first, last = (server.ask(f"/flow_runs/{one.id}") for one in (run, follower))
    assert last["start_time"] > first["end_time"]


def test_the_process_of_a_flow_that_is_terminated(
    server: PrefectServer, worker: subprocess.Popen[bytes]
) -> None:
    run = Middle(server, worker, "terminated")
    began = time.monotonic()
    run.flow.terminate()
    state = run.ends(60)
    assert state["type"] == "CRASHED", "\n".join([state["message"], *server.logs(run.id)])
    assert time.monotonic() - began < 60
    assert not run.versions()


def test_a_run_whose_worker_is_killed_too_ends_and_the_next_continues(
    server: PrefectServer, worker: subprocess.Popen[bytes], direct: str
) -> None:
    # much sooner than `slvmeval deploy` has it; the flow says every 60 s that it lives
    with deployments.server(server.api) as client:
        assert not deployments.make_automation(client, silent_s=40)
    run = Middle(server, worker, "both", "nightly")
    # as on a machine that is switched off
    os.kill(worker.pid, signal.SIGKILL)
    os.kill(run.flow.pid, signal.SIGKILL)
    # the time counts from its last sign of life, which may be long ago
    state = run.ends(90)
    assert state["type"] == "CRASHED"
    assert "sent no heartbeat for 40 s" in state["message"]
    worker.wait(10)
    # one that takes long to begin would be taken for dead, too
    with deployments.server(server.api) as client:
        deployments.make_automation(client)
    # its place is free again, and nothing is made twice
    made = {path: path.stat().st_mtime_ns for path in run.store.glob("artifacts/*/*/*/manifest.json")}
    server.start_worker()
    state = server.end_of(server.start_run("build-slvmeval/nightly", store=str(run.store)), 120)
    assert state["message"].startswith("Version 1 of release main is written")
    assert run.checksum() == direct
    assert (
        made.items()
        <= {path: path.stat().st_mtime_ns for path in run.store.glob("artifacts/*/*/*/manifest.json")}.items()
    )
