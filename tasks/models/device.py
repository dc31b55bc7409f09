"""Which GPU this process sees, on which device its models run, and how much of its memory is free."""

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
from tasks.models.base import OutOfMemory


@cache
def visible_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that this process may use, by torch, else by NVIDIA's own tool."""
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


def device_of(pool: str) -> str:
    """Return where a pool's work loads its models here: ``cuda`` for the pool h100 where a GPU is visible."""
    return "cuda" if pool == "h100" and visible_gpus() else "cpu"


def require_gpu() -> None:
    """Raise where no GPU is visible.

    Raises
    ------
    PrerequisiteError
        Naming the node and what to look at.
    """
    if not visible_gpus():
        devices = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise PrerequisiteError(
            f"{socket.gethostname()} was given work of the pool 'h100', but no GPU is visible to it "
            f"(CUDA_VISIBLE_DEVICES is {devices!r}{_cpu_torch()}): check gres and gpus of [pools.h100] "
            "and that node's driver with `slvmeval doctor --profile FILE`; allow_cpu_models = true in the "
            "profile lets it run without one"
        )


def _cpu_torch() -> str:
    """Return a clause that says so if torch here could use no GPU anyway."""
    if importlib.util.find_spec("torch") is None:
        return ""
    import torch

    return "" if torch.version.cuda else f"; torch {torch.__version__} is built for the CPU only"


#: What libraries say when memory ran out, in errors that are not for that alone: torch for buffers outside
#: its allocator, cuBLAS, cuDNN, torch on the CPU, onnxruntime's arena.
_SAYINGS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "DefaultCPUAllocator: can't allocate memory",
    "Failed to allocate memory for requested buffer",
)


def _torch() -> Any:
    """Return torch if this process imported it: without it nothing of ours lies on a GPU."""
    return sys.modules.get("torch")


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether an error says that the device's memory did not hold what was asked for."""
    if isinstance(problem, OutOfMemory):
        return True
    torch = _torch()
    if torch is not None and isinstance(problem, torch.cuda.OutOfMemoryError):
        return True
    # the errors of onnxruntime are no RuntimeErrors
    is_candidate = isinstance(problem, RuntimeError) or type(problem).__module__.startswith("onnxruntime.")
    return is_candidate and any(saying in str(problem) for saying in _SAYINGS)


def free_caches() -> None:
    """Collect what nothing refers to, and give the allocator's unused blocks back to the device.

    An error that is being handled holds the frames of its traceback and with them their tensors: call this
    after the ``except`` block, not in it.
    """
    gc.collect()
    torch = _torch()
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_bytes(device: str) -> int | None:
    """Return the bytes free on a device; None where no limit is known: on the CPU, or without CUDA."""
    torch = _torch()
    if device == "cpu" or torch is None or not torch.cuda.is_available():
        return None
    return int(torch.cuda.mem_get_info(device)[0])
