from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.models.chat_client import ChatClient
from tasks.models.servers import ChatServer


@pytest.fixture(autouse=True)
def closed_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test opened: a process keeps its clients otherwise."""
    made: dict[ChatServer, ChatClient] = {}

    def find(server: ChatServer) -> ChatClient:
        if server not in made:
            made[server] = ChatClient(server)
        return made[server]

    monkeypatch.setattr("tasks.suites.locot2v.roles.client_of", find)
    yield
    for client in made.values():
        client.close()
