"""A nanny's semaphores have no names in the node's memory once its worker runs: no kill leaves them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from numcodecs import blosc

ROOT = Path(__file__).resolve().parents[3]
SHARED_MEMORY = Path("/dev/shm")

NANNY = """
import os, multiprocessing, sys
from multiprocessing.resource_tracker import _resource_tracker
from numcodecs import blosc
from infra.slurm.semaphores import let_workers_remove_names, remove_names

def work(queue, back):
    remove_names()
    blosc.compress(b"x" * 1000, b"zstd", 1)
    mutex = getattr(blosc, "get_mutex", None)
    back.put([queue.get() + 1, [] if mutex is None else [mutex()._semlock.name]])

if __name__ == "__main__":
    let_workers_remove_names()
    context = multiprocessing.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    names = [lock._semlock.name for each in (queue, back) for lock in (each._rlock, each._wlock, each._sem)]
    process = context.Process(target=work, args=(queue, back))
    process.start()
    queue.put(1)
    answer, own = back.get(timeout=50)
    assert answer == 2
    print(_resource_tracker._pid, *names, *own, flush=True)
    process.join()
    if sys.argv[1] == "wait":
        sys.stdin.read()
"""


@pytest.mark.parametrize("ended", ["killed", "by itself"])
def test_no_name_of_a_semaphore_stays(tmp_path: Path, ended: str) -> None:
    script = tmp_path / "nanny.py"
    script.write_text(NANNY)
    command = [sys.executable, str(script), "wait" if ended == "killed" else "end"]
    piped = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    nanny = subprocess.Popen(command, env=environment, text=True, **piped)
    assert nanny.stdout is not None
    tracker, *names = nanny.stdout.readline().split() or [nanny.communicate(timeout=60)[1]]
    assert len(names) == 6 + hasattr(blosc, "get_mutex"), tracker
    if ended == "killed":
        # SLURM kills all processes of a job, also that which would remove the names
        for process in (int(tracker), nanny.pid):
            os.kill(process, signal.SIGKILL)
    _, errors = nanny.communicate(timeout=60)
    left = [name for name in names if (SHARED_MEMORY / f"sem.{name[1:]}").exists()]
    assert (left, errors) == ([], "")
