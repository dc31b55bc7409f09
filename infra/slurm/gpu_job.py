"""A job of a GPU pool that runs one command: a model server, or a check."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.pool import Pool, seconds_of
from infra.profile import Profile
from infra.slurm import commands
from infra.slurm.commands import SlurmAway
from infra.slurm.job_script import NO_EMPTY_PATHS, OUTLIVE, directives, temporary_folder, word
from infra.slurm.run_folder import log_folder
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.placement import known_pool
from storage_schemas.provenance import POOL_VARIABLE

#: Seconds until a file written by a node is visible here.
_FILE_COMES_S = 10.0
_LOG_LINES = 12


def gpu_pool(profile: Profile, why: str, name: str = "") -> str:
    """Return the name of a GPU pool: the first of the profile, or the one of this name.

    Raises
    ------
    UserInputError
        If there is none; `why` says in the message what it is needed for.
    """
    pools = [name for name, pool in profile.pools.items() if pool.gpus]
    if name:
        return known_pool(name, pools, f"GPU pools of {profile.place}")
    if not pools:
        raise UserInputError(
            f"{profile.place} has no GPU pool {why}: add a table such as [pools.h100], or run the printed "
            "command yourself on a machine with a GPU"
        )
    return pools[0]


def gpu_script(
    profile: Profile,
    pool_name: str,
    command: Sequence[str],
    *,
    store: Path,
    name: str,
    gpus: int = 1,
    walltime: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Return the script of a job with `gpus` GPUs, and cores and memory in proportion.

    Parameters
    ----------
    profile, pool_name
        The site, and the GPU pool.
    command
        What the job runs.
    store
        The store, with the jobs' logs.
    name
        The job's name.
    walltime
        Its time limit if the pool's is longer.
    variables
        Environment variables to set, apart from those of every job.

    Raises
    ------
    UserInputError
        If one of the profile's values is invalid in a script.
    """
    pool = profile.pools[pool_name]
    job = _share(pool, gpus)
    limit = min((walltime or job.walltime, job.walltime), key=seconds_of)
    header = [
        f"--job-name={name}",
        f"--partition={word(pool_name, 'partition', job.partition)}",
        *([f"--account={word(pool_name, 'account', job.account)}"] if job.account else []),
        "--ntasks=1",
        f"--cpus-per-task={job.cores}",
        f"--mem={math.ceil(job.memory_bytes / 2**20)}M",
        f"--time={limit}",
        *directives(profile, pool_name, job, store, name),
    ]
    exports = {
        "PYTHONSAFEPATH": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "HF_HUB_OFFLINE": "1",
        POOL_VARIABLE: pool_name,
        **(variables or {}),
    }
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {line}" for line in header),
        OUTLIVE,
        f"export {' '.join(f'{key}={shlex.quote(value)}' for key, value in exports.items())}",
        *pool.setup,
        NO_EMPTY_PATHS,
        *temporary_folder(pool_name, pool),
        '[ -n "$TMPDIR" ] || exit 1',
        shlex.join(command),
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


def run_job(
    profile: Profile,
    pool_name: str,
    script: str,
    *,
    store: Path,
    name: str,
    result: Path,
    wait_s: float,
    tell: Callable[[str], None],
    poll_s: float = 1.0,
) -> bytes:
    """Submit a job and return the file that it writes; afterwards the job has ended or is ending.

    Parameters
    ----------
    pool_name
        Its pool.
    name
        The job's name, unique to it.
    result
        The file that the job writes as its last act.
    wait_s
        Maximum time for which it may wait for a node, seconds.
    tell
        Called with the job's number, state and log, when they change.

    Raises
    ------
    PrerequisiteError
        If it is rejected, gets no node in time, or ends without a result; with the end of its log.
    """
    said, missing, end = "", 0, time.monotonic() + wait_s
    state = "not listed"
    try:
        number = commands.submit(script)
        log = log_folder(profile, store) / f"{name}-{number}.log"
        while not result.exists():
            try:
                job = next((one for one in commands.jobs([name]) if one.id == number), None)
            except SlurmAway:
                time.sleep(poll_s)
                continue
            # a job that has just been submitted or has ended long ago is not listed
            missing = missing + 1 if job is None else 0
            state = job.state if job is not None else state
            line = f"job {number}: {state.lower()}" + (f" ({job.reason})" if job and job.reason else "")
            if line != said:
                tell(line if said else f"{line}; log: {log}")
                said = line
            if missing > 2 or (job is not None and not job.there):
                break
            if job is not None and job.pending and time.monotonic() > end:
                raise PrerequisiteError(
                    f"job {number} got no node of pools.{pool_name} within {wait_s:.0f} s "
                    f"({job.reason or 'no reason given'}): wait longer with --set max_wait=…, or look at "
                    "`sinfo`"
                )
            time.sleep(poll_s)
        return _written(result, pool_name, number, state, log)
    finally:
        commands.cancel_by_name([name])


def _written(result: Path, pool_name: str, number: str, state: str, log: Path) -> bytes:
    end = time.monotonic() + _FILE_COMES_S
    while not result.exists() and time.monotonic() < end:
        time.sleep(0.2)
    if result.exists():
        return result.read_bytes()
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else "(it wrote no log)"
    why = {
        "OUT_OF_MEMORY": f": it took more memory than it was given; raise memory in [pools.{pool_name}]",
        "TIMEOUT": ": it took longer than its time limit",
    }.get(state, "")
    raise PrerequisiteError(
        f"job {number} ended as {state.lower()} without a result{why}; the end of its log {log}:\n"
        + "\n".join(text.splitlines()[-_LOG_LINES:])
    )
