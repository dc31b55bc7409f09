"""Embeds pictures and texts with a CLIP from any loader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Parts:
    """What a loader returns.

    Parameters
    ----------
    model
        Has ``get_image_features(pixel_values=…)`` and ``get_text_features(input_ids=…, …)``.
    tokenizer
        A fast tokenizer of transformers.
    prepare
        Converts pictures (Pillow, RGB) to pixel values.
    limit, positions
        Maximum number of tokens that the model was trained for, and that it has positions for; None for
        no limit.
    padding
        How texts are padded: ``max_length`` for models trained that way.
    """

    model: Any
    tokenizer: Any
    prepare: Callable[[list[Any]], Any]
    limit: int
    positions: int | None
    padding: bool | str = False


class ClipEncoder:
    """Embeds pictures and texts into one space; every embedding has length 1.

    Attributes
    ----------
    width
        Length of an embedding.
    limit, positions
        As in :class:`Parts`.
    """

    def __init__(self, parts: Parts, device: str, dtype: str) -> None:
        self._parts, self.device, self.dtype = parts, device, dtype
        self.limit, self.positions = parts.limit, parts.positions
        self.width = int(self.texts(["a"], parts.limit).shape[1])

    def images(self, rgb: NDArray[np.uint8]) -> Rows:
        """Return the embeddings of pictures ``(n, H, W, 3)``, shape (n, width)."""
        import torch
        from PIL import Image

        values = self._parts.prepare([Image.fromarray(picture) for picture in rgb])
        with torch.inference_mode():
            values = values.to(self.device, getattr(torch, self.dtype))
            return self._rows(self._parts.model.get_image_features(pixel_values=values))

    def texts(self, texts: Sequence[str], most_tokens: int) -> Rows:
        """Return the embeddings of texts, each truncated to `most_tokens`, shape (n, width).

        Texts are embedded one by one, so that an embedding does not depend on the rest of the request.
        """
        import torch

        rows = []
        for text in texts:
            encoded = self._parts.tokenizer(
                text,
                truncation=True,
                max_length=most_tokens,
                padding=self._parts.padding,
                return_tensors="pt",
            )
            with torch.inference_mode():
                given = {name: values.to(self.device) for name, values in encoded.items()}
                rows.append(self._rows(self._parts.model.get_text_features(**given)))
        return np.concatenate(rows)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, with special tokens."""
        return len(self._parts.tokenizer(text, verbose=False)["input_ids"])

    def ends(self, text: str) -> list[int]:
        """Return the end of each token of a text, in characters; without special tokens."""
        encoded = self._parts.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [int(end) for _, end in encoded["offset_mapping"]]

    @staticmethod
    def _rows(features: Any) -> Rows:
        import torch

        values = getattr(features, "pooler_output", features)
        rows: Rows = torch.nn.functional.normalize(values.float(), dim=-1).cpu().numpy()
        return rows
