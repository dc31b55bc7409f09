"""Builds in processes that die at a named commit point, forked from one that has imported all of it."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection

from flows.release.options import BuildOptions
from storage_schemas.commit import set_commit_hook
from tests.inline import build_inline


def build_until(options: BuildOptions, passed: Connection, point: str = "", nth: int = 1) -> None:
    """Send each commit point as it is passed, and die at one, or send the release's checksum at the end."""
    left = nth

    def hook(name: str) -> None:
        nonlocal left
        passed.send(name)
        left -= name == point
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    set_commit_hook(hook)
    passed.send("checksum " + build_inline(options).release.manifest.content_checksum)
