"""The tests of a file share a server and its clients, which are closed in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.llm.chat import ChatClient
from tasks.llm.servers import ChatServer
from tests.tasks.scoring.suites.told import Told


@pytest.fixture(scope="module", autouse=True)
def closed_clients() -> Iterator[None]:
    """Close what the tests opened: a process keeps its clients otherwise."""
    made: dict[ChatServer, ChatClient] = {}

    def find(server: ChatServer) -> ChatClient:
        if server not in made:
            made[server] = ChatClient(server)
        return made[server]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.llm.conversation.client_of", find)
        yield
    for client in made.values():
        client.close()


@pytest.fixture(scope="module")
def listening(closed_clients: None) -> Iterator[Told]:
    """A server for all tests of a file."""
    server = Told()
    with server:
        yield server
