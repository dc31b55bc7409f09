"""The corpus of awkward videos, each made when a test first asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.once import Once
from tests.tasks.media.corpus import CASES, Video


@pytest.fixture(scope="session")
def video(ffmpeg: str, once: Once) -> Video:
    """Path of a corpus video by name."""
    cases = {case.name: case for case in CASES}

    def get(name: str) -> Path:
        case = cases[name]
        return once(f"corpus-{name}", lambda folder: case.make(ffmpeg, folder / case.file)) / case.file

    return get
