"""The worker process of a job: ``python -m infra.slurm.worker ARGUMENTS``, as for ``dask worker``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import dask.config
from distributed.cli.dask_worker import main as dask_worker

from infra.dask_cluster import dask_settings
from infra.slurm.semaphores import let_workers_remove_names
from infra.slurm.worker_checks import PROFILE, SCRATCH, WorkerChecks
from infra.tls import Credentials
from storage_schemas.provenance import POOL_VARIABLE
from storage_schemas.secrets import strike_out_of_logs

#: SLURM limits the memory of a job. Dask would count the page cache as the worker's memory, and spill, pause
#: and kill because of it.
_NO_LIMITS: dict[str, Any] = {
    f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")
}


def main() -> None:
    """Configure Dask and run a worker until its scheduler ends."""
    strike_out_of_logs()
    let_workers_remove_names()
    options = dict(zip(sys.argv, sys.argv[1:], strict=False))
    files = Credentials(options["--tls-cert"], options["--tls-key"])
    folder = options["--local-directory"]
    checks = WorkerChecks(os.environ[POOL_VARIABLE], os.environ[PROFILE])
    problems = checks.credentials((files.certificate, files.key))
    problems += checks.temporary_files(os.environ[SCRATCH], folder)
    if problems:
        sys.exit(f"error: {'; '.join(problems)}")
    tls = "distributed.comm.tls"
    # the command line has no options for clients within a worker
    client = {f"{tls}.client.cert": files.certificate, f"{tls}.client.key": files.key}
    dask.config.set(
        {**dask_settings(Path(folder)), **_NO_LIMITS, **client, "distributed.comm.require-encryption": True}
    )
    dask_worker()


if __name__ == "__main__":
    main()
