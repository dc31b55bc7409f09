"""ONNX sessions that run only on the requested device."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage_schemas.errors import PrerequisiteError

# Read when onnxruntime is imported. Without this, it reports each model to Microsoft, and leaves files in the
# home folder and one with a fixed name in the temporary folder.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

#: Device → onnxruntime's provider and its options. On a GPU: no TF32 (as on the CPU), a fixed convolution
#: algorithm, and no more memory than requested.
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
        ``cpu``, or ``cuda`` for the first visible GPU.

    Raises
    ------
    PrerequisiteError
        If onnxruntime would run it on another device, with the node and the available providers.
    """
    import onnxruntime

    provider, provider_options = _PROVIDERS[device]
    available = onnxruntime.get_available_providers()
    if provider not in available:
        raise _elsewhere(path, device, f"this onnxruntime has only {', '.join(available)}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # each core already has a process
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if device == "cuda":
        # finds CUDA libraries installed as Python packages
        onnxruntime.preload_dlls()
    session = onnxruntime.InferenceSession(str(path), options, providers=[(provider, dict(provider_options))])
    providers = session.get_providers()
    if providers[0] != provider:
        # onnxruntime only logs this and falls back to the CPU
        raise _elsewhere(path, device, f"it would run on {', '.join(providers)}")
    session.disable_fallback()
    return session


def _elsewhere(path: Path, device: str, reason: str) -> PrerequisiteError:
    advice = (
        "install the package onnxruntime as locked"
        if device == "cpu"
        else "install onnxruntime-gpu there in place of onnxruntime (both provide one module: remove both "
        "first) with the CUDA and cuDNN versions it requires; or run the aspect in the pool cpu"
    )
    return PrerequisiteError(
        f"{path.name} cannot run on {_PROVIDERS[device][0]} on {socket.gethostname()}: {reason}: {advice}"
    )
