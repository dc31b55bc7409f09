from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.llm.chat import ChatClient
from tasks.llm.servers import ChatServer


@pytest.fixture(autouse=True)
def closed_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test opened: a process keeps its clients otherwise."""
    made: dict[ChatServer, ChatClient] = {}

    def find(server: ChatServer) -> ChatClient:
        if server not in made:
            made[server] = ChatClient(server)
        return made[server]

    monkeypatch.setattr("tasks.llm.conversation.client_of", find)
    yield
    for client in made.values():
        client.close()
