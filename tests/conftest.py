"""Fixtures that every test folder may use."""

from __future__ import annotations

import shutil

import pytest

pytest_plugins = ["tests.small_films"]


@pytest.fixture(scope="session")
def ffmpeg() -> str:
    """Path of an ffmpeg command: the system's, else the one that imageio-ffmpeg carries."""
    found = shutil.which("ffmpeg")
    if found:
        return found
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())
