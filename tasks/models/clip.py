"""Any CLIP of transformers, loaded in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from tasks.models.batches import Batches
from tasks.models.clip_server.encoder import ClipEncoder, Parts, Rows
from tasks.models.clip_server.loaders import load_transformers
from tasks.models.torch_cpu import prepare_torch
from tasks.models.torch_model import loading, memory_errors, torch_dtype

#: Pictures at once; halved where the device's memory does not hold them.
BATCH = 32


def load(path: Path, device: str, dtype: str = "float32") -> LoadedClip:
    """Load the checkpoint in a folder; nothing is looked for elsewhere.

    Parameters
    ----------
    path
        The checkpoint's folder, with ``config.json``, weights, tokenizer and ``preprocessor_config.json``.
    device
        ``cpu`` or ``cuda``.
    dtype
        Of the weights and of the sums.

    Raises
    ------
    UserInputError
        For a dtype that does not exist.
    PrerequisiteError
        If torch or transformers are not installed, or the folder holds no such checkpoint.
    """
    torch_dtype(dtype)
    prepare_torch()
    try:
        from transformers.utils import logging
    except ImportError as problem:
        raise PrerequisiteError("a CLIP needs transformers: `make env-models`") from problem

    logging.disable_progress_bar()
    with loading(path, "a CLIP"):
        return LoadedClip(load_transformers(str(path), device, dtype), device, dtype)


class LoadedClip(ClipEncoder):
    """A CLIP that embeds pictures in batches that fit the memory.

    Attributes
    ----------
    batches
        What was learned of the memory.
    """

    def __init__(self, parts: Parts, device: str, dtype: str) -> None:
        self.batches = Batches(BATCH, owner=self)
        self._one_by_one = Batches(1, owner=self)
        super().__init__(parts, device, dtype)

    def images(self, rgb: NDArray[np.uint8]) -> Rows:
        """Return the rows of pictures ``(n, H, W, 3)``, shape (n, width)."""

        def work(batch: slice) -> Rows:
            with memory_errors():
                return super(LoadedClip, self).images(rgb[batch])

        return np.stack(self.batches.run(len(rgb), work))

    def texts(self, texts: Sequence[str], most_tokens: int) -> Rows:
        """Return the rows of texts, each cut off after `most_tokens`, shape (n, width)."""

        def work(batch: slice) -> Rows:
            with memory_errors():
                return super(LoadedClip, self).texts(texts[batch], most_tokens)

        return np.stack(self._one_by_one.run(len(texts), work))
