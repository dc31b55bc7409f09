"""Task runs that a real Prefect server thinks under way though their flow run has ended."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed

from flows import run_ends
from infra.prefect_server import FLOW_NAME
from tests.flows.prefect_servers import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect-server")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    with PrefectServer(tmp_path_factory.mktemp("ends")) as made:
        yield made


@pytest.fixture
def client(server: PrefectServer) -> Iterator[SyncPrefectClient]:
    with temporary_settings({PREFECT_API_URL: server.api}), get_client(sync_client=True) as made:
        yield made


def left_over(server: PrefectServer, client: SyncPrefectClient) -> str:
    """Make a flow run that has just ended, and return the id of a task run of it that has not."""
    flow = server.ask("/flows/", {"name": FLOW_NAME})["id"]
    run = server.ask("/flow_runs/", {"flow_id": flow})["id"]
    task = {"flow_run_id": run, "task_key": "ingest", "dynamic_key": "0", "state": {"type": "RUNNING"}}
    made = server.ask("/task_runs/", task)["id"]
    client.set_flow_run_state(UUID(run), Crashed(message="told to end"), force=True)
    return str(made)


def state(server: PrefectServer, task: str) -> str:
    return str(server.ask(f"/task_runs/{task}")["state_type"])


def test_they_end_with_the_next_run_however_soon_it_is_done(
    server: PrefectServer, client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = left_over(server, client)
    monkeypatch.setattr(run_ends, "OVER_S", 4.0)
    # events of theirs may be under way as yet, and a run that begins does not wait for them
    run_ends.end_left_over_tasks(client)
    assert state(server, task) == "RUNNING"
    # but one that ends does: no other may follow
    run_ends.end_left_over_tasks(client, 20.0)
    assert state(server, task) == "CRASHED"


def test_nothing_is_waited_for_where_nothing_is_left(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slept(seconds: float) -> None:
        raise AssertionError(f"slept {seconds} s")

    monkeypatch.setattr(run_ends.time, "sleep", slept)
    run_ends.end_left_over_tasks(client, 20.0)
