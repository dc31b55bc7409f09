"""Picture features from any vision model of transformers: DINO, DINOv2, SigLIP, CLIP."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tasks.models.residence import Batches
from tasks.models.torch_model import TransformersModel, memory_errors, prepare_torch

#: Pictures per batch; halved when the device runs out of memory.
BATCH = 32


class PictureFeatures(TransformersModel):
    """A loaded model: one feature vector per picture, normalised to length 1.

    For a model with a text tower (CLIP, SigLIP) that is the picture's embedding; otherwise the class token's
    state after the last norm, as DINO's authors use it.

    Attributes
    ----------
    width
        Length of a feature vector.
    """

    what = "a model of pictures"
    # no tokenizer is needed
    model_class, processor_class = "AutoModel", "AutoImageProcessor"

    def __init__(self, model: Any, processor: Any, device: str, dtype: str) -> None:
        super().__init__(model, processor, device, dtype)
        self.batches = Batches(BATCH, owner=self)
        self.width = int(self.images(np.zeros((1, 32, 32, 3), np.uint8)).shape[1])

    def images(self, rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the features of pictures ``(n, H, W, 3)``, shape (n, width)."""

        def work(batch: slice) -> NDArray[np.float32]:
            with memory_errors():
                return self._rows(rgb[batch])

        return np.stack(self.batches.run(len(rgb), work))

    def _rows(self, rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
        torch = prepare_torch()
        pictures = [Image.fromarray(picture) for picture in rgb]
        values = self._processor(images=pictures, return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            values = values.to(self.device, self._model.dtype)
            if hasattr(self._model, "get_image_features"):
                features = self._model.get_image_features(pixel_values=values)
                features = getattr(features, "pooler_output", features)
            else:
                # its pooler, if any, may have untrained weights
                features = self._model(pixel_values=values).last_hidden_state[:, 0]
            rows: NDArray[np.float32] = torch.nn.functional.normalize(features.float(), dim=-1).cpu().numpy()
        return rows


load = PictureFeatures.load
