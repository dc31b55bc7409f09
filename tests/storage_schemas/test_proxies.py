"""Proxies of the environment: never between the run and its own servers."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import httpx2
import pytest

from storage_schemas.proxies import VARIABLES, repair_proxies


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the proxies' variables after the test; at its start there are none."""
    for name in (*VARIABLES, "NO_PROXY"):
        for spelling in (name, name.lower()):
            monkeypatch.setenv(spelling, "")
            monkeypatch.delenv(spelling)


@pytest.fixture(scope="module")
def direct_server() -> Iterator[str]:
    """The address of a server on loopback that answers ``direct``."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"direct")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("variable", "proxy"),
    [
        *((name, "http://127.0.0.1:9") for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy")),
        ("http_proxy", "socks5h://127.0.0.1:9"),
        ("ALL_PROXY", "socks5h://127.0.0.1:9"),
        ("all_proxy", "socks://127.0.0.1:9"),
    ],
)
def test_repair_proxies_has_loopback_asked_directly(
    variable: str, proxy: str, monkeypatch: pytest.MonkeyPatch, direct_server: str
) -> None:
    monkeypatch.setenv(variable, proxy)
    monkeypatch.setenv("no_proxy", "example.org")
    # without this the proxy, which nobody runs, is asked
    with pytest.raises((httpx.ConnectError, ValueError)):
        httpx.get(direct_server)
    repair_proxies(direct_server)
    assert httpx.get(direct_server).text == httpx2.get(direct_server).text == "direct"
    with pytest.raises(httpx.ConnectError):
        httpx.get("http://elsewhere.invalid")
    assert os.environ["NO_PROXY"].split(",")[0] == "example.org"


def test_a_proxy_that_clients_do_not_know_is_taken_out(
    monkeypatch: pytest.MonkeyPatch, direct_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks4://me:secret@127.0.0.1:9")
    with caplog.at_level(logging.WARNING):
        repair_proxies()
    assert httpx.get(direct_server).text == "direct"
    assert "ALL_PROXY is not used" in caplog.text
    assert "secret" not in caplog.text


def test_names_of_the_network_are_asked_directly_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    repair_proxies("http://head:4200/api")
    assert "no_proxy" not in os.environ, "without a proxy the environment stays"
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    repair_proxies("http://head:4200/api", "http://192.168.1.2:4200/api", "https://api.elsewhere.invalid")
    spared = os.environ["no_proxy"].split(",")
    assert {"head", "192.168.1.2"} <= set(spared)
    assert "api.elsewhere.invalid" not in spared
