"""Builds whose reads and writes fail at random: nothing is lost, differs or is damaged afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.faults.stale import compile_library, variables

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def test_calls_below_the_folder_fail_while_the_switch_is_there(tmp_path: Path) -> None:
    switch, count, below = tmp_path / "switch", tmp_path / "count", tmp_path / "below"
    below.mkdir()
    (below / "file").write_text("x")
    (tmp_path / "file").write_text("x")
    environment = os.environ | variables(compile_library(tmp_path), below, 1, switch, count)
    program = """
import os, pathlib, sys
for folder in sys.argv[1:]:
    for call in (lambda: os.listdir(folder), lambda: pathlib.Path(folder, "file").read_text()):
        try:
            call()
        except OSError as problem:
            print(problem.errno)
        else:
            print("fine")
"""
    command = [sys.executable, "-I", "-c", program, str(below), str(tmp_path)]

    def said() -> list[str]:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout.split()

    assert said() == ["fine"] * 4
    switch.touch()
    shown = said()
    assert set(shown[:2]) <= {"5", "116"} and shown[2:] == ["fine", "fine"]
    assert count.stat().st_size == 2


@pytest.mark.slow
def test_builds_under_stale_handles_lose_nothing() -> None:
    numbers = ("--builds", "1", "--films", "1", "--one-in", "150")
    command = [sys.executable, "-m", "bench.faults.stale", *numbers]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    totals = json.loads(ended.stdout.splitlines()[-1])
    assert totals["failed_calls"] > 0
    assert (totals["lost"], totals["differing"], totals["damaged"], totals["broken"]) == (0, 0, 0, 0)
