"""Checks whether a worker is fit for work: access to the driver's store, equal packages, and a GPU.

Each check returns a list of problems as messages; empty if there are none.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.slurm.run_folder import read_run_file, run_folder
from infra.tls import Credentials
from storage_schemas.store import Store

#: Seconds until a shared file system shows a new file.
SEEN_AFTER_S = 15.0

_OUR_PACKAGES = ("storage_schemas", "tasks", "infra", "flows", "slvmeval")


def check_store(store: Path, run: str, scheduler: str, wait_s: float = SEEN_AFTER_S) -> list[str]:
    """Check that `store` is the store of this scheduler's driver, and that it is writable.

    Parameters
    ----------
    wait_s
        Maximum time to wait for the run's file, which the driver has just written, and until it is writable,
        seconds.
    """
    if not store.is_dir():
        return [
            f"the store {store} is not visible here: put it on a file system that all nodes see at the same "
            "path"
        ]
    end = time.monotonic() + wait_s
    while (seen := read_run_file(store, run)) is None or seen.scheduler != scheduler:
        if time.monotonic() >= end:
            return [
                f"the folder {store} is not the driver's store but another one of that name: it has no "
                f"{run_folder(store, run).relative_to(Store(store).root)} of this run; put the store on a "
                "file system shared by all nodes"
            ]
        time.sleep(0.2)
    while True:
        try:
            with tempfile.TemporaryFile(dir=run_folder(store, run)):
                return []
        except OSError as problem:
            # a file system that fails over is read-only for a while
            if time.monotonic() >= end:
                why = problem.strerror
                return [f"the store {store} cannot be written here ({why}): mount it for writing"]
        time.sleep(0.2)


def check_credentials(files: Credentials, wait_s: float = SEEN_AFTER_S) -> list[str]:
    """Check that this process can read the run's certificate and key, without which it cannot connect.

    Parameters
    ----------
    wait_s
        Maximum time to wait for the files, which the driver has just written, seconds.
    """
    end = time.monotonic() + wait_s
    while True:
        try:
            for path in (files.certificate, files.key):
                Path(path).read_bytes()
            return []
        except OSError as problem:
            if time.monotonic() >= end:
                return [
                    f"the run's certificate {problem.filename} cannot be read on this node "
                    f"({problem.strerror}): put the store on a file system that all nodes see at the same "
                    "path, where jobs run as the user who submits them"
                ]
        time.sleep(0.2)


def check_packages(here: Mapping[str, str], driver: Mapping[str, str]) -> list[str]:
    """Check that versions equal the driver's, and that our packages come from one place."""
    problems = [
        f"{name} is {here.get(name, 'not installed')} here, but {wanted} in the driver"
        for name, wanted in driver.items()
        if here.get(name) != wanted
    ]
    if problems:
        problems = [f"{'; '.join(problems)}: set `python` of the pool to an environment like the driver's"]
    if not sys.flags.safe_path:
        problems.append("PYTHONSAFEPATH is not 1: the lines in `setup` of the pool must not change it")
    homes = {name: _home(name) for name in _OUR_PACKAGES}
    if len(set(homes.values())) > 1:
        shown = ", ".join(f"{name} from {home}" for name, home in homes.items())
        problems.append(f"our packages come from several places ({shown}): check PYTHONPATH in `setup`")
    return problems


def _home(name: str) -> str:
    spec = importlib.util.find_spec(name)
    return str(Path(spec.origin).resolve().parent.parent) if spec is not None and spec.origin else "nowhere"


def one_device(visible: str | None, index: int, gpus: Sequence[str]) -> str | None:
    """Return the device for a worker process of a job, or None if there is none for it.

    Parameters
    ----------
    visible
        ``CUDA_VISIBLE_DEVICES`` of the job, or None if SLURM does not set it.
    index
        Number of the worker process in its job.
    gpus
        GPUs listed by ``nvidia-smi``, used if `visible` is None.
    """
    devices = [str(number) for number in range(len(gpus))] if visible is None else visible.split(",")
    return devices[index].strip() or None if index < len(devices) else None


def check_gpu(device: str | None, name: str | None, visible: str | None, index: int) -> list[str]:
    """Check that a worker process has its own GPU and can use it.

    Parameters
    ----------
    device
        Result of :func:`one_device`.
    name
        The GPU's name, or None if it does not answer.
    """
    if device is None:
        return [
            f"worker process {index} of the job has no GPU (CUDA_VISIBLE_DEVICES is {visible!r}): check gres "
            "and gpus of the pool; allow_cpu_models = true in the profile lets it run without a GPU"
        ]
    if name is None:
        return [
            f"SLURM assigned the GPU {device}, which does not answer: check the node's driver with "
            "nvidia-smi -L; allow_cpu_models = true in the profile lets it run without a GPU"
        ]
    return []


def listed_gpus() -> list[tuple[str, str, str]]:
    """Return index, id and name of each GPU listed by ``nvidia-smi``; empty without that tool."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    rows = [line.split(", ", 2) for line in answer.stdout.splitlines()] if answer.returncode == 0 else []
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3]


def gpu_name(device: str, listed: Sequence[tuple[str, str, str]]) -> str | None:
    """Return a device's name, or None if there is no such GPU; needs `CUDA_VISIBLE_DEVICES`."""
    for index, uuid, name in listed:
        if device == index or uuid.startswith(device):
            return name
    if listed:
        # a MIG partition has its own id
        return listed[0][2] if device.startswith("MIG-") else None
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None
