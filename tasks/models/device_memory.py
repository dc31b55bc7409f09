"""The accelerator's memory: how much is free, what means that there is too little, and giving caches back."""

from __future__ import annotations

import gc
import sys
from typing import Any

from tasks.models.base import OutOfMemory

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
    told = isinstance(problem, RuntimeError) or type(problem).__module__.startswith("onnxruntime.")
    return told and any(saying in str(problem) for saying in _SAYINGS)


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
