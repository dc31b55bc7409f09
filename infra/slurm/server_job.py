"""The scripts of jobs that serve a model on GPUs of the GPU pool, or answer its batches."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.profile import Profile
from infra.slurm.job_script import (
    NEEDS_TEMPORARY_FOLDER,
    NO_EMPTY_PATHS,
    OUTLIVE,
    directives,
    temporary_folder,
    word,
)
from infra.slurm.run_folder import log_folder, make_log_folder
from storage_schemas.errors import UserInputError
from storage_schemas.offline_batches import batches_folder
from storage_schemas.provenance import POOL_VARIABLE


def server_job_name(name: str) -> str:
    """Return the name of the job that runs a server."""
    return f"slvmeval-serve-{name}"


def server_script(
    profile: Profile,
    command: Sequence[str],
    *,
    store: Path,
    name: str,
    model: str,
    gpus: int = 1,
    pool: str = "",
) -> str:
    """Return the script with which sbatch starts a model server.

    The job requests cores and memory in proportion to its GPUs, and the time limit, of the pool's jobs.

    Parameters
    ----------
    profile
        The site, with a GPU pool.
    command
        The server's command, without host and port.
    store, name, model
        Store and name of the announcement, and the model's name on the server.
    gpus
        Number of GPUs.
    pool
        Name of the pool; the first with GPUs by default.

    Raises
    ------
    UserInputError
        If the profile has no such GPU pool, or one of its values is invalid in a script.
    """
    pool_name = profile.gpu_pool(f"to serve {name} in", pool)
    settings = profile.pools[pool_name]
    serving = [
        settings.python or sys.executable,
        *("-m", "infra.serving", "--store", str(store), "--name", name, "--model", model),
        *(("--interface", settings.interface) if settings.interface else ()),
    ]
    job = server_job_name(name)
    return _script(profile, pool_name, [*serving, "--", *command], store, job, gpus)


def batches_script(
    profile: Profile, command: Sequence[str], *, store: Path, name: str, gpus: int = 1, pool: str = ""
) -> str:
    """Return the script with which sbatch starts a job that answers a server's batches, then ends.

    Parameters
    ----------
    command
        The command that answers a file of requests, without the files.
    profile, store, name, gpus, pool
        As for :func:`server_script`.

    Raises
    ------
    UserInputError
        As for :func:`server_script`.
    """
    pool_name = profile.gpu_pool(f"to answer the batches of {name} in", pool)
    python = profile.pools[pool_name].python or sys.executable
    answering = [python, "-m", "infra.offline_batches", str(batches_folder(store, name)), "--", *command]
    return _script(profile, pool_name, answering, store, server_job_name(name), gpus)


def _script(
    profile: Profile, pool_name: str, command: Sequence[str], store: Path, name: str, gpus: int
) -> str:
    """Return the script of a job that runs one command; unlike a worker, it may use all cores of its job."""
    pool = profile.pools[pool_name].share(gpus)
    header = [
        f"--job-name={name}",
        f"--partition={word(pool_name, 'partition', pool.partition)}",
        *([f"--account={word(pool_name, 'account', pool.account)}"] if pool.account else []),
        "--ntasks=1",
        f"--cpus-per-task={pool.cores}",
        f"--mem={math.ceil(pool.memory_bytes / 2**20)}M",
        f"--time={pool.walltime}",
        *directives(profile, pool_name, pool, store, name),
    ]
    exports = {
        "PYTHONSAFEPATH": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "HF_HUB_OFFLINE": "1",
        POOL_VARIABLE: pool_name,
    }
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {line}" for line in header),
        OUTLIVE,
        f"export {' '.join(f'{key}={shlex.quote(value)}' for key, value in exports.items())}",
        *pool.setup,
        NO_EMPTY_PATHS,
        *temporary_folder(pool_name, pool),
        NEEDS_TEMPORARY_FOLDER,
        shlex.join(command),
    ]
    return "\n".join(lines) + "\n"


def submit_server(profile: Profile, script: str, store: Path, name: str) -> str:
    """Submit the job of a server, or of its batches, and return its number.

    Raises
    ------
    UserInputError
        If a job of that server is already waiting or running.
    SlurmAway, PrerequisiteError
        If SLURM rejects it.
    """
    from infra.slurm import commands

    jobs = [job for job in commands.jobs([server_job_name(name)]) if job.there]
    if jobs:
        raise UserInputError(
            f"job {jobs[0].id} already serves {name} ({jobs[0].state.lower()}); end it with: "
            f"scancel {jobs[0].id}"
        )
    make_log_folder(profile, store)
    return commands.submit(script)


def server_log(profile: Profile, store: Path, name: str, job: str) -> Path:
    """Return the path of a server job's log."""
    return log_folder(profile, store) / f"{server_job_name(name)}-{job}.log"
