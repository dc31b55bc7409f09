"""The worker process of a job: ``python -m infra.slurm.worker ARGUMENTS``, those of ``dask worker``."""

from __future__ import annotations

from typing import Any

import dask.config
from distributed.cli.dask_worker import main as dask_worker

from infra.dask_cluster import dask_settings

#: SLURM limits the memory of a job. Dask would count the page cache as the worker's memory, and spill, pause
#: and kill because of it.
_NO_LIMITS: dict[str, Any] = {
    f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")
}


def main() -> None:
    """Configure Dask and run a worker until its scheduler ends."""
    dask.config.set({**dask_settings(), **_NO_LIMITS})
    dask_worker()


if __name__ == "__main__":
    main()
