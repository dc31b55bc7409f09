"""The server of these tests, with the usual answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tasks.extras.video_bench.talking import MODELS, Talk
from tests.tasks.scoring.suites.conftest import closed_clients, listening
from tests.tasks.scoring.suites.told import Told

__all__ = ["closed_clients", "listening"]


@pytest.fixture
def server(listening: Told, tmp_path: Path) -> Told:
    """A server with the usual answers, and a folder for the test's store."""
    listening.say(Talk(), MODELS)
    listening.folder = tmp_path
    return listening
