"""Requests to a server that is away, without a server."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import httpx
import pytest

from flows.annotate.options import AnnotateOptions
from flows.board import RunBoard
from flows.declaration import Artifact
from flows.prefect_executor import run_stage
from flows.shell import show, without_secrets
from tests.flows.prefect_servers import wait_for


class Server:
    """Notes what it is asked, or is away."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.away = False
        self.tries = 0

    def ask(self, what: str) -> None:
        self.tries += 1
        if self.away:
            raise httpx.ConnectError("connection refused")
        self.taken.append(what)


def test_requests_are_made_in_order_and_of_what_waits_in_a_place_the_latest() -> None:
    server, busy, proceed = Server(), threading.Event(), threading.Event()

    def slow() -> None:
        busy.set()
        proceed.wait(60)

    with RunBoard() as board:
        board.post("other", slow)
        busy.wait(60)
        for number in range(20):
            board.post("progress", lambda number=number: server.ask(str(number)))
            board.post(f"slot {number}", lambda number=number: server.ask(f"slot {number}"))
        proceed.set()
    assert server.taken == ["19", *(f"slot {number}" for number in range(20))]


def test_a_server_that_is_away_costs_nothing_and_hears_all_later(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    server.away = True
    with caplog.at_level(logging.WARNING), RunBoard(retry_s=0.01) as board:
        board.post("first", lambda: server.ask("first"))
        board.post("second", lambda: server.ask("old"))
        board.post("second", lambda: server.ask("new"))
        # the server is away until here: nothing above waited for it
        wait_for(lambda: server.tries > 5, 60, "tries")
        server.away = False
        wait_for(lambda: len(server.taken) == 2, 60, "requests")
    assert server.taken == ["first", "new"]
    output = [record.message for record in caplog.records]
    assert len(output) == 2
    assert "is unavailable (connection refused)" in output[0]
    assert "is available again" in output[1]


def test_the_end_waits_for_the_server_but_not_forever(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    server.away = True
    began = time.monotonic()
    with caplog.at_level(logging.WARNING), RunBoard(wait_s=0.3, retry_s=0.01) as board:
        board.post("one", lambda: server.ask("one"))
    assert time.monotonic() - began >= 0.3
    assert server.taken == []
    assert "was unavailable at the end" in caplog.text
    # after an error there is not much waiting: else this would take ten hours
    with pytest.raises(ZeroDivisionError), RunBoard(wait_s=36_000, retry_s=0.01) as board:
        board.post("one", lambda: server.ask("one"))
        raise ZeroDivisionError
    # nor for its thread, whose warnings would be taken for those of the next test
    wait_for(
        lambda: "board" not in {thread.name for thread in threading.enumerate()}, 60, "end of the thread"
    )


def test_what_the_server_refuses_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    request = httpx.Request("POST", "http://127.0.0.1/api")
    answer = httpx.Response(422, request=request)

    def refused() -> None:
        raise httpx.HTTPStatusError("too large", request=request, response=answer)

    with caplog.at_level(logging.WARNING), RunBoard(retry_s=0.01) as board:
        board.post("table", refused)
        board.post("next", lambda: server.ask("next"))
    assert server.taken == ["next"]
    assert "rejected table: too large" in caplog.text


def test_prefect_gets_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-of-prefect")

    def refused() -> None:
        raise ValueError("bad header: sk-of-prefect")

    with pytest.raises(ValueError, match=r"^bad header: \[SOME_API_KEY removed\]$"):
        run_stage.fn("ingest", refused)
    options = AnnotateOptions(store="/store", database="postgresql://me:sk-of-prefect@db/desk")
    assert without_secrets(options).database == "postgresql://me:[SOME_API_KEY removed]@db/desk"
    monkeypatch.setenv("A_PASSWORD", "database")
    assert "[SOME_API_KEY removed]" in without_secrets(options).database

    made: list[dict[str, Any]] = []
    monkeypatch.setattr("flows.shell.create_table_artifact", lambda table, **_: made.extend(table))
    with RunBoard() as board:
        show(board, Artifact("table", "", rows=({"error": "bad header: sk-of-prefect"},)))
    assert made == [{"error": "bad header: [SOME_API_KEY removed]"}]
