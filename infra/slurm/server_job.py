"""The script of a job that serves a model on one GPU of the pool `h100`."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.pool import Pool, PoolName
from infra.profile import Profile
from infra.slurm.job_script import directives, word
from infra.slurm.run_folder import log_folder, make_log_folder
from storage_schemas.errors import UserInputError

POOL: PoolName = "h100"


def server_job_name(name: str) -> str:
    """Return the name of the job that runs a server."""
    return f"slvmeval-serve-{name}"


def server_script(
    profile: Profile, command: Sequence[str], *, store: Path, name: str, model: str, gpus: int = 1
) -> str:
    """Return the script with which sbatch starts a model server.

    The job asks for the pool's share of cores and memory that belongs to its GPUs, and lasts as long as
    the pool's jobs.

    Parameters
    ----------
    profile
        The site, with a pool `h100`.
    command
        The server's command, without host and port.
    store, name, model
        Where it is announced, as what, and what it calls its model.
    gpus
        How many GPUs it gets.

    Raises
    ------
    UserInputError
        If the profile has no such pool, or a value of it cannot stand in a script.
    """
    pool = profile.pools.get(POOL)
    if pool is None:
        raise UserInputError(
            f"{profile.place} has no pool 'h100' to serve {name} in: add [pools.h100], or run the printed "
            "command yourself where a GPU is"
        )
    job = _share(pool, gpus)
    header = [
        f"--job-name={server_job_name(name)}",
        f"--partition={word(POOL, 'partition', job.partition)}",
        *([f"--account={word(POOL, 'account', job.account)}"] if job.account else []),
        "--ntasks=1",
        f"--cpus-per-task={job.cores}",
        f"--mem={math.ceil(job.memory_bytes / 2**20)}M",
        f"--time={job.walltime}",
        *directives(profile, POOL, job, store),
    ]
    serving = [
        pool.python or sys.executable,
        *("-m", "infra.serving", "--store", str(store), "--name", name, "--model", model),
        *(("--interface", pool.interface) if pool.interface else ()),
    ]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {line}" for line in header),
        "export PYTHONSAFEPATH=1 CUDA_DEVICE_ORDER=PCI_BUS_ID HF_HUB_OFFLINE=1",
        *pool.setup,
        f"exec {shlex.join([*serving, '--', *command])}",
    ]
    return "\n".join(lines) + "\n"


def _share(pool: Pool, gpus: int) -> Pool:
    """Return the part of a pool's job that belongs to so many of its GPUs."""
    part = min(1.0, gpus / max(pool.gpus, 1))
    return pool.model_copy(
        update={
            "gpus": gpus,
            "workers": None,
            "cores": max(1, int(pool.cores * part)),
            "memory": f"{int(pool.memory_bytes * part)}B",
        }
    )


def submit_server(profile: Profile, script: str, store: Path, name: str) -> str:
    """Submit a server's job and return its number.

    Raises
    ------
    UserInputError
        If a job of that server waits or runs already.
    SlurmAway, PrerequisiteError
        If SLURM does not take it.
    """
    from infra.slurm import commands

    there = [job for job in commands.jobs([server_job_name(name)]) if job.there]
    if there:
        raise UserInputError(
            f"job {there[0].id} serves {name} already ({there[0].state.lower()}); end it with: "
            f"scancel {there[0].id}"
        )
    make_log_folder(profile, store)
    return commands.submit(script)


def server_log(profile: Profile, store: Path, name: str, job: str) -> Path:
    """Return where a server's job writes what it prints."""
    return log_folder(profile, store) / f"{server_job_name(name)}-{job}.log"
