"""What ends a run's jobs after its driver was killed ends itself when there is no SLURM any more."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KILLED = """
import os, signal, sys
from pathlib import Path
from infra.slurm.cluster import guard_jobs

guard = guard_jobs(["slvmeval-none-cpu"], Path(sys.argv[1]))
print(guard._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_guard_ends_with_the_settings_of_slurm(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    variables = {"PYTHONPATH": str(ROOT), "SLURM_CONF": str(tmp_path / "gone.conf")}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    guard = Path(f"/proc/{int(done.stdout)}")
    end = time.monotonic() + 20
    while guard.exists() or folder.exists():
        assert time.monotonic() < end, "the guard is still there"
        time.sleep(0.1)
