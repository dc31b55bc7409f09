"""What another user of the machine prepares in a shared folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

STRANGER = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")

#: Run as the stranger, who may not be able to run this Python: a module that notes in which processes it ran,
#: and links to a file in place of the lock files that Dask opens.
_PLANT = """
umask 0
mkdir "$1" && cd "$1" && printf %s "$3" >av.py && ln -s "$2" global.lock && ln -s "$2" purge.lock
"""


@dataclass(frozen=True)
class Planted:
    """What was planted; processes that ran the stranger's module leave a file in `mark`."""

    mark: Path

    def has_run(self) -> bool:
        """Return whether any process has imported the stranger's module."""
        return any(self.mark.iterdir())


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Give an empty folder that is as open as /tmp; pytest's own cannot be entered by others."""
    with tempfile.TemporaryDirectory(prefix="shared-") as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def plant(folder: Path, victim: Path) -> Planted:
    """Create a folder as another user, with a module and links to `victim` in it."""
    mark = victim.with_name("ran")
    mark.mkdir()
    module = f"import os; open(os.path.join({str(mark)!r}, str(os.getpid())), 'w').close()\n"
    subprocess.run(
        ["/bin/sh", "-c", _PLANT, "sh", str(folder), str(victim), module],
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        check=True,
        timeout=60,
    )
    return Planted(mark)
