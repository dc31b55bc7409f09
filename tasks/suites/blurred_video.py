"""A video's file, slightly blurred: how far do scores move?"""

from __future__ import annotations

from typing import Any

from tasks.pairs.view import Side
from tasks.suites.alignment.stability import BlurredSide


class BlurredVideo(BlurredSide):
    """The same blurred; its frame rate and size are read when they are touched."""

    def __init__(self, plain: Side, sigma: float) -> None:
        self._plain, self._sigma = plain, sigma

    def __getattr__(self, name: str) -> Any:
        if name in ("width", "height", "color", "fps"):
            return getattr(self._plain, name)
        raise AttributeError(name)
