"""Clients that are closed after each test, and pauses between attempts that cost no time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.llm import chat
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


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float | None]]:
    """Make all pauses short; give what each would have depended on: attempts, and what the server asked."""
    asked: list[tuple[int, float | None]] = []

    def pause(tries: int, retry_after_s: float | None) -> float:
        asked.append((tries, retry_after_s))
        return 0.01

    monkeypatch.setattr(chat, "_pause", pause)
    return asked
