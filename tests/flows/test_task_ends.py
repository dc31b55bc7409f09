"""Runs of flows and tasks that a real Prefect server thinks under way though they have ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Crashed, Running

from flows import run_ends
from flows.board import RunBoard
from flows.command_runs import end_last_run
from infra.prefect_server import FLOW_NAME
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.store import Store
from tests.flows.deployed_site import RECIPE
from tests.flows.prefect_servers import PrefectServer
from tests.own_time import own_time

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect-server")]


def left_over(shared_server: PrefectServer, client: SyncPrefectClient) -> str:
    """Make a flow run that has just ended, and return the id of a task run of it that has not."""
    flow = shared_server.ask("/flows/", {"name": FLOW_NAME})["id"]
    run = shared_server.ask("/flow_runs/", {"flow_id": flow})["id"]
    task = {"flow_run_id": run, "task_key": "ingest", "dynamic_key": "0", "state": {"type": "RUNNING"}}
    made = shared_server.ask("/task_runs/", task)["id"]
    client.set_flow_run_state(UUID(run), Crashed(message="told to end"), force=True)
    return str(made)


def state(shared_server: PrefectServer, task: str) -> str:
    return str(shared_server.ask(f"/task_runs/{task}")["state_type"])


def test_they_end_with_the_next_run_however_soon_it_is_done(
    shared_server: PrefectServer, client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = left_over(shared_server, client)
    monkeypatch.setattr(run_ends, "OVER_S", 4.0)
    # events of theirs may be under way as yet, and a run that begins does not wait for them
    run_ends.end_left_over_tasks(client)
    assert state(shared_server, task) == "RUNNING"
    # but one that ends does: no other may follow
    run_ends.end_left_over_tasks(client, 20.0)
    assert state(shared_server, task) == "CRASHED"


def test_nothing_is_waited_for_where_nothing_is_left(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slept(seconds: float) -> None:
        raise AssertionError(f"slept {seconds} s")

    # of other tests
    monkeypatch.setattr(run_ends, "OVER_S", 0.0)
    run_ends.end_left_over_tasks(client)
    own_time(monkeypatch, run_ends, sleep=slept)
    run_ends.end_left_over_tasks(client, 20.0)


def dead_process() -> int:
    """Return the id of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def running(shared_server: PrefectServer, client: SyncPrefectClient) -> UUID:
    """Make a flow run that runs, as Prefect has it."""
    flow = shared_server.ask("/flows/", {"name": FLOW_NAME})["id"]
    id_ = UUID(shared_server.ask("/flow_runs/", {"flow_id": flow})["id"])
    client.set_flow_run_state(id_, Running(), force=True)
    return id_


def ended_by_the_next(store: Store) -> None:
    with RunBoard() as board:
        run_ends.end_dead_runs(board, store)


def test_a_run_whose_process_could_not_say_its_end_is_ended_by_the_next(
    shared_server: PrefectServer, client: SyncPrefectClient, tmp_path: Path
) -> None:
    store = Store.create(tmp_path / "store")
    store.cache.mkdir(exist_ok=True)
    ids = [running(shared_server, client) for _ in range(4)]
    pids = [dead_process(), dead_process(), os.getpid()]
    for id_, pid, status in zip(ids, pids, ("failed", "running", "ended"), strict=False):
        state = BuildProgress(store.cache, quiet=True).state(status) | {"pid": pid, "flow_run": str(id_)}
        (store.cache / f"run-here-{pid}.json").write_text(json.dumps(state))
    ended_by_the_next(store)
    states = [str(shared_server.ask(f"/flow_runs/{id_}")["state_type"]) for id_ in ids]
    # the third process lives and may still say it, the fourth run is of another store
    assert states == ["CRASHED", "CRASHED", "RUNNING", "RUNNING"]


def test_a_run_without_work_ends_the_last_one_too(
    shared_server: PrefectServer, client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, site = Store.create(tmp_path / "store"), Profile(prefect_api_url=shared_server.api)
    store.cache.mkdir(exist_ok=True)
    id_, pid = running(shared_server, client), dead_process()
    state = BuildProgress(store.cache, quiet=True).state("running") | {"pid": pid, "flow_run": str(id_)}
    (store.cache / f"run-here-{pid}.json").write_text(json.dumps(state | {"status": "ended"}))
    end_last_run(store, site)
    # it ended by itself, and so has told the server of its end
    assert shared_server.ask(f"/flow_runs/{id_}")["state_type"] == "RUNNING"
    (store.cache / f"run-here-{pid}.json").write_text(json.dumps(state))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    end_last_run(store, Profile())
    assert shared_server.ask(f"/flow_runs/{id_}")["state_type"] == "RUNNING"
    with BuildProgress(store.cache, quiet=True):
        end_last_run(store, site)
    assert shared_server.ask(f"/flow_runs/{id_}")["state_type"] == "CRASHED"


#: A build that is killed when Prefect knows its run, and the store does not yet.
KILLED_EARLY = """
import os, sys
import flows.shell
flows.shell.end_dead_runs = lambda *_: os.kill(os.getpid(), 9)
from slvmeval.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_run_killed_before_it_noted_its_id_is_ended_by_the_next(
    shared_server: PrefectServer, client: SyncPrefectClient, tmp_path: Path, video: Path
) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    words = f"build --store {tmp_path}/store --sources {video.parent} --recipe {tmp_path}/recipe.toml"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_EARLY, *words.split()],
        env=shared_server.processes.environment,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    (run,) = [run for run in shared_server.runs("RUNNING") if "store" in run["parameters"].get("options", {})]
    ended_by_the_next(Store.open(tmp_path / "store"))
    assert shared_server.ask(f"/flow_runs/{run['id']}")["state"]["type"] == "CRASHED"
