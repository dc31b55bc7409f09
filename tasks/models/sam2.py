"""SAM 2 by transformers: masks of the objects in boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from tasks.models.base import Segmenter
from tasks.models.torch_model import loading, memory_errors, prepare_torch, torch_dtype

#: Published checkpoints are saved as the video model, which contains the one for pictures.
MODEL_TYPES = ("sam2", "sam2_video")


def load(path: Path, device: str, dtype: str = "float32") -> Sam2:
    """Load the checkpoint in a folder, without network access.

    Parameters
    ----------
    path
        The checkpoint's folder, with ``config.json``, weights and the processor's files.
    device
        ``cpu`` or ``cuda``.
    dtype
        Of weights and computation.

    Raises
    ------
    UserInputError
        For an unknown dtype.
    PrerequisiteError
        If torch or transformers are not installed, or the folder holds no such checkpoint.
    """
    wanted = torch_dtype(dtype)
    try:
        from transformers import AutoConfig, Sam2Model, Sam2Processor
        from transformers.utils import logging
    except ImportError as problem:
        raise PrerequisiteError("masks by SAM 2 need transformers: `make env-models`") from problem

    logging.disable_progress_bar()
    with loading(path, "SAM 2"):
        kind = AutoConfig.from_pretrained(path, local_files_only=True).model_type
        if kind not in MODEL_TYPES:
            raise PrerequisiteError(
                f"{path} holds a {kind!r} model, this loader accepts {' and '.join(MODEL_TYPES)}: another "
                "segmenter needs a small class, see docs/models.md"
            )
        model = Sam2Model.from_pretrained(path, local_files_only=True, dtype=wanted)
        processor = Sam2Processor.from_pretrained(path, local_files_only=True)
        return Sam2(model.to(device).eval(), processor, device, dtype)


class Sam2(Segmenter):
    """A loaded model and its processor.

    Attributes
    ----------
    device, dtype
        Its device, and the dtype of its computation.
    """

    def __init__(self, model: Any, processor: Any, device: str, dtype: str) -> None:
        self._model, self._processor = model, processor
        self.device, self.dtype = device, dtype

    def masks(self, rgb: Planes, corners: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return the mask of the object in each box, one mask a box; see :meth:`Segmenter.masks`."""
        if not len(corners):
            return np.zeros((0, *rgb.shape[:2]), np.bool_)
        torch = prepare_torch()
        boxes = [np.asarray(corners, dtype=np.float64).tolist()]
        inputs = self._processor(images=rgb, input_boxes=boxes, return_tensors="pt")
        with memory_errors(), torch.inference_mode():
            output = self._model(
                pixel_values=inputs["pixel_values"].to(self.device, self._model.dtype),
                input_boxes=inputs["input_boxes"].to(self.device, self._model.dtype),
                multimask_output=False,
            )
            (masks,) = self._processor.post_process_masks(
                output.pred_masks.float().cpu(), inputs["original_sizes"]
            )
        found: NDArray[np.bool_] = masks[:, 0].numpy()
        return found
