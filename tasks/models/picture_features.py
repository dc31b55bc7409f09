"""Picture features from any vision model of transformers: DINO, DINOv2, SigLIP, CLIP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.errors import PrerequisiteError
from tasks.models.residence import Batches
from tasks.models.torch_model import loading, memory_errors, prepare_torch, torch_dtype

#: Pictures per batch; halved when the device runs out of memory.
BATCH = 32


def load(path: Path, device: str, dtype: str = "float32") -> PictureFeatures:
    """Load the checkpoint in a folder, without network access; no tokenizer is needed.

    Parameters
    ----------
    path
        The checkpoint's folder, with ``config.json``, weights and ``preprocessor_config.json``.
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
        from transformers import AutoImageProcessor, AutoModel
        from transformers.utils import logging
    except ImportError as problem:
        raise PrerequisiteError("features of pictures need transformers: `make env-models`") from problem

    logging.disable_progress_bar()
    with loading(path, "a model of pictures"):
        model = AutoModel.from_pretrained(path, local_files_only=True, dtype=wanted)
        # pictures are preprocessed by Pillow, not torchvision: the same input on every machine
        processor = AutoImageProcessor.from_pretrained(path, local_files_only=True, backend="pil")
        return PictureFeatures(model.to(device).eval(), processor, device, dtype)


class PictureFeatures:
    """A loaded model: one feature vector per picture, normalised to length 1.

    For a model with a text tower (CLIP, SigLIP) that is the picture's embedding; otherwise the class token's
    state after the last norm, as DINO's authors use it.

    Attributes
    ----------
    width
        Length of a feature vector.
    device, dtype
        Its device, and the dtype of its computation.
    """

    def __init__(self, model: Any, processor: Any, device: str, dtype: str) -> None:
        self._model, self._processor = model, processor
        self.device, self.dtype = device, dtype
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
