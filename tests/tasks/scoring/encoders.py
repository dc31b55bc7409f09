"""A source of encoders that point pictures and texts where a test wants, in place of a loaded CLIP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIRECTIONS = {"up": (0.0, 1.0)}


class Directions:
    """Points right, but for texts that begin with `up` and bright pictures; it notes what it was asked.

    A token is a word.
    """

    width = 2

    def __init__(self, limit: int, positions: int) -> None:
        self.limit, self.positions = limit, positions
        self.pictures: list[int] = []
        self.read: list[tuple[str, int]] = []

    def images(self, rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
        self.pictures.append(len(rgb))
        angles = np.pi * rgb.mean(axis=(1, 2, 3)) / 255
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)

    def texts(self, texts: Sequence[str], most_tokens: int) -> NDArray[np.float32]:
        self.read += [(text, most_tokens) for text in texts]
        return np.array([DIRECTIONS.get(text.split()[0], (1.0, 0.0)) for text in texts], np.float32)

    def count(self, text: str) -> int:
        return len(text.split()) + 2

    def ends(self, text: str) -> list[int]:
        return [at for at in range(1, len(text) + 1) if at == len(text) or text[at] == " "]


class Planted:
    """A source with that encoder."""

    def __init__(self, limit: int = 40, positions: int = 400) -> None:
        self.made = Directions(limit, positions)

    def settings(self) -> dict[str, Any]:
        return {"model": {"planted": "1"}}

    def libraries(self) -> dict[str, str]:
        return {}

    def check(self) -> None: ...

    def check_length(self) -> None: ...

    def encoder(self) -> Directions:
        return self.made
