"""Commands of SLURM that are shell scripts: what they print is written down, what they are given is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def commands_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the head of the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def fake(commands_folder: Path) -> Callable[[str, str], Path]:
    """Make a command of shell lines; returns the file that gets a line with its arguments at each call."""

    def make(name: str, lines: str) -> Path:
        calls = commands_folder / f"{name}.calls"
        command = commands_folder / name
        command.write_text(f'#!/bin/sh\necho "$*" >>"{calls}"\n{lines}\n', encoding="utf-8")
        command.chmod(0o755)
        return calls

    return make
