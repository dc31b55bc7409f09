"""Run cleanup code after this process has ended, even by ``kill -9``."""

from __future__ import annotations

import subprocess
import sys

#: Waits until its input closes, which happens when the process at the other end terminates. Signals to that
#: process do not end this one.
_WAIT = """
import signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.read()
"""


class ExitGuard:
    """A small process that runs Python code after this process has ended.

    Parameters
    ----------
    code
        Source code, run with the standard library only.
    arguments
        Its ``sys.argv[1:]``.
    environment
        Its environment; this process's by default.

    Examples
    --------
    >>> guard = ExitGuard("import os, sys; os.rmdir(sys.argv[1])", folder)  # doctest: +SKIP
    """

    def __init__(self, code: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _WAIT + code, *arguments],
            stdin=subprocess.PIPE,
            start_new_session=True,
            env=environment,
        )

    def dismiss(self) -> None:
        """End it without running the code."""
        self._process.kill()
        self._process.communicate()
