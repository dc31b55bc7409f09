"""Executors run functions elsewhere; a dying worker costs the guilty item only."""

from __future__ import annotations

import os

import pytest

from infra.executor import SINGLE_THREADED, InlineExecutor, ProcessExecutor, WorkerDied


def square(number: int) -> int:
    return number * number


def die() -> None:
    os._exit(1)


def threads_allowed() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in SINGLE_THREADED}


def test_inline_runs_here() -> None:
    with InlineExecutor() as executor:
        handle = executor.submit("one", "cpu", square, 3)
        assert executor.wait_any([handle]) == {handle}
        assert executor.result(handle) == 9


def test_processes_run_elsewhere_with_one_thread_each() -> None:
    with ProcessExecutor(2) as executor:
        handles = [executor.submit("n", "cpu", square, n) for n in range(5)]
        assert [executor.result(handle) for handle in handles] == [0, 1, 4, 9, 16]
        assert executor.result(executor.submit("pid", "cpu", os.getpid)) != os.getpid()
        assert executor.result(executor.submit("env", "cpu", threads_allowed)) == SINGLE_THREADED


def test_a_dead_worker_is_reported_and_replaced() -> None:
    with ProcessExecutor(1) as executor:
        with pytest.raises(WorkerDied):
            executor.result(executor.submit("die", "cpu", die))
        assert executor.result(executor.submit("again", "cpu", square, 2)) == 4
