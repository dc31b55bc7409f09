"""Clients that tests opened are closed: a process keeps its clients otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tasks.llm.chat import ChatClient
from tasks.llm.servers import ChatServer


@contextmanager
def closed_in_the_end() -> Iterator[None]:
    """Give each server a client of its own for as long as this lasts."""
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
