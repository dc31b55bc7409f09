"""Clients that are closed after each test, and pauses between attempts that cost no time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.llm import chat
from tests.tasks.llm.open_clients import closed_in_the_end


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    with closed_in_the_end():
        yield


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float | None]]:
    """Make all pauses short; give what each would have depended on: attempts, and what the server asked."""
    asked: list[tuple[int, float | None]] = []

    def pause(tries: int, retry_after_s: float | None) -> float:
        asked.append((tries, retry_after_s))
        return 0.01

    monkeypatch.setattr(chat, "_pause", pause)
    return asked
