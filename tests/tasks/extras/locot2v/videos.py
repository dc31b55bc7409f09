"""Videos for the tests of LoCoT2V-Bench's dimensions: made frames, and one that is as long as it likes."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from storage_schemas.frames import ColorSpec, Planes
from tasks.media.planes import rgb_to_planes
from tasks.pairs.view import Side
from tasks.scoring.suites.base import SuitePrompt, SuiteVideo
from tests.tasks.scoring.sides import FrameList

WIDTH, HEIGHT = 64, 48
PROMPT = SuitePrompt(prompt_id="p", text="A dog runs after a ball.")


def scene(number: int, width: int = WIDTH, height: int = HEIGHT) -> Planes:
    """A smooth coloured picture, each number another one, ``(H, W, 3)``."""
    rng = np.random.default_rng(number)
    small = rng.integers(16, 236, (6, 8, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.uint8)


def side(pictures: Sequence[Planes], fps: float = 8.0, family: str = "") -> FrameList:
    """A video of RGB pictures of one size."""
    height, width = pictures[0].shape[:2]
    planes = list(rgb_to_planes(np.stack(pictures), ColorSpec()))
    made = FrameList(planes, width, height, family)
    made.fps = fps
    return made


def scenes(lengths: Sequence[int], fps: float = 8.0) -> FrameList:
    """A video of still scenes with hard cuts between them."""
    return side([scene(number) for number, n in enumerate(lengths) for _ in range(n)], fps)


def named(video: Side, name: str = "m") -> SuiteVideo:
    """A video as a suite has it."""
    return SuiteVideo(model=name, prompt_id="p", sample=0, digest=f"digest of {name}", video=video)


class Endless(Side):
    """A long video of few different frames, which are made when they are asked for."""

    color = ColorSpec()

    def __init__(self, count: int, fps: float = 24.0, different: int = 7) -> None:
        self.width, self.height, self.fps = WIDTH, HEIGHT, fps
        self._count, self._different = count, different
        self.most_at_once, self.read = 0, set[int]()

    def __len__(self) -> int:
        return self._count

    @property
    def family(self) -> str:
        return "endless"

    def frame_ids(self, places: Sequence[int]) -> list[str]:
        return [f"endless:{place}" for place in places]

    def planes(self, places: Sequence[int]) -> Planes:
        self.most_at_once = max(self.most_at_once, len(places))
        self.read |= set(places)
        pictures = [scene(place % self._different) for place in places]
        return rgb_to_planes(np.stack(pictures), ColorSpec())
