"""The corpus of awkward videos, each made when a test first asks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tasks.media.corpus import CASES


@pytest.fixture(scope="session")
def video(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Path of a corpus video by name."""
    cases = {case.name: case for case in CASES}
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = cases[name].make(ffmpeg, tmp_path_factory.mktemp(name))
        return made[name]

    return get
