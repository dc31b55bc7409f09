"""Clients that a test opened are closed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tasks.scoring.judges.asked import Videos, clients, two_videos


@pytest.fixture
def videos() -> Videos:
    """Two videos, of three scenes and of two."""
    return two_videos()


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    yield
    while clients:
        clients.pop().close()
