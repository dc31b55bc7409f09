"""U²-Net, the network behind rembg: which pixels belong to the salient things of a picture.

The sums are those of rembg's own sessions ``u2net`` and ``u2netp``, on onnxruntime alone: importing rembg
compiles kernels for minutes on a fresh machine, and the masks are the same to the bit (a test compares).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes

#: The network's input, and the mean and deviation of its training pictures (rembg, ``sessions/u2net.py``).
_SIDE = 320
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
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


def load(path: Path, device: str) -> U2Net:
    """Return the network, ready on a device; see :class:`U2Net`."""
    return U2Net(path, device)


class U2Net:
    """A loaded U²-Net.

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

    def __init__(self, path: Path, device: str = "cpu") -> None:
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
        self._session: Any = onnxruntime.InferenceSession(
            str(path), options, providers=[(provider, dict(provider_options))]
        )
        found = self._session.get_providers()
        if found[0] != provider:
            # it says so in its own log only, and goes on with the CPU
            raise _elsewhere(path, device, f"it would run on {', '.join(found)}")
        self._session.disable_fallback()
        self._input: str = self._session.get_inputs()[0].name

    def mask(self, rgb: Planes) -> NDArray[np.uint8]:
        """Return how salient each pixel is, from 0 to 255.

        Parameters
        ----------
        rgb
            One picture, ``(H, W, 3)`` uint8.

        Returns
        -------
        ndarray
            ``(H, W)`` uint8; all zeros where the network sees no difference between pixels.
        """
        image = Image.fromarray(rgb)
        small = np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS))
        scaled = small / max(int(small.max()), 1e-6)
        normal = (scaled - np.asarray(_MEAN)) / np.asarray(_DEVIATION)
        batch = normal.transpose(2, 0, 1)[None].astype(np.float32)
        found: NDArray[np.float32] = self._session.run(None, {self._input: batch})[0][0, 0]
        low, high = found.min(), found.max()
        if not high > low:
            return np.zeros(rgb.shape[:2], np.uint8)
        level = ((found - low) / (high - low) * 255).astype(np.uint8)
        return np.asarray(Image.fromarray(level).resize(image.size, Image.Resampling.LANCZOS))


def _elsewhere(path: Path, device: str, found: str) -> PrerequisiteError:
    advice = (
        "install the package onnxruntime as locked"
        if device == "cpu"
        else "install onnxruntime-gpu there in place of onnxruntime (both own one module: remove both first) "
        "with CUDA and cuDNN of the versions it wants; or let the aspect run in the pool cpu"
    )
    return PrerequisiteError(
        f"{path.name} cannot run on {_PROVIDERS[device][0]} on {socket.gethostname()}: {found}: {advice}"
    )
