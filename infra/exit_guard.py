"""Something that is done when this process is gone, also by ``kill -9``."""

from __future__ import annotations

import subprocess
import sys

#: Waits until its input closes, as it does when the process that holds the other end is gone. What ends
#: the other one does not end this one.
_WAIT = """
import signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.read()
"""


class ExitGuard:
    """A small process that runs a piece of Python when this process is gone.

    Parameters
    ----------
    code
        Source text, run in an interpreter that has the standard library only.
    arguments
        What it finds in ``sys.argv[1:]``.
    environment
        Its environment; this process's by default.

    Examples
    --------
    >>> guard = Guard("import os, sys; os.rmdir(sys.argv[1])", folder)  # doctest: +SKIP
    """

    def __init__(self, code: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _WAIT + code, *arguments],
            stdin=subprocess.PIPE,
            start_new_session=True,
            env=environment,
        )

    def dismiss(self) -> None:
        """End it: there is nothing left to do."""
        self._process.kill()
        self._process.communicate()
