"""The GPUs that this process sees, the device of its models, and free memory."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from functools import cache
from typing import Any

from storage_schemas.errors import PrerequisiteError
from storage_schemas.placement import Hardware
from storage_schemas.provenance import POOL_VARIABLE
from tasks.models.base import OutOfMemory


@cache
def visible_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that this process may use, from torch or, without it, ``nvidia-smi``."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "NoDevFiles"):
        return ()
    if importlib.util.find_spec("torch") is not None:
        import torch

        return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    if shutil.which("nvidia-smi") is None:
        return ()
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return tuple(answer.stdout.split("\n")[:-1]) if answer.returncode == 0 else ()


def device_of(has: Hardware) -> str:
    """Return the device for models: ``cuda`` where workers have a GPU and it is visible, else ``cpu``."""
    return "cuda" if has == "gpu" and visible_gpus() else "cpu"


def require_gpu() -> None:
    """Raise if no GPU is visible.

    Raises
    ------
    PrerequisiteError
        Naming the machine and what to do; in a SLURM job, which settings of the pool to check.
    """
    if not visible_gpus():
        devices = os.environ.get("CUDA_VISIBLE_DEVICES")
        pool = os.environ.get(POOL_VARIABLE)
        advice = (
            f"check gres and gpus of [pools.{pool or '…'}] and the node's driver with `slvmeval doctor "
            "--profile FILE`"
            if "SLURM_JOB_ID" in os.environ
            else "run it on a machine with a GPU"
        )
        raise PrerequisiteError(
            f"{socket.gethostname()} was given work that needs a GPU, but no GPU is visible to it "
            f"(CUDA_VISIBLE_DEVICES is {devices!r}{_cpu_torch()}): {advice}; allow_cpu_models = true in the "
            "profile lets it run on the CPU"
        )


def _cpu_torch() -> str:
    """Return a clause for the message if torch here is a CPU build, else an empty text."""
    if importlib.util.find_spec("torch") is None:
        return ""
    import torch

    return "" if torch.version.cuda else f"; torch {torch.__version__} is built for the CPU only"


#: Messages of generic errors that mean out of memory: torch for buffers outside its allocator, cuBLAS,
#: cuDNN, torch on the CPU, onnxruntime's arena.
_SAYINGS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "DefaultCPUAllocator: can't allocate memory",
    "Failed to allocate memory for requested buffer",
)


def _torch() -> Any:
    """Return torch if this process has imported it: without it, no GPU memory is in use."""
    return sys.modules.get("torch")


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether an error means that the device ran out of memory."""
    if isinstance(problem, OutOfMemory):
        return True
    torch = _torch()
    if torch is not None and isinstance(problem, torch.cuda.OutOfMemoryError):
        return True
    # onnxruntime's errors are not RuntimeErrors
    is_candidate = isinstance(problem, RuntimeError) or type(problem).__module__.startswith("onnxruntime.")
    return is_candidate and any(saying in str(problem) for saying in _SAYINGS)


def free_caches() -> None:
    """Collect garbage and return the allocator's unused blocks to the device.

    An exception being handled keeps the tensors of its traceback's frames alive: call this after the
    ``except`` block, not inside it.
    """
    gc.collect()
    torch = _torch()
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_bytes(device: str) -> int | None:
    """Return the free bytes of a device; None if no limit is known (CPU, or no CUDA)."""
    torch = _torch()
    if device == "cpu" or torch is None or not torch.cuda.is_available():
        return None
    return int(torch.cuda.mem_get_info(device)[0])
