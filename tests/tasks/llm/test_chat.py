"""The client against a real server that is slow, cuts off, refuses and errs."""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from infra.profile import load_profile
from storage_schemas.errors import PrerequisiteError
from storage_schemas.model import ModelServer
from tasks.llm.chat import ChatClient, _pause, ask_all, client_of
from tasks.llm.exchange import ChatAnswer, ChatRequest, Sampling
from tasks.llm.servers import ChatServer, Servers, check_server
from tests.tiny_models.faulty_server import FaultyServer, Reply

Pauses = list[tuple[int, float | None]]


def saying(text: str) -> ChatRequest:
    return ChatRequest(messages=({"role": "user", "content": text},))


HELLO = saying("hello")


def ask(
    server: FaultyServer, requests: Sequence[ChatRequest] = (HELLO,), **settings: Any
) -> list[ChatAnswer]:
    answers: dict[int, ChatAnswer] = {}
    asked = ChatServer(name="s", **{"url": server.url, "model": "tiny", "patience_s": 20.0, **settings})
    ask_all(asked, requests, lambda place, answer: answers.update({place: answer}))
    return [answers[place] for place in range(len(requests))]


def test_a_request_says_all_that_was_asked_and_the_answer_all_that_came() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    request = ChatRequest(
        messages=({"role": "system", "content": "be brief"}, {"role": "user", "content": "hé \x00 日本"}),
        answer_schema=schema,
        sampling=Sampling(temperature=0.6, top_p=0.95, seed=7, most_tokens=99),
        extra_body={"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}},
    )
    with FaultyServer([Reply("{}", reasoning="hm", finish_reason="length")]) as server:
        (answer,) = ask(server, [request])
    assert server.seen[0].body == {
        "model": "tiny",
        "messages": list(request.messages),
        "temperature": 0.6,
        "top_p": 0.95,
        "seed": 7,
        "max_completion_tokens": 99,
        "top_k": 20,
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": schema},
        },
    }
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("{}", "hm", "length")
    assert (answer.model, answer.tokens_in, answer.tokens_out) == ("tiny", 100, 20)
    assert (answer.tries, answer.error) == (1, None)
    assert answer.seconds > 0


def test_the_number_in_flight_is_limited_and_each_is_answered_in_its_place() -> None:
    together = threading.Barrier(5, timeout=60)

    def echo(number: int, body: dict[str, Any]) -> Reply:
        if number < 5:
            together.wait()
        return Reply(body["messages"][0]["content"], delay_s=0.02)

    with FaultyServer(echo) as server:
        answers = ask(server, [saying(str(n)) for n in range(50)], concurrency=5)
        assert server.most_in_flight == 5
    assert [answer.text for answer in answers] == [str(n) for n in range(50)]


FAULTS = [
    *(Reply(status=status) for status in (408, 409, 500, 503)),
    *(Reply(cut=place) for place in ("before", "body")),
    *(Reply(body=page) for page in (b"<html>gateway</html>", b'{"choices": []}', b"\xff\xfe")),
]


def test_faults_of_the_moment_are_tried_again(pauses: Pauses) -> None:
    with FaultyServer([reply for fault in FAULTS for reply in (fault, fault, Reply("fine"))]) as server:
        for fault in FAULTS:
            (answer,) = ask(server)
            assert (answer.text, answer.tries, answer.error) == ("fine", 3, None), fault
    assert pauses == [(1, None), (2, None)] * len(FAULTS)


def test_pauses_grow_up_to_a_limit_unless_the_server_says_how_long() -> None:
    for tries, longest in ((1, 0.5), (2, 1), (3, 2), (7, 30), (1000, 30)):
        assert longest / 2 <= _pause(tries, None) <= longest
        assert 1.2 <= _pause(tries, 1.2) <= 1.3


def test_pauses_are_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.llm.chat._pause", _pause)
    busy = Reply(status=429, headers={"Retry-After": "0.6"})
    with FaultyServer([Reply(status=503), busy, Reply("fine")]) as server:
        ask(server)
    first, second, third = (seen.at for seen in server.seen)
    assert second - first >= 0.25
    assert third - second >= 0.6


def test_retry_after_is_obeyed(pauses: Pauses) -> None:
    date = formatdate(time.time() + 3600, usegmt=True)
    busy = [Reply(status=429, headers={"Retry-After": wait}) for wait in ("1.2", date)]
    with FaultyServer([*busy, Reply("fine")]) as server:
        (answer,) = ask(server)
    (_, seconds), (_, until) = pauses
    assert (answer.tries, seconds) == (3, 1.2)
    assert until is not None
    assert 3000 < until <= 3600


def test_a_request_that_always_fails_costs_no_other() -> None:
    def plan(_: int, body: dict[str, Any]) -> Reply:
        return Reply(status=500, text="engine") if body["messages"][0]["content"] == "bad" else Reply("fine")

    with FaultyServer(plan) as server:
        answers = ask(server, [HELLO, saying("bad"), HELLO], patience_s=0.05)
    assert [answer.text for answer in answers] == ["fine", "", "fine"]
    assert answers[1].error is not None
    assert "HTTP 500 (engine)" in answers[1].error
    assert "attempts in" in answers[1].error


@pytest.mark.parametrize(
    ("settings", "server_settings", "said"),
    [
        ({}, {"key": "k"}, "refused the key (none was given)"),
        ({"key_variable": "TINY_KEY"}, {"key": "k"}, "refused the key (it is wrong"),
        ({"key_variable": "NO_KEY"}, {}, "variable NO_KEY"),
        ({"model": "big"}, {}, "does not serve big"),
    ],
)
def test_a_server_that_cannot_be_used_is_one_clear_message(
    settings: dict[str, Any], server_settings: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_KEY", "other")
    monkeypatch.delenv("NO_KEY", raising=False)
    with FaultyServer(**server_settings) as server:
        with pytest.raises(PrerequisiteError) as problem:
            ask(server, [HELLO] * 20, **{**settings, "concurrency": 2})
        assert len(server.seen) <= 2
    assert said in str(problem.value)
    assert "server s" in str(problem.value)


def test_a_server_that_is_down_is_named_and_what_it_answered_was_told() -> None:
    told = []
    server = FaultyServer()
    server.__enter__()

    def on_answer(place: int, _: ChatAnswer) -> None:
        told.append(place)
        if len(told) == 3:
            server.__exit__()

    asked = ChatServer(name="captions", url=server.url, model="tiny", concurrency=1, patience_s=0.05)
    with pytest.raises(PrerequisiteError) as problem:
        ask_all(asked, [HELLO] * 10, on_answer)
    assert told == [0, 1, 2]
    for part in ("captions", server.url, "does not answer", "answers received so far are stored"):
        assert part in str(problem.value)


def test_a_server_without_time_for_us_is_not_a_fault_of_the_request() -> None:
    with FaultyServer([Reply(status=429)]) as server, pytest.raises(PrerequisiteError, match="HTTP 429"):
        ask(server, patience_s=0.0)


def test_proxy_gets_nothing_of_this_machines_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with FaultyServer([Reply("fine")]) as server:
        (answer,) = ask(server, patience_s=1.0)
    assert answer.text == "fine"


def test_openai_needs_a_key_and_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Servers().find("openai", "gpt-5-2025-08-07")
    assert (server.base, server.model) == ("https://api.openai.com/v1", "gpt-5-2025-08-07")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(PrerequisiteError, match=r"variable OPENAI_API_KEY .*is not set"):
        server.secret()
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert server.secret() == "k"
    own = Servers({"openai": ModelServer(url="http://gateway:1/v1")}).find("openai", "m")
    assert (own.base, own.secret()) == ("http://gateway:1/v1", None)


def test_a_server_that_is_down_is_named_with_where_its_address_is_from(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        announced = tmp_path / "servers" / "judge.json"
        announced.parent.mkdir()
        announced.write_text(json.dumps({"url": url}))
        in_profile = Servers({"judge": ModelServer(url=url)}, tmp_path)
        for servers, name, says in (
            (in_profile, "judge", "or change model_servers.judge in the profile"),
            (Servers({}, tmp_path), "judge", f"or remove {announced}, which announces it"),
            (in_profile, url, "or correct the address in the command or in its settings file"),
        ):
            with pytest.raises(PrerequisiteError, match="does not answer as expected") as problem:
                check_server(servers.find(name, "m"))
            assert says in str(problem.value)
            assert ("profile" in str(problem.value)) == ("profile" in says)
            assert str(problem.value).count(url) == 1


@pytest.mark.parametrize("name", ["qwen2.5-vl", "deepseek"])
def test_the_lines_for_a_missing_server_can_be_pasted_into_a_profile(name: str, tmp_path: Path) -> None:
    known = '[model_servers]\na = "http://h:1/v1"\n'
    with pytest.raises(PrerequisiteError, match="not in the profile") as problem:
        Servers().find(name, "m")
    path = tmp_path / "site.toml"
    for before in ("", known):
        path.write_text(before + str(problem.value).partition("\n")[2])
        assert load_profile(path, {}, {}).model_servers[name].url == "http://HOST:8000/v1"


def test_a_client_that_nobody_holds_closes_its_connections() -> None:
    def asking() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "chat"}

    before = asking()
    with FaultyServer() as server:
        client = ChatClient(ChatServer(name="s", url=server.url, model="tiny"))
        assert client.ask(HELLO).error is None
        (thread,) = asking() - before
        del client
        gc.collect()
        thread.join(60)
        # what is collected now would say that it was not closed
        gc.collect()
    assert not thread.is_alive()


def test_client_of_a_server_is_one_for_all_threads() -> None:
    server = ChatServer(name="s", url="http://127.0.0.1:9/v1", model="at-once")
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: id(client_of(server)), range(64)))) == 1
