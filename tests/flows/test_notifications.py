"""A real Prefect server tells a receiver of deployed runs that failed or are incomplete, and of no other."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Completed, Failed

from flows.notifications import BLOCK, NOTIFICATION, notify
from flows.shell import INCOMPLETE
from infra.prefect_server import FLOW_NAME
from storage_schemas.errors import UserInputError
from tests.flows.prefect_servers import PrefectServer, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect-server")]


#: Name of the flow of the runs of this file; other runs of the server are told of, too.
TOLD = "told"


@pytest.fixture
def quiet(client: SyncPrefectClient) -> Iterator[None]:
    """Take the automation back: the server is that of other tests."""
    yield
    for automation in client.read_automations_by_name(NOTIFICATION):
        client.delete_automation(automation.id)


@pytest.fixture
def received() -> Iterator[tuple[str, list[str]]]:
    """A receiver's address, and the texts that it was sent."""
    texts: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}/hook", texts
        made.shutdown()


@pytest.mark.usefixtures("quiet")
def test_it_tells_of_what_needs_a_look(
    shared_server: PrefectServer, client: SyncPrefectClient, received: tuple[str, list[str]]
) -> None:
    address, texts = received
    assert notify(client, address)
    # again, as `deploy` does, and it stays one
    assert not notify(client, address)
    assert len(client.read_automations_by_name(NOTIFICATION)) == 1
    block = client.read_block_document_by_name(BLOCK, "webhook", include_secrets=False)
    assert address not in json.dumps(block.data, default=str)
    ask = shared_server.ask
    flow = ask("/flows/", {"name": TOLD})["id"]
    made = ask("/deployments/", {"name": FLOW_NAME, "flow_id": flow})["id"]

    def run(deployed: bool = True) -> UUID:
        where = f"/deployments/{made}/create_flow_run" if deployed else "/flow_runs/"
        return UUID(ask(where, {} if deployed else {"flow_id": flow})["id"])

    says = 'Version 2 is written: 3 "pairs"\nand 1 set aside'
    client.set_flow_run_state(run(), Completed(message="all is built"), force=True)
    # started by hand, by somebody who sees it
    client.set_flow_run_state(run(deployed=False), Failed(message="by hand"), force=True)
    client.set_flow_run_state(run(), Completed(name=INCOMPLETE, message=says), force=True)
    client.set_flow_run_state(run(), Failed(message="the store is full"), force=True)

    def mine() -> list[str]:
        return sorted((text for text in texts if text.startswith(TOLD)), key=lambda text: "Failed" in text)

    wait_for(lambda: len(mine()) >= 2, 60, "message")
    incomplete, failed = mine()
    assert incomplete.startswith(f"{TOLD}: {INCOMPLETE}. ")
    assert incomplete.endswith(says)
    assert failed.endswith("the store is full")
    assert "/runs/flow-run/" in failed


def test_what_cannot_be_told_is_reported(client: SyncPrefectClient) -> None:
    for where, message in (
        ("ftp://host/hook", "begins with https://"),
        ("slack", "give the https:// address of a webhook, or TYPE/NAME"),
        ("sendgrid-email/lab", "no block 'lab' of type 'sendgrid-email' on the server"),
    ):
        with pytest.raises(UserInputError, match=message):
            notify(client, where)
