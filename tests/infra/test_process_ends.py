"""Signals that end a process are noted without a handler, and a guard acts when its process is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.end_signals import end_signals
from infra.exit_guard import ExitGuard
from tests.flows.prefect_servers import wait_for

#: A process that a first signal does not end: it cleans up forever.
STUBBORN = """
import os, signal, sys, time
from infra import end_signals
end_signals.ONE_S = float(sys.argv[1])
def unwind(*_):
    signal.signal(signal.SIGTERM, again)
    signal.signal(signal.SIGINT, again)
    raise SystemExit(1)
def again(*_):
    os.write(1, b"again\\n")  # print may be interrupted in its middle, and cannot be entered again
signal.signal(signal.SIGTERM, unwind)
with end_signals.end_signals() as received:
    try:
        print("there", flush=True)
        time.sleep(60)
    finally:
        print(*received(), flush=True)
        while True:
            time.sleep(60)
"""


def test_a_child_that_holds_the_socket_does_not_delay_the_end() -> None:
    with end_signals():
        socket = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(socket)
        child = subprocess.Popen(["sleep", "5"], pass_fds=(socket,))
    assert child.poll() is None
    child.kill()
    child.wait()


def test_signals_are_noted_once_and_everywhere() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with end_signals() as outer, end_signals() as inner:
            assert outer() == []
            os.kill(os.getpid(), signal.SIGTERM)
            assert outer() == inner() == [signal.SIGTERM]
        with end_signals() as later:
            assert later() == []
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.set_wakeup_fd(-1) == -1


def test_the_descriptor_of_something_else_is_left_alone() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    try:
        with end_signals() as received:
            assert received() == []
        assert signal.set_wakeup_fd(-1) == writing
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("one_s", [0.0, 3600.0])
def test_a_second_signal_ends_at_once_unless_it_tells_of_the_same_event(
    one_s: float, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", STUBBORN, str(one_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == f"{signal.SIGTERM:d}\n"
        process.send_signal(number)
        if one_s:
            assert process.stdout.readline() == "again\n"
            process.kill()
        assert process.wait(60) == (-signal.SIGKILL if one_s else 128 + number)


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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_acts_when_its_process_was_killed(tmp_path: Path, number: signal.Signals) -> None:
    mark = tmp_path / "mark"
    command = [sys.executable, "-c", KILLED, str(mark), str(int(number))]
    assert subprocess.run(command, check=False).returncode == -number
    wait_for(mark.exists, 60, "mark")


def test_it_outlives_a_signal_to_itself(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    guard = ExitGuard(TOUCH, str(mark))
    process = guard._process
    wait_for(lambda: ignores(process.pid, SIGNALS), 60, "guard")
    for number in SIGNALS:
        os.kill(process.pid, number)
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
