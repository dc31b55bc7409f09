"""A disk that is full below one folder only, so that the rest of a test continues."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest


def fill(patched: pytest.MonkeyPatch, folder: Path) -> None:
    """Let no line be written to files below a folder any more, as long as the patch lasts."""
    write = os.write

    def full(handle: int, data: bytes | memoryview) -> int:
        if Path(f"/proc/self/fd/{handle}").readlink().is_relative_to(folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data)

    patched.setattr("storage_schemas.json_lines.os.write", full)
