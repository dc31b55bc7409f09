"""Functions of test files that run at the same time, in processes of their own."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def together(*work: tuple[Callable[..., None], Any]) -> None:
    """Call each function with a barrier for all of them and its argument; none may fail."""
    calls = [(function.__module__, function.__name__, argument) for function, argument in work]
    command = [sys.executable, "-m", __name__, json.dumps(calls)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def _main(calls: list[tuple[str, str, Any]]) -> int:
    # the modules are imported once, before the processes fork
    functions = [getattr(importlib.import_module(module), name) for module, name, _ in calls]
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(len(calls), timeout=60)
    arguments = [argument for _, _, argument in calls]
    processes = [
        fork.Process(target=function, args=(barrier, argument))
        for function, argument in zip(functions, arguments, strict=True)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return sum(process.exitcode != 0 for process in processes)


if __name__ == "__main__":
    sys.exit(_main(json.loads(sys.argv[1])))
