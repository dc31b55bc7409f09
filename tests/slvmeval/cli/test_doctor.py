"""`doctor` on this environment, and what it finds wrong in others and of servers."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, distributions
from pathlib import Path
from typing import Any

import pytest

from infra.profile import Profile
from infra.serving import ServerFile, write_server
from slvmeval.cli.doctor.checks import (
    check_loopback,
    check_our_packages,
    check_placement,
    check_servers,
    check_store,
    check_versions,
    check_weights,
    check_worker_processes,
    recipe_in_use,
)
from slvmeval.cli.doctor.finding import CheckVerdict, Finding
from slvmeval.cli.doctor.model_servers import check_model_servers, kind_of
from storage_schemas.store import Store
from tests.slvmeval.cli.running import Run
from tests.tiny_models.faulty_server import FaultyServer, Reply


@pytest.fixture
def our_packages(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give a function after which all files of all packages are not looked through: it takes a second."""
    return lambda: monkeypatch.setattr("slvmeval.cli.doctor.checks.check_our_packages", list)


@pytest.fixture
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the folder of the test be the one more with packages that is looked through."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        "slvmeval.cli.doctor.checks.distributions", lambda: distributions(path=[str(tmp_path)])
    )


def test_this_environment_is_good(tmp_path: Path, run: Run, our_packages: Callable[[], None]) -> None:
    words = ("doctor", "--store", tmp_path / "store", "--model-folder", tmp_path)
    findings = {finding["what"]: finding for finding in run(*words, "--format", "json").json}
    our_packages()
    warned = {name for name, finding in findings.items() if finding["verdict"] == "warn"}
    assert all(name == "free space" or name.startswith(("model ", "recipe ")) for name in warned)
    assert "slvmeval models add u2netp" in findings["model u2netp"]["message"]
    assert findings["recipe cpu-approx"]["message"] == "lacks u2netp"
    # what another recipe needs is shown only if it is asked for
    others = {"recipe paper", "model qwen-image-edit-2509", "browser"}
    assert not others & set(findings)
    every = {finding["what"] for finding in run(*words, "--all", "--format", "json").json}
    assert others < every
    paper = run(*words, "--recipe", "paper", "--format", "json").json
    told = {finding["what"]: finding["message"] for finding in paper}
    assert "caption-analysis" in told["captions of paper"]
    assert ("model qwen-image-edit-2509" in told, "model u2netp" in told) == (True, False)
    assert findings["opencv"]["message"].endswith("with xphoto")
    assert run(*words).out.splitlines()[-1] == "all good"
    assert not (tmp_path / "store").exists()


def test_what_keeps_processes_from_starting_or_connecting_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("resource.getrlimit", lambda _: (3_000_000_000, -1))
    found = [*check_worker_processes(), *check_loopback()]
    assert [finding.verdict for finding in found] == [CheckVerdict.FAIL] * 2
    assert "ulimit -v unlimited" in found[0].message
    assert "ip link set lo up" in found[1].message


@pytest.mark.usefixtures("only_here")
def test_a_stray_package_is_found(tmp_path: Path) -> None:
    (tmp_path / "stray_tasks.py").write_text("", encoding="utf-8")
    (finding,) = check_our_packages(["stray_tasks"])
    assert finding.verdict is CheckVerdict.FAIL
    assert str(tmp_path) in finding.message
    assert "PYTHONSAFEPATH=1" in finding.message


@pytest.mark.usefixtures("only_here")
def test_a_strangers_files_among_ours_are_found(tmp_path: Path) -> None:
    about = tmp_path / "worker_kit-1.0.dist-info"
    about.mkdir()
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "queue.py").touch()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: worker-kit\nVersion: 1.0\n")
    (about / "RECORD").write_text("tasks/queue.py,,\nworker_kit/__init__.py,,\n")
    (finding,) = check_our_packages()
    assert finding.verdict is CheckVerdict.FAIL
    assert "worker-kit has files in tasks/" in finding.message


def test_versions_outside_of_what_works_fail() -> None:
    known = {"prefect": "3.9.1", "zarr": "3.1.10", "sqlalchemy": "2.0.58"}

    def installed(name: str) -> str:
        if name not in known:
            raise PackageNotFoundError(name)
        return known[name]

    wanted = [
        ("prefect", "3.8", "3.9", "why"),
        ("zarr", "3.1.3", "4", "why"),
        ("sqlalchemy", "1", "2.1", "why"),
        ("absent", "1", "2", "why"),
    ]
    findings = {finding.what: finding for finding in check_versions(wanted, installed)}
    assert findings["prefect"].verdict is CheckVerdict.FAIL
    assert "3.9.1" in findings["prefect"].message
    assert findings["absent"].verdict is CheckVerdict.FAIL
    # 3.1.10 is newer than 3.1.3
    assert findings["versions"].message == "zarr 3.1.10, sqlalchemy 2.0.58"


def test_a_folder_of_something_else_and_a_store_of_another_version_fail(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("x", encoding="utf-8")
    (finding,) = check_store(other)
    assert finding.verdict is CheckVerdict.FAIL
    assert "is neither a store" in finding.message
    store = Store.create(tmp_path / "store")
    (store.root / "store.json").write_text('{"schema_version": 99}', encoding="utf-8")
    (finding,) = check_store(store.root)
    assert finding.verdict is CheckVerdict.FAIL
    assert "use the slvmeval version that created it" in finding.message


def test_wrong_weights_fail(tmp_path: Path) -> None:
    (tmp_path / "u2netp.onnx").write_bytes(b"no weights")
    findings = {f.what: f for f in check_weights(Profile(model_folders=(str(tmp_path),)))}
    assert findings["model u2netp"].verdict is CheckVerdict.FAIL
    assert findings["model u2net"].verdict is CheckVerdict.WARN


def test_the_recipe_in_use_is_that_of_the_newest_release(judged_store: Path, tmp_path: Path) -> None:
    site = Profile(store=str(judged_store))
    assert recipe_in_use(site, None).name == "small"
    assert recipe_in_use(site, "paper").name == "paper"
    assert recipe_in_use(site, None, ["clips_per_pair=3"]).name == "cpu-approx-changed"
    assert recipe_in_use(Profile(store=str(tmp_path)), None).name == "cpu-approx"


def test_a_bad_profile_exits_1(tmp_path: Path, run: Run, our_packages: Callable[[], None]) -> None:
    our_packages()
    file = tmp_path / "site.toml"
    file.write_text("stor = 1", encoding="utf-8")
    assert "Did you mean 'store'?" in run("doctor", "--profile", file, code=1).out


def test_placed_work_that_does_not_exist_is_found() -> None:
    good = {"color": "gpu", "coin": "cpu", "video-bench:action": "cpu"}
    site = Profile(placement={**good, "colour": "gpu", "no-bench:x": "cpu"})
    messages = [finding.message for finding in check_placement(site)]
    colour, bench = messages
    assert colour == "colour in profile places nothing: did you mean color?"
    assert bench.startswith("no-bench:x in profile places nothing: did you mean video-bench")


# -- model servers, and Prefect's ------------------------------------------------------------------------

PAGES = {
    "/v1/models": json.dumps({"object": "list", "data": [{"id": "qwen"}, {"id": "clip"}]}),
    "/other/v1/models": "<html>",
    "/empty/v1/models": '{"data": []}',
    "/api/health": "true",
    "/pg/api/health": "true",
    "/pg/api/admin/settings": '{"server": {"database": {"driver": "postgresql+asyncpg"}}}',
    "/lite/api/health": "true",
    "/lite/api/admin/settings": '{"server": {"database": {"driver": null}}}',
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
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_server_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("CAPTIONS_KEY", raising=False)


def server(url: str, **entry: str) -> Finding:
    """What is found of a model server that is asked nothing."""
    site = Profile.model_validate({"model_servers": {"captions": {"url": url, **entry}}})
    (finding,) = check_servers(site, ask=False)
    return finding


def test_a_model_server_says_its_models(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check_servers(Profile())) == []
    # a proxy of the environment gets nothing of this machine's traffic
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    said = f"{address} serves qwen, clip; no request was sent"
    for path in ("", "/", "/v1", "/v1/"):
        assert server(address + path) == Finding("server captions", CheckVerdict.UNSEEN, said)
    assert server(f"{address}/empty").message.endswith("serves no models; no request was sent")
    assert server(address, model="clip").verdict is CheckVerdict.UNSEEN
    assert "it serves qwen, clip, but not qwen3" in server(address, model="qwen3").message
    assert "variable CAPTIONS_KEY" in server(address, key_variable="CAPTIONS_KEY").message


def test_a_server_that_is_another_or_away(address: str) -> None:
    for url, why in (
        (f"{address}/nothing", "HTTP 404"),
        (f"{address}/other", "JSONDecodeError"),
        ("http://127.0.0.1:9", "refused"),
    ):
        finding = server(url)
        assert finding.verdict is CheckVerdict.FAIL
        assert why in finding.message
        assert "change model_servers.captions in profile" in finding.message


def test_prefect_of_the_profile_and_of_the_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = check_servers(Profile(prefect_api_url=f"{address}/api"))
    assert finding == Finding("prefect", CheckVerdict.OK, f"builds use the server at {address}/api")
    (finding,) = check_servers(Profile(prefect_api_url=f"{address}/ap"))
    assert finding.verdict is CheckVerdict.FAIL
    assert "prefect_api_url in profile" in finding.message
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    (finding,) = check_servers(Profile())
    assert finding.verdict is CheckVerdict.FAIL
    assert "the variable PREFECT_API_URL" in finding.message


def test_a_cluster_wants_prefect_on_postgresql(address: str) -> None:
    pool = {"partition": "cpu", "cores": 1, "memory": "1GiB", "walltime": "01:00:00"}
    for place, warns in (("/pg", 0), ("/lite", 1), ("", 1)):
        site = Profile.model_validate({"prefect_api_url": f"{address}{place}/api", "pools": {"cpu": pool}})
        first, *others = check_servers(site)
        assert first.verdict is CheckVerdict.OK
        assert [finding.verdict for finding in others] == [CheckVerdict.WARN] * warns
        assert all("set it up on PostgreSQL" in finding.message for finding in others)


def asked(
    tmp_path: Path,
    reply: Reply | str,
    name: str = "captions",
    models: Sequence[str] = ("tiny",),
    **entry: Any,
) -> tuple[Finding, list[dict[str, Any]]]:
    """Return what doctor says of a server with this reply or answer, and the requests it got."""
    if isinstance(reply, str):
        reply = Reply(text=json.dumps({"answer": reply}))
    with FaultyServer([reply], models=models) as running:
        servers = {name: {"url": running.url, **entry}}
        site = Profile.model_validate({"store": str(tmp_path), "model_servers": servers})
        (finding,) = check_model_servers(site, ask=True)
        return finding, [seen.body for seen in running.seen]


def test_a_model_is_asked_what_its_kind_answers(tmp_path: Path) -> None:
    chat, (body,) = asked(tmp_path, "yes")
    assert chat.verdict is CheckVerdict.OK
    assert "serves tiny; tiny answered a question in 0." in chat.message
    assert chat.message.endswith(" s: yes")
    assert body["response_format"]["json_schema"]["schema"]["properties"]["answer"]["enum"] == ["yes", "no"]
    vision, (body,) = asked(tmp_path, "red", models=("Qwen/Qwen2.5-VL-7B-Instruct",))
    assert "answered a question about a picture" in vision.message
    (text, picture) = body["messages"][0]["content"]
    assert "colour" in text["text"]
    assert picture["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")
    wrong, _ = asked(tmp_path, "blue", models=("mine",), name="qwen3-vl")
    assert wrong.verdict is CheckVerdict.WARN
    assert wrong.message.endswith("blue, which is wrong")
    rows = json.dumps({"data": [{"index": 0, "embedding": [0.5, 0.5, 0.1]}]}).encode()
    embedding, (body,) = asked(tmp_path, Reply(body=rows), models=("my-embedder",))
    assert embedding.verdict is CheckVerdict.OK
    assert embedding.message.endswith(" s: 3 numbers")
    assert len(body["input"]) == 1
    none, _ = asked(tmp_path, Reply(body=b"{}"), name="embeddings")
    assert none.verdict is CheckVerdict.FAIL
    assert "tiny did not answer a request for an embedding: the server's embeddings" in none.message


@pytest.mark.parametrize(
    ("reply", "verdict", "message"),
    [
        (Reply(status=400, text="no images here"), "FAIL", "did not answer a question: the server refused"),
        (Reply(status=500), "FAIL", "HTTP 500"),
        (Reply(text="Yes, it is."), "warn", "'Yes, it is.', which does not match the JSON Schema"),
        (Reply(text="", finish_reason="length"), "warn", "it was cut off after 2048 tokens"),
    ],
)
def test_an_answer_that_nobody_could_use(tmp_path: Path, reply: Reply, verdict: str, message: str) -> None:
    finding, _ = asked(tmp_path, reply)
    assert finding.verdict.value == verdict
    assert message in finding.message


def test_of_several_models_the_one_in_use_is_asked(tmp_path: Path) -> None:
    used = "gpt-5-mini-2025-08-07"
    mini, (body,) = asked(tmp_path, "red", name="openai", models=("a", "gpt-5-2025-08-07", used))
    assert (body["model"], mini.verdict) == (used, CheckVerdict.OK)
    unknown, requests = asked(tmp_path, "yes", models=tuple("abcdefgh"))
    assert requests == []
    assert "serves a, b, c, d, e and 3 more; no request was sent, name the model" in unknown.message
    _, (body,) = asked(tmp_path, "yes", models=("a", "b"), model="b")
    assert body["model"] == "b"


def test_servers_that_announced_themselves_are_asked_too(tmp_path: Path) -> None:
    site = Profile(store=str(tmp_path))
    place = {"host": socket.gethostname(), "process": os.getpid(), "since": "now"}
    with FaultyServer([Reply(text='{"answer": "yes"}')], key="secret") as running:
        mine = ServerFile.model_validate({"url": running.url, "model": "tiny", "key": "secret", **place})
        write_server(tmp_path, "caption-analysis", mine)
        (finding,) = check_model_servers(site, ask=True)
    assert (finding.what, finding.verdict) == ("server caption-analysis", CheckVerdict.OK)
    (gone,) = check_model_servers(site, ask=True)
    assert gone.verdict is CheckVerdict.FAIL
    assert f"if its job has ended, remove {tmp_path / 'servers' / 'caption-analysis.json'}" in gone.message


def test_the_kind_of_request_follows_the_model() -> None:
    for name, model, kind in (
        ("x", "Qwen/Qwen3-Embedding-0.6B", "embeddings"),
        ("x", "gpt-5-mini-2025-08-07", "images"),
        ("jina-clip-v2", "jinaai/jina-clip-v2", "clip"),
        ("deepseek", "my-copy", "chat"),
        ("qwen2.5-vl", "my-copy", "images"),
        ("x", "org/Some-VL-8B", "images"),
        ("x", "org/Some-8B", "chat"),
    ):
        assert kind_of(name, model) == kind
