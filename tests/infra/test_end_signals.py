"""Signals that end a process are noted without a handler, and a second one does not wait for anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from infra.end_signals import end_signals

#: A process that a first signal does not end: it cleans up for ever.
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
