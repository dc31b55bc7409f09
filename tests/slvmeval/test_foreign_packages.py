"""Beside a stranger's `tasks.py` everything is refused in one sentence, and not by an error from inside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "words", ["-c|import slvmeval; slvmeval.open_release('store')", "-m|slvmeval|--help"]
)
@pytest.mark.parametrize("stranger", ["tasks.py", "flows/__init__.py"])
def test_a_file_in_the_working_folder(tmp_path: Path, words: str, stranger: str) -> None:
    place = tmp_path / stranger
    place.parent.mkdir(exist_ok=True)
    place.touch()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{ROOT}"
    command = [sys.executable, *words.split("|")]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert f"is {place}" in last
    assert "set PYTHONSAFEPATH=1" in last
    if "-m" in words:
        assert ran.stderr.count("\n") == 1
