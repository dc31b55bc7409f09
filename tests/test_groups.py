"""Tests of one group run in one process: those that share a server or a port rely on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GROUPED = """
import os, pathlib, pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(8))
def test_where(number):
    pathlib.Path(f"ran{number}").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


@pytest.mark.slow
def test_xdist_group_stays_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    words = "-m pytest -q -n 2 --dist loadgroup -p xdist.plugin -p no:cacheprovider"
    # other plugins take seconds to import
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(
        [sys.executable, *words.split()],
        cwd=tmp_path,
        env=alone,
        check=True,
        timeout=120,
        capture_output=True,
    )
    assert len({path.read_text() for path in tmp_path.glob("ran*")}) == 1
    assert len(list(tmp_path.glob("ran*"))) == 8
