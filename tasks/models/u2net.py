"""U²-Net: saliency of each pixel of a picture, the same mask as rembg makes (SLVMEval, appendix E.2).

The few lines around the network are rembg's session for U²-Net. The package itself is not used: it brings a
compiler (numba, 268 MB) for functions that a mask does not need, looks for the weights by name in the user's
home folder, and downloads what is missing. Tests compare the masks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.frames import Planes
from tasks.models.onnx_session import open_session

#: Width and height of the network's input.
_SIZE = (320, 320)
#: Mean and standard deviation of the three colours in the pictures that it was trained on (ImageNet).
_MEAN = np.array((0.485, 0.456, 0.406))
_STD = np.array((0.229, 0.224, 0.225))


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
        self._session = open_session(path, device)
        self._input = self._session.get_inputs()[0].name

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
        picture = Image.fromarray(rgb)
        small = np.array(picture.resize(_SIZE, Image.Resampling.LANCZOS))
        scaled = (small / max(small.max(), 1e-6) - _MEAN) / _STD
        saliency = self._session.run(None, {self._input: scaled.transpose(2, 0, 1)[None].astype(np.float32)})
        saliency = saliency[0][0, 0]
        low, high = saliency.min(), saliency.max()
        if low == high:
            return np.zeros(rgb.shape[:2], np.uint8)
        stretched = ((saliency - low) / (high - low)).clip(0, 1) * 255
        mask = Image.fromarray(stretched.astype(np.uint8))
        return np.asarray(mask.resize(picture.size, Image.Resampling.LANCZOS))
