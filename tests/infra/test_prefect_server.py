"""The embedded Prefect server that does not start or is left alone; tests of flows run one that serves."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest
from prefect.settings import (
    PREFECT_API_DATABASE_CONNECTION_URL,
    PREFECT_API_URL,
    PREFECT_HOME,
    temporary_settings,
)

from infra import embedded_server
from infra.prefect_server import _embedded_server, prefect_server
from storage_schemas.errors import PrerequisiteError


def test_a_server_that_ends_at_once_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    output = r"did not start \(it ended with code 1\): try again"
    with pytest.raises(PrerequisiteError, match=output), _embedded_server("a:b"):
        raise AssertionError("it started")


def test_loopback_that_is_down_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("socket.create_connection", refuse)
    output = r"127\.0\.0\.1 .* \(Network is unreachable\)"
    with pytest.raises(PrerequisiteError, match=output), _embedded_server("a:b"):
        raise AssertionError("it started")


def test_a_server_whose_starter_is_gone_ends_while_it_starts() -> None:
    process = subprocess.Popen([sys.executable, "-P", embedded_server.__file__, "0"], stdin=subprocess.PIPE)
    process.communicate(timeout=60)
    assert process.returncode is not None


#: Answers as a server that is up, and writes down its database.
SERVER = """
import http.server, os, shutil, sys, threading
from pathlib import Path

class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ.get("PREFECT_SERVER_DATABASE_CONNECTION_URL", "shared").encode())
    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Pages)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
for folder in sys.argv[2:]:
    shutil.rmtree(folder)
"""


def test_runs_at_the_same_time_have_a_database_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER, encoding="utf-8")
    monkeypatch.setattr(embedded_server, "__file__", str(script))

    def database(url: str) -> str:
        return httpx.get(f"{url}/health").text

    with temporary_settings({PREFECT_HOME: tmp_path / "home"}):
        with _embedded_server("a:b") as first, _embedded_server("a:b") as second:
            assert database(first) == "shared"
            own = database(second)
            folder = Path(own.removeprefix("sqlite+aiosqlite:///")).parent
            assert folder.is_dir()
        assert not folder.exists()
        with _embedded_server("a:b") as again:
            assert database(again) == "shared"
        own = "postgresql+asyncpg://mine/prefect"
        monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", own)
        with (
            temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: own}),
            _embedded_server("a:b") as first,
            _embedded_server("a:b") as second,
        ):
            assert {database(first), database(second)} == {own}


REQUESTS = 15


@pytest.mark.slow
def test_two_servers_start_at_once_and_do_not_refuse_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a new folder, where both make the tables."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    failed = []

    def use() -> None:
        with _embedded_server("a:b") as url, httpx.Client(auth=("a", "b"), timeout=60) as client:
            flow = client.post(f"{url}/flows/", json={"name": "f"}).raise_for_status().json()["id"]
            for _ in range(REQUESTS):
                run = {"flow_id": flow, "state": {"type": "PENDING"}}
                answer = client.post(f"{url}/flow_runs/", json=run)
                if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
                    # its own services were writing; Prefect's client tries again, too
                    time.sleep(1)
                    answer = client.post(f"{url}/flow_runs/", json=run)
                failed.append(answer.is_error)

    with temporary_settings({PREFECT_HOME: tmp_path}), ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(copy_context().run, use) for _ in range(2)]:
            future.result()
    assert failed == [False] * 2 * REQUESTS


def test_a_server_of_the_user_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        # nobody listens there
        address = f"http://127.0.0.1:{held.getsockname()[1]}/api"
        monkeypatch.setenv("PREFECT_API_URL", address)
        with (
            temporary_settings({PREFECT_API_URL: address}),
            pytest.raises(PrerequisiteError, match=f"server at {address} does not answer"),
            prefect_server(),
        ):
            raise AssertionError("it runs")
