from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.llm.chat import ChatClient
from tasks.llm.servers import ChatServer


@pytest.fixture(autouse=True)
def closed_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test opened: a process keeps its clients otherwise."""
    made: list[ChatClient] = []

    def new(server: ChatServer) -> ChatClient:
        made.append(ChatClient(server))
        return made[-1]

    monkeypatch.setattr("tasks.scoring.suites.video_bench.suite.client_of", new)
    yield
    for client in made:
        client.close()
