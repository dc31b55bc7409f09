"""An ONNX file, ready on the device that was asked for, and on no other."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage_schemas.errors import PrerequisiteError

#: Device → onnxruntime's provider for it, and its options. On a GPU: no rounding to TF32 (the CPU does none),
#: the same convolution algorithm each time, and no more memory than was asked for.
_PROVIDERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "cpu": ("CPUExecutionProvider", {}),
    "cuda": (
        "CUDAExecutionProvider",
        {
            "use_tf32": "0",
            "cudnn_conv_algo_search": "DEFAULT",
            "arena_extend_strategy": "kSameAsRequested",
        },
    ),
}


def open_session(path: Path, device: str) -> Any:
    """Return an ``onnxruntime.InferenceSession`` of a file.

    Parameters
    ----------
    path
        The ONNX file.
    device
        ``cpu``, or ``cuda`` for the first GPU that is visible.

    Raises
    ------
    PrerequisiteError
        If onnxruntime would run it elsewhere, with the node and what was found.
    """
    import onnxruntime

    provider, provider_options = _PROVIDERS[device]
    available = onnxruntime.get_available_providers()
    if provider not in available:
        raise _elsewhere(path, device, f"this onnxruntime has only {', '.join(available)}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a process works on each core already
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if device == "cuda":
        # finds the CUDA libraries that were installed as Python packages
        onnxruntime.preload_dlls()
    session = onnxruntime.InferenceSession(str(path), options, providers=[(provider, dict(provider_options))])
    providers = session.get_providers()
    if providers[0] != provider:
        # it says so in its own log only, and goes on with the CPU
        raise _elsewhere(path, device, f"it would run on {', '.join(providers)}")
    session.disable_fallback()
    return session


def _elsewhere(path: Path, device: str, reason: str) -> PrerequisiteError:
    advice = (
        "install the package onnxruntime as locked"
        if device == "cpu"
        else "install onnxruntime-gpu there in place of onnxruntime (both own one module: remove both first) "
        "with CUDA and cuDNN of the versions it wants; or let the aspect run in the pool cpu"
    )
    return PrerequisiteError(
        f"{path.name} cannot run on {_PROVIDERS[device][0]} on {socket.gethostname()}: {reason}: {advice}"
    )
