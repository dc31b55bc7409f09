from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra.profile import Profile
from slvmeval.cli.doctor.checks import check_servers
from slvmeval.cli.doctor.finding import CheckVerdict, Finding

PAGES = {
    "/v1/models": json.dumps({"object": "list", "data": [{"id": "qwen"}, {"id": "clip"}]}),
    "/other/v1/models": "<html>",
    "/empty/v1/models": '{"data": []}',
    "/api/health": "true",
}


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        self.send_response(404 if page is None else 200)
        self.end_headers()
        self.wfile.write((page or "").encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Write no log."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_server_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


def server(base: str) -> Finding:
    (finding,) = check_servers(Profile(model_servers={"captions": base}), "profile s.toml")
    return finding


def test_nothing_is_asked_where_nothing_is_named() -> None:
    assert list(check_servers(Profile(), "profile")) == []


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_a_model_server_says_its_models(address: str, path: str) -> None:
    finding = server(address + path)
    assert (finding.verdict, finding.message) == (CheckVerdict.OK, f"{address} serves qwen, clip")


def test_a_server_without_models(address: str) -> None:
    assert server(f"{address}/empty").message.endswith("serves no models")


@pytest.mark.parametrize(("path", "why"), [("/nothing", "HTTP 404"), ("/other", "JSONDecodeError")])
def test_a_server_that_is_another(address: str, path: str, why: str) -> None:
    finding = server(address + path)
    assert finding.verdict is CheckVerdict.FAIL
    assert why in finding.message
    assert "change model_servers.captions in profile s.toml" in finding.message


def test_a_server_that_is_not_there() -> None:
    finding = server("http://127.0.0.1:9")
    assert finding.verdict is CheckVerdict.FAIL
    assert "refused" in finding.message


def test_a_server_that_has_another_model_or_wants_a_key(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(**entry: str) -> Finding:
        site = Profile.model_validate({"model_servers": {"captions": {"url": address, **entry}}})
        (finding,) = check_servers(site, "profile s.toml")
        return finding

    assert found(model="clip").verdict is CheckVerdict.OK
    assert "it serves qwen, clip, but not qwen3" in found(model="qwen3").message
    monkeypatch.delenv("CAPTIONS_KEY", raising=False)
    assert "variable CAPTIONS_KEY" in found(key_variable="CAPTIONS_KEY").message


def test_a_proxy_of_the_environment_gets_nothing_of_this_machines_traffic(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert server(address).verdict is CheckVerdict.OK


def test_prefect_of_the_profile_and_of_the_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = check_servers(Profile(prefect_api_url=f"{address}/api"), "profile s.toml")
    assert finding == Finding("prefect", CheckVerdict.OK, f"builds use the server at {address}/api")
    (finding,) = check_servers(Profile(prefect_api_url=f"{address}/ap"), "profile s.toml")
    assert finding.verdict is CheckVerdict.FAIL
    assert "prefect_api_url in profile s.toml" in finding.message
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    (finding,) = check_servers(Profile(), "profile")
    assert finding.verdict is CheckVerdict.FAIL
    assert "the variable PREFECT_API_URL" in finding.message
