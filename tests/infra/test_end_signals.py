"""Signals that end a process are noted without a handler, and a second one does not wait for anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from infra.end_signals import ONE_S, end_signals

#: A process that a first signal does not end: it cleans up for ever.
STUBBORN = """
import signal, time
from infra.end_signals import end_signals
def unwind(*_): raise SystemExit(1)
signal.signal(signal.SIGTERM, unwind)
with end_signals() as received:
    try:
        print("there", flush=True)
        time.sleep(60)
    finally:
        print(*received(), flush=True)
        while True:
            try:
                time.sleep(60)
            except SystemExit:
                print("again", flush=True)
"""


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
def test_a_second_signal_ends_at_once(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == f"{signal.SIGTERM:d}\n"
        # the same event, told twice
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "again\n"
        time.sleep(ONE_S)
        process.send_signal(number)
        assert process.wait(20) == 128 + number
