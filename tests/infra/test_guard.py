"""A guard acts when its process is gone, whatever ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.exit_guard import ExitGuard

TOUCH = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
KILLED = f"""
import os, signal, sys
from infra.exit_guard import ExitGuard
ExitGuard({TOUCH!r}, sys.argv[1])
os.kill(os.getpid(), int(sys.argv[2]))
"""


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def ignores(process: int, numbers: Sequence[int]) -> bool:
    """Whether a process has come so far as to ignore these signals."""
    status = Path(f"/proc/{process}/status").read_text()
    mask = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn"))
    return all(mask >> (number - 1) & 1 for number in numbers)


def appears(path: Path) -> bool:
    end = time.monotonic() + 20
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return path.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_acts_when_its_process_was_killed(tmp_path: Path, number: signal.Signals) -> None:
    mark = tmp_path / "mark"
    command = [sys.executable, "-c", KILLED, str(mark), str(int(number))]
    assert subprocess.run(command, check=False).returncode == -number
    assert appears(mark)


def test_it_outlives_a_signal_to_itself(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    guard = ExitGuard(TOUCH, str(mark))
    process = guard._process
    end = time.monotonic() + 60
    while not ignores(process.pid, SIGNALS):
        assert time.monotonic() < end
        time.sleep(0.01)
    for number in SIGNALS:
        os.kill(process.pid, number)
    time.sleep(0.1)
    assert process.poll() is None
    assert not mark.exists()
    process.communicate()
    assert mark.exists()


def test_dismissed_it_does_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    guard = ExitGuard(TOUCH, str(mark))
    guard.dismiss()
    assert guard._process.returncode == -signal.SIGKILL
    assert not mark.exists()
