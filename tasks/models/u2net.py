"""U²-Net, the network used by rembg: saliency of each pixel of a picture.

It computes the same as rembg's sessions ``u2net`` and ``u2netp``, with onnxruntime only: importing rembg
compiles kernels for minutes on a fresh machine. The masks are bit-identical (a test compares them).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.frames import Planes
from tasks.models.onnx_session import open_session

#: Input size of the network; mean and deviation of its training pictures (rembg, ``sessions/u2net.py``).
_SIDE = 320
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)


def load(path: Path, device: str) -> U2Net:
    """Load the network on a device; see :class:`U2Net`."""
    return U2Net(path, device)


class U2Net:
    """A loaded U²-Net.

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

    def __init__(self, path: Path, device: str = "cpu") -> None:
        self._session: Any = open_session(path, device)
        self._input: str = self._session.get_inputs()[0].name

    def mask(self, rgb: Planes) -> NDArray[np.uint8]:
        """Return the saliency of each pixel, from 0 to 255.

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
        salience: NDArray[np.float32] = self._session.run(None, {self._input: batch})[0][0, 0]
        low, high = salience.min(), salience.max()
        if not high > low:
            return np.zeros(rgb.shape[:2], np.uint8)
        level = ((salience - low) / (high - low) * 255).astype(np.uint8)
        return np.asarray(Image.fromarray(level).resize(image.size, Image.Resampling.LANCZOS))
