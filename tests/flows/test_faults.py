"""What goes away in the middle of a deployed build: the server, the process of the flow, its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.build.options import BuildOptions, SourceRoot
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.recipe import load_recipe
from tests.flows.deployed_site import RECIPE, AddFilm, settled
from tests.flows.prefect_servers import PrefectServer, wait_for
from tests.inline import build_inline

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect-faults")]

FILMS = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, add_film: AddFilm) -> Iterator[PrefectServer]:
    """A server with deployments for eight films, each long enough to be in the middle of."""
    with PrefectServer(tmp_path_factory.mktemp("faults")) as result:
        folder = result.processes.folder
        for number in range(FILMS):
            settled(add_film(folder / "videos", number))
        (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
        (folder / "site.toml").write_text(
            f'store = "store"\nsources = ["folder:videos"]\nworkers = 2\nprefect_api_url = "{result.api}"\n'
        )
        result.slvmeval("deploy", "--profile", "site.toml", "--recipe", "recipe.toml")
        yield result


@pytest.fixture
def worker(server: PrefectServer) -> Iterator[subprocess.Popen[bytes]]:
    started = server.start_worker()
    yield started
    server.processes.end(started)


@pytest.fixture(scope="module")
def direct(server: PrefectServer) -> str:
    """The checksum of the release that nobody disturbs."""
    folder = server.processes.folder
    options = BuildOptions(
        store=str(folder / "direct"),
        sources=(SourceRoot(path=str(folder / "videos")),),
        recipe=load_recipe(str(folder / "recipe.toml")),
    )
    return build_inline(options).release.manifest.content_checksum


class Middle:
    """A run in the middle: its store, its flow run, and the processes of its worker."""

    def __init__(
        self, server: PrefectServer, worker: subprocess.Popen[bytes], name: str, deployment: str
    ) -> None:
        self.server = server
        self.store = server.processes.folder / name
        server.slvmeval("run", deployment, "--profile", "site.toml", "--param", f"store={self.store}")
        wait_for(lambda: any(self.store.glob("artifacts/timeline/*/*/manifest.json")), 120, "frames")
        assert not self.versions(), "it was over too soon"
        (self.id,) = [run["id"] for run in server.runs("RUNNING")]
        children = psutil.Process(worker.pid).children(recursive=True)
        (self.flow,) = [child for child in children if child.ppid() == worker.pid]
        self.processes = children

    def versions(self) -> list[Path]:
        return list(self.store.glob("releases/main/versions/*/manifest.json"))

    def ends(self, seconds: float) -> dict[str, Any]:
        """Return the state in which the run ends, and wait until none of its processes is left."""
        final = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        state = wait_for(
            lambda: (result := self.server.ask(f"/flow_runs/{self.id}")["state"])["type"] in final and result,
            seconds,
            "end of the run",
        )
        _, left = psutil.wait_procs(self.processes, timeout=60)
        assert [other.cmdline() for other in left if other.status() != psutil.STATUS_ZOMBIE] == []
        result: dict[str, Any] = state
        return result

    def checksum(self) -> str:
        return Release.open(Store.open(self.store), "main").manifest.content_checksum


def test_a_server_that_goes_away_and_comes_back(
    server: PrefectServer, worker: subprocess.Popen[bytes], direct: str
) -> None:
    run = Middle(server, worker, "away", "nightly")
    server.kill()
    # the build goes on to its end without it
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


def test_nights_come_one_after_another(server: PrefectServer, worker: subprocess.Popen[bytes]) -> None:
    run = Middle(server, worker, "night", "nightly")
    server.slvmeval("run", "nightly", "--profile", "site.toml", "--param", f"store={run.store}")
    second, first = [result["id"] for result in server.runs() if not result["auto_scheduled"]][:2]
    assert first == run.id
    assert run.ends(120)["type"] == "COMPLETED"
    wait_for(lambda: server.ask(f"/flow_runs/{second}")["state"]["type"] == "COMPLETED", 120, "second run")
    first, last = (server.ask(f"/flow_runs/{id_}") for id_ in (run.id, second))
    assert last["start_time"] > first["end_time"]
    assert last["state"]["message"].startswith("Nothing new")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"])
def test_the_process_of_a_flow_that_is_killed(
    how: signal.Signals, server: PrefectServer, worker: subprocess.Popen[bytes]
) -> None:
    run = Middle(server, worker, how.name, "build-slvmeval")
    began = time.monotonic()
    os.kill(run.flow.pid, how)
    state = run.ends(60)
    assert state["type"] == "CRASHED", "\n".join([state["message"], *server.logs(run.id)])
    assert time.monotonic() - began < 60
    assert not run.versions()


def test_a_worker_that_is_killed_leaves_its_run_alone(
    server: PrefectServer, worker: subprocess.Popen[bytes], direct: str
) -> None:
    run = Middle(server, worker, "alone", "build-slvmeval")
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait(10)
    assert run.ends(120)["type"] == "COMPLETED"
    assert run.checksum() == direct


def test_a_run_that_is_cancelled(server: PrefectServer, worker: subprocess.Popen[bytes]) -> None:
    run = Middle(server, worker, "cancelled", "build-slvmeval")
    server.ask(f"/flow_runs/{run.id}/set_state", {"state": {"type": "CANCELLING"}})
    assert run.ends(90)["type"] == "CANCELLED"
    assert not run.versions()


#: Sets a run to Crashed much sooner than `slvmeval deploy` does; the flow says every 60 s that it lives.
SOON = """
import sys
from flows import deployments
with deployments.server(sys.argv[1]) as client:
    print(deployments.make_automation(client, silent_s=40))
"""


def test_a_run_whose_worker_is_killed_too_ends_and_the_next_goes_on(
    server: PrefectServer, direct: str
) -> None:
    assert server.processes.run(sys.executable, "-c", SOON, server.api).strip() == "False"
    worker = server.start_worker()
    run = Middle(server, worker, "both", "nightly")
    # as on a machine that is switched off
    os.kill(worker.pid, signal.SIGKILL)
    os.kill(run.flow.pid, signal.SIGKILL)
    began = time.monotonic()
    state = run.ends(90)
    assert state["type"] == "CRASHED"
    assert "sent no heartbeat for 40 s" in state["message"]
    assert 10 < time.monotonic() - began < 90
    worker.wait(10)
    # its place is free again, and nothing is made twice
    made = {path: path.stat().st_mtime_ns for path in run.store.glob("artifacts/*/*/*/manifest.json")}
    worker = server.start_worker()
    output = server.slvmeval(
        "run", "nightly", "--profile", "site.toml", "--param", f"store={run.store}", "--watch"
    )
    server.processes.end(worker)
    assert "Completed: Version 1 of release main is written" in output
    assert run.checksum() == direct
    assert (
        made.items()
        <= {path: path.stat().st_mtime_ns for path in run.store.glob("artifacts/*/*/*/manifest.json")}.items()
    )
