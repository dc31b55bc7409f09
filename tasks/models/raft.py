"""RAFT by torchvision: dense optical flow between two pictures.

Teed and Deng, ECCV 2020. The weights are one file, a state dictionary of torchvision's ``raft_large`` or
``raft_small``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes
from tasks.models.base import FlowModel
from tasks.models.torch_model import library, loading, memory_errors, prepare_torch, torch_dtype, weights_in

#: RAFT compares features at an eighth of the size, halved three times.
_EIGHTH = 8
_MIN_SIDE = 128


def load(path: Path, device: str, dtype: str = "float32") -> Raft:
    """Load the weights in a file, or in a folder with one file; they show which of the networks it is.

    `path` is a ``.pth`` file, from which only tensors are read, or a ``.safetensors`` file; see also
    :func:`~tasks.models.loaders.load_model`.
    """
    wanted = torch_dtype(dtype)
    weights = weights_in(path, "RAFT")
    networks = library("torchvision.models.optical_flow")
    large = any(name.startswith("mask_predictor.") for name in weights)
    with loading(path, "RAFT"):
        model = (networks.raft_large if large else networks.raft_small)(weights=None, progress=False)
        model.load_state_dict(weights)
        return Raft(model.to(device, wanted).eval(), device, dtype)


class Raft(FlowModel):
    """A loaded network.

    Attributes
    ----------
    device, dtype
        Its device, and the dtype of its computation.
    """

    def __init__(self, model: Any, device: str, dtype: str) -> None:
        self._model, self.device, self.dtype = model, device, dtype

    def flow(self, first: Planes, second: Planes, updates: int) -> NDArray[np.float32]:
        """Return where each pixel of the first picture lies in the second; see :meth:`FlowModel.flow`.

        Pictures are mapped to −1 … 1 as torchvision does, and extended by their borders to multiples of 8 of
        at least 128 pixels, half on each side.
        """
        torch = prepare_torch()
        height, width = first.shape[:2]
        edges = [*_margins(width), *_margins(height)]
        pair = torch.from_numpy(np.stack([first, second])).to(self.device).permute(0, 3, 1, 2)
        with memory_errors(), torch.inference_mode():
            pair = pair.float() / 127.5 - 1
            pair = torch.nn.functional.pad(pair, edges, mode="replicate").to(
                next(self._model.parameters()).dtype
            )
            found = self._model(pair[:1], pair[1:], num_flow_updates=updates)[-1][0]
            inner = found[:, edges[2] : edges[2] + height, edges[0] : edges[0] + width]
            rows: NDArray[np.float32] = inner.permute(1, 2, 0).float().cpu().contiguous().numpy()
        return rows


def _margins(length: int) -> tuple[int, int]:
    """Return the pixels to add before and after a side."""
    more = max(_MIN_SIDE, -(-length // _EIGHTH) * _EIGHTH) - length
    return more // 2, more - more // 2
