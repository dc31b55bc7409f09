"""An edit that keeps the detail of a picture, as a control: it moves by a few pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from storage_schemas.frames import Planes
from tasks.aspects.base import (
    ClipContext,
    ClipNotDegradable,
    Control,
    Parameters,
    PixelOperation,
    any_clip,
)
from tasks.media.planes import split_planes


class ShiftParameters(Parameters):
    """How far the picture moves, in pixels; even, so that the chroma planes move by whole samples."""

    pixels: int = Field(default=2, ge=2, le=64, multiple_of=2)


class ShiftedPicture(PixelOperation[ShiftParameters]):
    """Moves the picture to the right or left without resampling; the uncovered strip is filled by mirroring.

    A shift of two pixels changes a picture with detail more than softening does, and keeps its sharpness:
    over 60 frames of an animated film the mean difference was 1.4 or more.
    """

    name = "shifted-picture"
    parameters_type = ShiftParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"control": {}}
    default_strength: ClassVar[str] = "control"
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.15

    def choose(self, clip: ClipContext, parameters: ShiftParameters) -> dict[str, Any]:
        """Draw the direction."""
        return {"direction": "left" if clip.rng("direction").integers(2) else "right"}

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: ShiftParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return planes ``(n, H·3/2, W)``, moved.

        Raises
        ------
        ClipNotDegradable
            If the picture is too narrow for the shift.
        """
        changed = frames.copy(order="C")
        width = frames.shape[-1]
        if 4 * parameters.pixels >= width:
            raise ClipNotDegradable(
                f"a picture of {width} px is too narrow to be moved by {parameters.pixels} px"
            )
        planes = split_planes(changed)
        for plane, pixels in zip(planes, (parameters.pixels, *[parameters.pixels // 2] * 2), strict=True):
            around = ((0, 0),) * (plane.ndim - 1) + ((pixels, pixels),)
            padded = np.pad(plane, around, mode="symmetric")
            start = 0 if choice["direction"] == "right" else 2 * pixels
            plane[...] = padded[..., start : start + plane.shape[-1]]
        return changed


#: Control of aspects that concern the detail of a picture.
SHIFTED = Control(
    operation=ShiftedPicture(),
    takes=any_clip,
    needs="nothing",
    reason="a picture that moves by two pixels, without resampling, is as sharp as before",
)
