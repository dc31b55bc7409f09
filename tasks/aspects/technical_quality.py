"""Technical quality: the clip loses its fine detail (SLVMEval, 4.3 and appendix E.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from PIL import Image
from pydantic import Field

from storage_schemas.frames import Planes
from tasks.aspects.base import (
    ANY_CAPTION,
    Aspect,
    ClipContext,
    ClipNotDegradable,
    Parameters,
    PixelOperation,
    Scale,
    any_clip,
)
from tasks.aspects.shifted_picture import SHIFTED


class ScaleParameters(Parameters):
    """Long side of the small picture, in pixels."""

    long_side: int = Field(default=256, ge=8)


class LanczosDownUp(PixelOperation[ScaleParameters]):
    """Scales down to a smaller long side and up again, both with Pillow's antialiased Lanczos.

    The paper does not specify the upscaling; Lanczos is used again. The presets are fractions of the paper's
    frame of 512 px: three quarters, five eighths, and the paper's half. The threshold is low, since soft
    pictures lose little: over 60 frames of an animated film the minimum difference was 0.19 at `weak` and
    0.39 at `paper`. (Conversion to RGB and back alone gives a median of 0.04, and up to 1 for colours
    outside RGB, as in a saturated sky.)
    """

    name = "lanczos-down-up"
    parameters_type = ScaleParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"long_side": 384},
        "medium": {"long_side": 320},
        "paper": {},
    }
    scale: ClassVar[Scale | None] = Scale(
        "long_side", lambda strength: round(512 / 2**strength), lambda side: math.log2(512 / side), 4.0
    )
    works_on: ClassVar[Literal["planes", "rgb"]] = "rgb"
    threshold = 0.15

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: ScaleParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return RGB ``(n, H, W, 3)``, softened.

        Raises
        ------
        ClipNotDegradable
            If the frames are not larger than the small picture.
        """
        _, height, width, _ = frames.shape
        longest = max(height, width)
        if longest <= parameters.long_side:
            raise ClipNotDegradable(
                f"frames of {width}×{height} px cannot be scaled down to a long side of "
                f"{parameters.long_side} px: lower long_side, or ingest larger frames"
            )
        small = (
            max(1, round(width * parameters.long_side / longest)),
            max(1, round(height * parameters.long_side / longest)),
        )
        changed = np.empty_like(frames)
        for index, frame in enumerate(frames):
            reduced = Image.fromarray(frame).resize(small, Image.Resampling.LANCZOS)
            changed[index] = np.asarray(reduced.resize((width, height), Image.Resampling.LANCZOS))
        return changed


ASPECT = Aspect(
    name="technical_quality",
    dimension="technical_quality",
    category="quality",
    needs="nothing",
    takes=any_clip,
    operations={LanczosDownUp.name: LanczosDownUp()},
    control=SHIFTED,
    caption_advice=ANY_CAPTION,
)
