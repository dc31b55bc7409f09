"""Functions of test files that run at the same time, in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
# imported once in a run, before any process forks
_FILES = ("commit", "judgements_store", "release", "store", "votes_store")
_CONTEXT.set_forkserver_preload([f"tests.storage_schemas.test_{name}" for name in _FILES])


def killed_in(function: Callable[..., None], *arguments: Any) -> None:
    """Call a function in a process of its own, which it has to kill."""
    process = _CONTEXT.Process(target=function, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def together(*work: tuple[Callable[..., None], Any]) -> None:
    """Call each function with a barrier for all of them and its argument; none may fail."""
    barrier = _CONTEXT.Barrier(len(work), timeout=60)
    processes = [_CONTEXT.Process(target=function, args=(barrier, argument)) for function, argument in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * len(work)
