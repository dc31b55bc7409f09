"""Image editors that are simple functions of the picture, for tests without torch."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np

from storage_schemas.frames import Planes
from tasks.models.base import ImageEditor, OutOfMemory

#: What a colour word is painted as.
PAINT = {
    "black": (10, 10, 10),
    "white": (245, 245, 245),
    "red": (200, 20, 20),
    "green": (20, 160, 20),
    "yellow": (230, 220, 20),
    "blue": (20, 20, 200),
    "brown": (110, 60, 20),
    "purple": (120, 20, 160),
    "pink": (250, 150, 200),
    "orange": (240, 130, 20),
    "gray": (128, 128, 128),
}


class Idle(ImageEditor):
    """Changes nothing, and remembers what it was asked."""

    checksum: ClassVar[str] = "planted editor"
    device, dtype = "cpu", "float32"

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def edit(
        self, rgb: Planes, instruction: str, negative: str, seed: int, steps: int, guidance: float
    ) -> Planes:
        asked = {"instruction": instruction, "negative": negative, "seed": seed}
        self.calls.append({**asked, "steps": steps, "guidance": guidance})
        return self.change(rgb.copy(), instruction)

    def change(self, picture: Planes, instruction: str) -> Planes:
        return picture


class Patch(Idle):
    """Paints the middle half of the picture, a quarter of its pixels, in the colour of the instruction."""

    def change(self, picture: Planes, instruction: str) -> Planes:
        height, width, _ = picture.shape
        named = [word for word in re.findall("[a-z]+", instruction.lower()) if word in PAINT][-1]
        picture[height // 4 : height * 3 // 4, width // 4 : width * 3 // 4] = PAINT[named]
        return picture


class Inverted(Idle):
    """Changes every pixel into its opposite."""

    def change(self, picture: Planes, instruction: str) -> Planes:
        return 255 - picture


class Brighter(Idle):
    """Makes every pixel brighter by so little that none has another colour."""

    def change(self, picture: Planes, instruction: str) -> Planes:
        return np.minimum(picture.astype(int) + 12, 255).astype(np.uint8)


class Blank(Idle):
    """Loses the picture."""

    def change(self, picture: Planes, instruction: str) -> Planes:
        return np.full_like(picture, 128)


class Full(Idle):
    """Its device has no room."""

    def change(self, picture: Planes, instruction: str) -> Planes:
        raise OutOfMemory("no room")
