"""U²-Net by rembg: saliency of each pixel of a picture (SLVMEval, appendix E.2).

rembg's session computes the mask, on our checked file and on the requested device. rembg's session factory is
not used: it looks for the weights by name in the user's home folder and downloads what is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes
from tasks.models.onnx_session import open_session


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
        inner = open_session(path, device)
        self._remove, self._session = _rembg_session(path.stem, inner)

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
        try:
            with np.errstate(invalid="raise"):
                return np.asarray(self._remove(rgb, session=self._session, only_mask=True), np.uint8)
        except FloatingPointError:  # rembg stretches the range of the saliency, which is empty here
            return np.zeros(rgb.shape[:2], np.uint8)


def _rembg_session(name: str, inner: Any) -> tuple[Any, Any]:
    """Return rembg's function ``remove``, and its U²-Net session around an open ONNX session."""
    import numba

    # rembg imports pymatting, which compiles for a minute or more on a fresh machine; no mask needs it
    compiler: Any = numba.config
    is_off = compiler.DISABLE_JIT
    compiler.DISABLE_JIT = True
    try:
        from rembg import remove
        from rembg.sessions.u2net import U2netSession
    finally:
        compiler.DISABLE_JIT = is_off

    class CheckedFileSession(U2netSession):  # type: ignore[misc]  # rembg is untyped
        def __init__(self) -> None:
            self.model_name, self.inner_session = name, inner

    return remove, CheckedFileSession()
