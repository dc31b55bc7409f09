"""The script of a job that serves a model on GPUs of the GPU pool."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.pool import GPU_POOL, Pool
from infra.profile import Profile
from infra.slurm.job_script import directives, word
from infra.slurm.run_folder import log_folder, make_log_folder
from storage_schemas.errors import UserInputError


def server_job_name(name: str) -> str:
    """Return the name of the job that runs a server."""
    return f"slvmeval-serve-{name}"


def server_script(
    profile: Profile, command: Sequence[str], *, store: Path, name: str, model: str, gpus: int = 1
) -> str:
    """Return the script with which sbatch starts a model server.

    The job requests cores and memory in proportion to its GPUs, as the pool's jobs do, and their time limit.

    Parameters
    ----------
    profile
        The site, with a GPU pool (`h100`).
    command
        The server's command, without host and port.
    store, name, model
        Store and name of the announcement, and the server's name of its model.
    gpus
        Number of GPUs.

    Raises
    ------
    UserInputError
        If the profile has no GPU pool, or one of its values is invalid in a script.
    """
    pool = profile.pools.get(GPU_POOL)
    if pool is None:
        raise UserInputError(
            f"{profile.place} has no GPU pool to serve {name} in: add [pools.h100], or run the printed "
            "command yourself on a machine with a GPU"
        )
    job = _share(pool, gpus)
    header = [
        f"--job-name={server_job_name(name)}",
        f"--partition={word(GPU_POOL, 'partition', job.partition)}",
        *([f"--account={word(GPU_POOL, 'account', job.account)}"] if job.account else []),
        "--ntasks=1",
        f"--cpus-per-task={job.cores}",
        f"--mem={math.ceil(job.memory_bytes / 2**20)}M",
        f"--time={job.walltime}",
        *directives(profile, GPU_POOL, job, store),
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
    """Return a pool's job with `gpus` GPUs, and cores and memory in proportion."""
    part = gpus / max(pool.gpus, 1)
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
        If a job of that server is already waiting or running.
    SlurmAway, PrerequisiteError
        If SLURM rejects it.
    """
    from infra.slurm import commands

    there = [job for job in commands.jobs([server_job_name(name)]) if job.there]
    if there:
        raise UserInputError(
            f"job {there[0].id} already serves {name} ({there[0].state.lower()}); end it with: "
            f"scancel {there[0].id}"
        )
    make_log_folder(profile, store)
    return commands.submit(script)


def server_log(profile: Profile, store: Path, name: str, job: str) -> Path:
    """Return the path of a server job's log."""
    return log_folder(profile, store) / f"{server_job_name(name)}-{job}.log"
