"""Locks on files: who waits, who is told, and what a dead process leaves."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from storage_schemas.errors import PrerequisiteError
from storage_schemas.locks import alone, holder, only_one

ROOT = Path(__file__).parents[2]
HOLDS = """
import sys
from pathlib import Path
from storage_schemas.locks import only_one
with only_one(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


def test_the_holder_is_named_and_loses_the_lock_when_it_dies(tmp_path: Path) -> None:
    lock = tmp_path / "deep" / ".lock"
    assert holder(lock) == "another process"
    command = [sys.executable, "-c", HOLDS, str(lock)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with only_one(lock) as mine:
            assert not mine
            assert holder(lock).startswith(f"another process ({other.pid} on ")
        other.kill()
        other.wait()
    with only_one(lock) as mine:
        assert mine
        assert f"({os.getpid()} on " in holder(lock)


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    lock, steps, tried = tmp_path / "lock", list[str](), threading.Event()

    def second() -> None:
        with only_one(lock) as mine:
            steps.append(f"free: {mine}")
        tried.set()
        with alone(lock):
            steps.append("second")

    thread = threading.Thread(target=second)
    with alone(lock):
        thread.start()
        assert tried.wait(30)
        steps.append("first")
    thread.join()
    assert steps == ["free: False", "first", "second"]


def test_a_file_system_without_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> NoReturn:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    for lock in (alone, only_one):
        with pytest.raises(PrerequisiteError, match=f"{tmp_path}.* has no locks"), lock(tmp_path / "lock"):
            pass
