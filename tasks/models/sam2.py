"""SAM 2 by transformers: masks of the objects in boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes
from tasks.models.base import Segmenter
from tasks.models.torch_model import TransformersModel, memory_errors, prepare_torch


class Sam2(TransformersModel, Segmenter):
    """A loaded SAM 2."""

    what = "SAM 2"
    model_class, processor_class = "Sam2Model", "Sam2Processor"
    backend = None
    #: Published checkpoints are saved as the video model, which contains the one for pictures.
    model_types = ("sam2", "sam2_video")

    def masks(self, rgb: Planes, corners: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return the mask of the object in each box, one mask per box; see :meth:`Segmenter.masks`."""
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


load = Sam2.load
