"""How the jobs of a run end with it: by its own hand, or by a guard's when it was killed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from infra.guard import Guard
from infra.slurm import commands
from infra.slurm.commands import SlurmAway
from storage_schemas.errors import PrerequisiteError

log = logging.getLogger(__name__)

#: How long closing waits for the jobs to be gone, seconds.
CLOSE_S = 90.0

#: Ends the jobs of a run, twice, as a submission may have been on its way; for an hour while SLURM is away,
#: unless its settings are gone with it.
_END_JOBS = """
import os, shutil, subprocess, sys, time
user, folder, *names = sys.argv[1:]
conf = os.environ.get("SLURM_CONF")
done = attempts = 0
while done < 2 and attempts < 720 and not (conf and not os.path.exists(conf)):
    calls = [subprocess.run(["scancel", "--quiet", "--user=" + user, "--name=" + name]) for name in names]
    done += all(call.returncode == 0 for call in calls)
    attempts += 1
    time.sleep(5)
shutil.rmtree(folder, ignore_errors=True)
"""


def guard_jobs(names: Sequence[str], folder: Path) -> Guard:
    """Start a guard that ends the jobs of these names, and removes the run's folder, when we are gone."""
    return Guard(_END_JOBS, str(commands.user()), str(folder), *names, environment=commands.environment())


def refuse_names_in_use(names: Sequence[str]) -> None:
    """Raise PrerequisiteError if there are jobs of these names: two runs would end each other's."""
    left = [job.id for job in commands.jobs(names) if job.there]
    if left:
        raise PrerequisiteError(
            f"SLURM has jobs of a run of this name already: {', '.join(left)}. Give this run another name, "
            f"or end them with: scancel {' '.join(left)}"
        )


async def end_jobs(names: Sequence[str]) -> bool:
    """End all jobs of these names and wait until SLURM has none; return whether that is so."""
    end, pause = time.monotonic() + CLOSE_S, 0.2
    while time.monotonic() < end:
        try:
            await asyncio.to_thread(commands.cancel_by_name, names)
            listed = await asyncio.to_thread(commands.jobs, names)
            if not any(job.there for job in listed):
                return True
        except SlurmAway as problem:
            log.warning("SLURM does not answer, it is asked again: %s", problem)
        await asyncio.sleep(pause)
        pause = min(2 * pause, 5.0)
    log.error("jobs are still there; end them with: scancel --name=%s", ",".join(names))
    return False
