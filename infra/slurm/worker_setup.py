"""Setup of a worker before it registers: check whether it is fit, and report the result.

Dask loads this as a preload. An unfit worker has no resource, so it gets no work; its problems are sent to
the driver with its registration.
"""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

from distributed import Worker

from infra import scratch
from infra.handshakes import bound_handshakes
from infra.slurm.run_folder import read_run_file, run_file
from infra.slurm.semaphores import remove_names
from infra.slurm.worker_checks import PROFILE, WorkerChecks, gpu_name, listed_gpus, one_device
from storage_schemas.provenance import GPU_VARIABLE, POOL_VARIABLE

log = logging.getLogger("distributed.worker")

# Dask imports this module before the worker listens
bound_handshakes()

#: Key of a worker's report in ``WorkerState.extra``.
REPORT = "slvmeval"

# set by the job script
HARDWARE = "SLVMEVAL_WORKER_HARDWARE"
STORE = "SLVMEVAL_WORKER_STORE"
RUN = "SLVMEVAL_WORKER_RUN"
PRELOAD = "SLVMEVAL_WORKER_PRELOAD"
ALLOW_CPU_MODELS = "SLVMEVAL_ALLOW_CPU_MODELS"


def dask_setup(worker: Worker) -> None:
    """Check this worker, report the result, and give it its resource only if it is fit."""
    scratch.dask_setup(worker)
    remove_names()
    resources = dict(worker.state.total_resources)
    _set_resources(worker, {})
    report: dict[str, Any] = {**_where(), "problems": ["the self-check failed; see the worker's log"]}
    worker.startup_information[REPORT] = lambda _: report
    report.update(look(str(worker.name), worker.scheduler.address))
    if report["problems"]:
        log.error("this worker is unfit: %s", "; ".join(report["problems"]))
    else:
        _set_resources(worker, resources)


def _set_resources(worker: Worker, resources: dict[str, float]) -> None:
    worker.state.total_resources = dict(resources)
    worker.state.available_resources = dict(resources)


def _where() -> dict[str, Any]:
    """Return pool, job and node of this process."""
    ends_at = os.environ.get("SLURM_JOB_END_TIME")
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return {
        "pool": os.environ[POOL_VARIABLE],
        "job": f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", ""),
        "partition": os.environ.get("SLURM_JOB_PARTITION", ""),
        "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "ends_at": float(ends_at) if ends_at else None,
    }


def look(name: str, scheduler: str) -> dict[str, Any]:
    """Restrict this worker process to its GPU; return its device and problems.

    Parameters
    ----------
    name
        The worker's name: pool, job number and, if the job has several workers, worker number.
    scheduler
        Address of the scheduler.
    """
    checks = WorkerChecks(os.environ[POOL_VARIABLE], os.environ[PROFILE])
    # before importing anything that could access a GPU
    device, problems = _take_gpu(checks, name) if os.environ[HARDWARE] == "gpu" else ("cpu", [])
    store, run = Path(os.environ[STORE]), os.environ[RUN]
    problems += checks.store(str(store), str(run_file(store, run)), scheduler)
    driver = read_run_file(store, run)
    problems += checks.packages(driver.versions if driver is not None else {})
    if not problems:
        problems = checks.imports(os.environ.get(PRELOAD, "").split())
    return {"device": device, "problems": problems}


def _take_gpu(checks: WorkerChecks, name: str) -> tuple[str, list[str]]:
    """Restrict this process to its GPU; return the device and the problems."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    index = worker_index(name)
    listed = listed_gpus()
    device = one_device(visible, index, [gpu for gpu, _, _ in listed])
    os.environ["CUDA_VISIBLE_DEVICES"] = device or ""
    model = gpu_name(device, listed) if device is not None else None
    os.environ[GPU_VARIABLE] = model or "none visible"
    problems = checks.gpu(device, model, visible, index)
    allowed = os.environ.get(ALLOW_CPU_MODELS) == "1"
    return f"{device or 'no GPU'} ({model or 'none visible'})", [] if allowed else problems


def worker_index(name: str) -> int:
    """Return the number of a worker in its job, from its name such as ``h100-12-3``: pool, job, worker."""
    _, _, worker = name.removeprefix(f"{os.environ[POOL_VARIABLE]}-").partition("-")
    return int(worker or 0)
