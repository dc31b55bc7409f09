"""Provenance of an artifact: software, machine and duration. It is not part of any id."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

#: Set by SLURM in every job; identifies where on a cluster an artifact was created.
_JOB_VARIABLES = {"partition": "SLURM_JOB_PARTITION", "job": "SLURM_JOB_ID", "node": "SLURMD_NODENAME"}
#: Set by a worker with a GPU: the name of that GPU.
GPU_VARIABLE = "SLVMEVAL_GPU"
#: Pool of a worker, set by its job.
POOL_VARIABLE = "SLVMEVAL_WORKER_POOL"


def provenance(started: float, packages: Iterable[str] = (), **extra: Any) -> dict[str, Any]:
    """Return the provenance of an artifact whose work began at `started` (``time.monotonic()``).

    Parameters
    ----------
    started
        Reading of the monotonic clock, in seconds.
    packages
        Distributions whose versions could change the content.
    extra
        Further entries, JSON-serialisable.
    """
    return {
        "made_at": utc_now(),
        "seconds": round(time.monotonic() - started, 3),
        "host": socket.gethostname(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("slvmeval", "numpy", "zarr", *packages)},
        **{key: os.environ[name] for key, name in _JOB_VARIABLES.items() if name in os.environ},
        **_device(),
        **extra,
    }


def without_machine(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return a provenance without the names of host, partition, node and job."""
    return {key: value for key, value in provenance.items() if key not in ("host", *_JOB_VARIABLES)}


def _device() -> dict[str, str]:
    """Return the GPU that this process may use, or "CPU", if the environment specifies it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {}
    name = os.environ.get(GPU_VARIABLE)
    return {"device": f"GPU {visible}" + (f" ({name})" if name else "") if visible else "CPU"}


def utc_now() -> str:
    """Return the time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
