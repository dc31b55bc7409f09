"""A slightly blurred video, to measure how robust scores are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storage_schemas.extras import lazy_package
from storage_schemas.frames import Planes
from tasks.media.planes import split_planes
from tasks.pairs.view import Side

cv2 = lazy_package("cv2")

#: Standard deviation of the blur in pixels (not from the paper, which names none).
BLUR_SIGMA = 1.0


class BlurredSide(Side):
    """A slightly blurred video; frames are read and blurred on access.

    Parameters
    ----------
    plain
        The video.
    sigma
        Standard deviation of the Gaussian in pixels of the luma; the chroma planes have half.
    """

    def __init__(self, plain: Side, sigma: float = BLUR_SIGMA) -> None:
        if sigma <= 0:
            raise ValueError("a blur has a sigma above 0")
        self._plain, self._sigma = plain, sigma
        self.width, self.height, self.color, self.fps = plain.width, plain.height, plain.color, plain.fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._plain)

    @property
    def family(self) -> str:
        """That of the plain video: they share no frames, but their features are stored together."""
        return self._plain.family

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return blurred frames by index as ``(n, H·3/2, W)`` uint8."""
        frames = self._plain.planes(indices).copy()
        for frame in frames:
            y, u, v = split_planes(frame)
            for plane, sigma in ((y, self._sigma), (u, self._sigma / 2), (v, self._sigma / 2)):
                plane[...] = cv2.GaussianBlur(plane, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)
        return frames

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return the identity of frames: the plain frame's, and the blur."""
        return [f"{id_}:blur{self._sigma!r}" for id_ in self._plain.frame_ids(indices)]


class BlurredVideo(BlurredSide):
    """A blurred video file; its frame rate and size are read on access."""

    def __init__(self, plain: Side, sigma: float) -> None:
        self._plain, self._sigma = plain, sigma

    def __getattr__(self, name: str) -> Any:
        if name in ("width", "height", "color", "fps"):
            return getattr(self._plain, name)
        raise AttributeError(name)
