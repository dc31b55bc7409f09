"""The script of a job with workers, written by dask-jobqueue from the profile."""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.config
from dask_jobqueue.slurm import SLURMJob

from infra.executor import SINGLE_THREADED
from infra.pool import RESOURCES, Pool
from infra.profile import Profile
from infra.slurm import worker_setup
from infra.slurm.run_folder import log_folder
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store

#: How long a worker tries to reach its scheduler, seconds. The first imports from a shared file system
#: count too, and they can take a minute or two where many workers start at once.
DEATH_TIMEOUT_S = 180

#: A section of dask-jobqueue's settings that no user has: what we do not pass is empty.
_SECTION = "slvmeval"
_UNSET: dict[str, Any] = {
    "cores": None, "memory": None, "processes": None, "python": None, "name": None, "interface": None,
    "death-timeout": None, "local-directory": None, "extra": None, "worker-command": None,
    "worker-extra-args": [], "job-extra": None, "job-extra-directives": [], "env-extra": None,
    "job-script-prologue": [], "header-skip": None, "job-directives-skip": [], "log-directory": None,
    "shebang": "#!/bin/bash", "queue": None, "account": None, "project": None, "walltime": None,
    "job-cpu": None, "job-mem": None,
}  # fmt: skip

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: sbatch reads these in a line of its own way.
_SBATCH_SIGNS = re.compile(r"[\"'\\#\x00-\x1f\x7f]")
#: Options that the pools need as they are.
_OURS = ("--job-name", "--output", "--error", "--array", "--wrap", "--requeue", "--ntasks", "--nodes")
_OURS_SHORT = ("-J", "-o", "-e", "-a", "-n", "-N")
#: In double quotes a shell replaces variables and nothing else, if it is not one of these.
_SHELL_SIGNS = re.compile(r"[\"`\\\x00-\x1f\x7f]|\$\(")


def job_name(run: str, pool_name: str) -> str:
    """Return the name of a pool's jobs in a run.

    Raises
    ------
    UserInputError
        If `run` is no plain name.
    """
    if not _RUN.fullmatch(run):
        raise UserInputError(
            f"the name of a run is up to 64 letters, digits, '.', '_' and '-', not {run!r}: choose another"
        )
    return f"slvmeval-{run}-{pool_name}"


def log_path(profile: Profile, store: Path, name: str, job: str) -> Path:
    """Return where a job writes what its workers print."""
    return log_folder(profile, store) / f"{name}-{job}.log"


def job_script(
    profile: Profile,
    pool_name: str,
    *,
    run: str,
    index: int,
    scheduler: str,
    store: Path,
    preload: Sequence[str] = (),
) -> str:
    """Return the script with which sbatch starts one job of a pool.

    Parameters
    ----------
    profile
        The site; nothing but this is read, but for the Prefect server's address in ``PREFECT_API_URL``.
    pool_name
        ``cpu`` or ``h100``.
    run
        Name of the run.
    index
        Number of the job in this run, which no other has; its workers are named after it.
    scheduler
        Address of the driver's scheduler.
    store
        Folder of the store.
    preload
        Modules that a worker imports before it is given work.

    Raises
    ------
    UserInputError
        For a value that cannot stand in a script, naming the field.
    """
    pool = profile.pools[pool_name]  # type: ignore[index]
    name = job_name(run, pool_name)
    with dask.config.set({f"jobqueue.{_SECTION}": dict(_UNSET)}):
        job = SLURMJob(  # type: ignore[no-untyped-call]
            scheduler=shlex.quote(scheduler),
            name=f"{pool_name}-{index}",
            config_name=_SECTION,
            job_name=name,
            queue=word(pool_name, "partition", pool.partition),
            account=word(pool_name, "account", pool.account) if pool.account else None,
            walltime=pool.walltime,
            job_cpu=pool.cores,
            job_mem=f"{math.ceil(pool.memory_bytes / 2**20)}M",
            # one thread a worker, however many cores the job has
            cores=pool.processes,
            processes=pool.processes,
            memory=f"{pool.memory_bytes}B",
            interface=shlex.quote(pool.interface) if pool.interface else None,
            death_timeout=DEATH_TIMEOUT_S,
            local_directory=_in_shell(pool_name, "scratch", pool.scratch or "${TMPDIR:-/tmp}"),
            python=shlex.quote(pool.python or sys.executable),
            worker_command="infra.slurm.worker",
            worker_extra_args=_worker_arguments(pool_name, pool),
            job_extra_directives=directives(profile, pool_name, pool, store),
            job_script_prologue=[*_environment(profile, pool_name, run, store, preload), *pool.setup],
        )
    return str(job.job_script())  # type: ignore[no-untyped-call]


def _worker_arguments(pool_name: str, pool: Pool) -> list[str]:
    """Return arguments of ``dask worker`` that dask-jobqueue does not give itself."""
    return [
        *(("--nworkers", str(pool.processes)) if pool.processes > 1 else ()),
        "--nanny",
        *("--resources", f"{RESOURCES[pool_name]}=1"),
        # it would listen on all interfaces
        *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
        *("--preload", worker_setup.__name__),
    ]


def directives(profile: Profile, pool_name: str, pool: Pool, store: Path) -> list[str]:
    """Return options of sbatch that dask-jobqueue does not give itself; those of the profile come last.

    Raises
    ------
    UserInputError
        For a value that cannot stand in a script, naming the field.
    """
    logs = str(log_folder(profile, store))
    if re.search(r"[\"\\%\x00-\x1f\x7f]", logs):
        raise UserInputError(
            f"job_logs: {logs!r} holds a sign that sbatch does not take: choose another folder"
        )
    for line in pool.directives:
        option = re.split(r"[=\s]", line, maxsplit=1)[0]
        if not line.startswith("-") or re.search(r"[\x00-\x1f\x7f]", line):
            raise UserInputError(
                f"pools.{pool_name}.directives: {line!r} is no option of sbatch: write '--…'"
            )
        # sbatch takes the beginning of a long option, and a short one without a space behind it
        long = option.startswith("--")
        if any(ours.startswith(option) for ours in _OURS) if long else option.startswith(_OURS_SHORT):
            raise UserInputError(f"pools.{pool_name}.directives: {line!r} is ours to set: leave it out")
    given = [f'--output="{logs}/%x-%j.log"', "--no-requeue"]
    if pool.gpus:
        given.append(f"--gres={word(pool_name, 'gres', pool.gres)}:{pool.gpus}")
    for field, value in (("qos", pool.qos), ("constraint", pool.constraint)):
        if value:
            given.append(f"--{field}={word(pool_name, field, value)}")
    return [*given, *pool.directives]


def _environment(
    profile: Profile, pool_name: str, run: str, store: Path, preload: Sequence[str]
) -> list[str]:
    """Return the lines that set the worker's variables."""
    variables = {"PYTHONSAFEPATH": "1", **SINGLE_THREADED, "DO_NOT_TRACK": "1"}
    if RESOURCES[pool_name] == "GPU":
        # numbers mean what nvidia-smi shows
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        variables[worker_setup.ALLOW_CPU_MODELS] = "1" if profile.allow_cpu_models else "0"
    else:
        variables["CUDA_VISIBLE_DEVICES"] = ""
    server = profile.prefect_api_url or os.environ.get("PREFECT_API_URL")
    if server:
        variables["PREFECT_API_URL"] = server
    variables[worker_setup.POOL] = pool_name
    variables[worker_setup.RUN] = run
    variables[worker_setup.STORE] = str(Store(store).root)
    if preload:
        variables[worker_setup.PRELOAD] = " ".join(preload)
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


def word(pool_name: str, field: str, value: str) -> str:
    """Return a value that stands in a line of sbatch."""
    match = _SBATCH_SIGNS.search(value)
    if match:
        raise UserInputError(
            f"pools.{pool_name}.{field}: {value!r} holds {match[0]!r}, which sbatch reads in its own way: "
            "write it without"
        )
    return value


def _in_shell(pool_name: str, field: str, value: str) -> str:
    """Return a value in double quotes, in which the job's variables are replaced and nothing is run."""
    match = _SHELL_SIGNS.search(value)
    if match:
        raise UserInputError(
            f"pools.{pool_name}.{field}: {value!r} holds {match[0]!r}, which a shell reads in its own way: "
            "write a path; variables such as $SLURM_JOB_ID may stand in it"
        )
    return f'"{value}"'
