"""The tests of a file share a server and its clients, which are closed in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tasks.llm.open_clients import closed_in_the_end
from tests.tasks.scoring.suites.told import Told


@pytest.fixture(scope="module", autouse=True)
def closed_clients() -> Iterator[None]:
    with closed_in_the_end():
        yield


@pytest.fixture(scope="module")
def listening(closed_clients: None) -> Iterator[Told]:
    """A server for all tests of a file."""
    server = Told()
    with server:
        yield server
