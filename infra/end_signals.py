"""Signals that should end this process: recording them, and reacting to a second one."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

ENDING = (signal.SIGTERM, signal.SIGINT)
#: Signals within this time count as one, seconds: a service manager and a scheduler may both send theirs.
ONE_S = 1.0

#: Returns the signals received so far.
Received = Callable[[], list[int]]
_received: ContextVar[Received] = ContextVar("_received")


@contextmanager
def end_signals() -> Iterator[Received]:
    """Yield a function that returns the signals of `ENDING` so far; a second one ends the process at once.

    Handlers are not replaced, because Prefect cancels a run only while its own is installed: Python's
    wake-up descriptor reports the signals. If something else uses it, nothing is recorded.
    """
    outer = _received.get(None)
    if outer is not None or threading.current_thread() is not threading.main_thread():
        yield outer or list
        return
    reading, writing = socket.socketpair()
    with reading, writing:
        writing.setblocking(False)
        before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            yield list
            return
        notes = _Notes(reading)
        thread = threading.Thread(target=notes.watch, name="end-signals", daemon=True)
        thread.start()
        here = _received.set(notes.received)
        try:
            yield notes.received
        finally:
            _received.reset(here)
            signal.set_wakeup_fd(-1)
            # closing is not enough: a forked process would hold the socket open
            writing.shutdown(socket.SHUT_WR)
            thread.join()


class _Notes:
    """The signals read from a socket."""

    def __init__(self, reading: socket.socket) -> None:
        self._reading = reading
        self._numbers: list[int] = []
        self._first = 0.0
        self._lock = threading.Lock()

    def received(self) -> list[int]:
        """Return the signals received so far."""
        with self._lock:
            self._read()
            return list(self._numbers)

    def watch(self) -> None:
        """Record signals until the other end is closed."""
        while self._reading.recv(1, socket.MSG_PEEK):
            with self._lock:
                self._read()

    def _read(self) -> None:
        with suppress(BlockingIOError):
            for number in self._reading.recv(4096, socket.MSG_DONTWAIT):
                if number not in ENDING:
                    continue
                now = time.monotonic()
                if self._numbers and now - self._first >= ONE_S:
                    os._exit(128 + number)
                self._first = self._first if self._numbers else now
                self._numbers.append(number)
