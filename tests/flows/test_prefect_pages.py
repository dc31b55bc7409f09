"""Prefect's pages through another port than the server's, as through a tunnel: they find their API."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.flows.compose_files import services
from tests.flows.prefect_servers import PrefectServer, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.xdist_group("prefect-server")]

AUTH = "me:a-secret-word"
SETTING = "PREFECT_SERVER_UI_API_URL"
NAME = "main-1-source"


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _join(browser: socket.socket, server: socket.socket) -> None:
    with browser, server:
        back = threading.Thread(target=_pump, args=(server, browser), daemon=True)
        back.start()
        _pump(browser, server)
        back.join()


def _forward(listener: socket.socket, port: int) -> None:
    while True:
        try:
            browser = listener.accept()[0]
        except OSError:
            return
        server = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=_join, args=(browser, server), daemon=True).start()


@contextmanager
def another_port(port: int) -> Iterator[int]:
    """Give a port that leads to another one, as ``ssh -L`` does."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_forward, args=(listener, port), daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrefectServer]:
    """A server with one run, set as compose.yaml sets it."""
    variables = {"POSTGRES_PASSWORD": "p", "PREFECT_AUTH": AUTH}
    given = services(variables, "compose.yaml")["server"]["environment"]
    settings = {name: given[name] for name in (SETTING, "PREFECT_SERVER_API_AUTH_STRING")}
    with PrefectServer(tmp_path, auth=AUTH, **settings) as result:

        def ask(path: str, body: dict[str, Any]) -> Any:
            # SQLite is locked while the services of a new server start
            with contextlib.suppress(Exception):
                return result.ask(path, body)

        flow = wait_for(lambda: ask("/flows/", {"name": "build-slvmeval"}), 60, "flow")
        run = {"flow_id": flow["id"], "name": NAME, "state": {"type": "COMPLETED"}}
        wait_for(lambda: ask("/flow_runs/", run), 60, "run")
        yield result


def test_the_list_of_runs_is_shown(server: PrefectServer, chromium: Any) -> None:
    with another_port(server.port) as port:
        page = chromium.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"http://127.0.0.1:{port}/runs", timeout=120_000)
        password = page.locator("input[type=password]")
        password.wait_for(timeout=60_000)
        assert page.get_by_text(NAME).count() == 0
        password.fill(AUTH)
        password.press("Enter")
        page.get_by_text(NAME).first.wait_for(timeout=60_000)
        page.close()
    assert any(url.startswith(f"http://127.0.0.1:{port}/api/flow_runs/") for url in asked)
    assert not [url for url in asked if f":{server.port}/" in url or ":4200/" in url]
