"""A small fault campaign, as `python -m bench.faults` runs large ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.conftest import Slurm

ROOT = Path(__file__).resolve().parents[2]
#: One of each kind that no other test has. Slurm's own process of a job stays alive: where it dies after the
#: driver and its guard, nobody is left who tells Slurm that the job is over.
KINDS = (
    "kill_guard_and_driver",
    "kill_nanny",
    "node_down",
    "node_drained",
    "restart_slurmctld",
    "prefect_silent",
    "clock_shifted",
    "planted_module",
    "network_silent",
    "network_reset",
)
FILMS = 5
#: Draws when each comes: early enough to hit something, and last the clock, for each job that starts later
#: asks a library for the time, which takes most of its CPU.
SEED = 56322


@pytest.mark.timeout(1800)
def test_random_faults_lose_change_and_leave_nothing(slurm_of_session: Slurm, tmp_path: Path) -> None:
    """The campaign starts a Slurm of its own; where that of the session is skipped, so is this."""
    numbers = {"count": len(KINDS), "films": FILMS, "seed": SEED}
    command = [sys.executable, "-m", "bench.faults", *(f"--{name}={n}" for name, n in numbers.items())]
    ran = subprocess.run(
        [*command, "--folder", str(tmp_path / "faults"), "--kinds", *KINDS],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1700,
    )
    builds = [json.loads(line) for line in (tmp_path / "faults" / "builds.jsonl").read_text().splitlines()]
    wrong = ("lost", "differing", "made_twice", "stuck", "left_over")
    assert [{name: build[name] for name in wrong if build[name]} for build in builds] == [{}] * len(builds)
    assert ran.returncode == 0, ran.stderr
    assert sum(build["faults"] for build in builds) == len(KINDS)
    assert f"| all | {len(KINDS)} |" in ran.stdout
