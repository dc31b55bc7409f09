"""The review pages as the command serves them, in a separate process that ends with the block."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reviewing(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process and the address at which it serves the prompts of a folder."""
    words = ["suite", "prompts", "review", str(folder), "--port", "0"]
    command = [sys.executable, "-m", "slvmeval", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().split()
            assert line[0] == "open", line
            yield process, line[1]
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
