"""Aesthetics: the contrast of the clip is reduced by FFmpeg's `eq` (SLVMEval, 4.3 and appendix E.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from storage_schemas.frames import Planes
from tasks.aspects.base import ANY_CAPTION, Aspect, ClipContext, Parameters, PixelOperation, Scale, any_clip
from tasks.aspects.spatial_relationship import MIRRORED
from tasks.media.planes import split_planes


class EqParameters(Parameters):
    """Parameters of FFmpeg's `eq`; it computes values of 7.9 and above differently, so those are rejected."""

    contrast: float = Field(default=-0.8, gt=-7.9, lt=7.9, allow_inf_nan=False)


def eq_contrast_table(contrast: float) -> NDArray[np.uint8]:
    """Return the lookup table of FFmpeg's ``eq=contrast=…`` for luma, shape (256,) uint8.

    The integers are those of libavfilter's ``vf_eq.c`` at brightness 0: contrast −0.8 is
    ``clip(((y * -3276) >> 12) + 229, 0, 255)``, which inverts luma and compresses it to 80 %.
    """
    luma = np.arange(256, dtype=np.int64)
    if contrast == 1:
        return luma.astype(np.uint8)  # FFmpeg passes the frame through; the formula would give y - 1
    # C truncates towards zero, as int() does and // does not
    slope = int(contrast * 256 * 16)
    offset = 127 - int(slope / 32)
    table: NDArray[np.uint8] = np.clip(((luma * slope) >> 12) + offset, 0, 255).astype(np.uint8)
    return table


class FfmpegEq(PixelOperation[EqParameters]):
    """FFmpeg's `eq` with another contrast: luma by lookup table, chroma unchanged.

    Presets avoid contrast 1, which changes nothing: 0.6 is a dull picture, 0.2 nearly flat grey, the paper's
    −0.8 a negative. Basis of the threshold of 2 steps: over 60 frames of an animated film the minimum
    difference was 6.5 at `weak` and 29.7 at `paper`; for a fade to one grey (127 is a fixed point) it is 0.
    """

    name = "ffmpeg-eq"
    parameters_type = EqParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"contrast": 0.6},
        "medium": {"contrast": 0.2},
        "paper": {},
    }
    scale: ClassVar[Scale | None] = Scale(
        "contrast", lambda strength: 1 - 1.8 * strength, lambda contrast: (1 - contrast) / 1.8, 1.5
    )
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 2.0

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: EqParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return planes ``(n, H·3/2, W)`` with luma replaced by the table."""
        changed = frames.copy(order="C")
        luma = split_planes(changed).y
        luma[...] = eq_contrast_table(parameters.contrast)[luma]
        return changed


ASPECT = Aspect(
    name="aesthetics",
    dimension="aesthetics",
    category="quality",
    needs="nothing",
    takes=any_clip,
    operations={FfmpegEq.name: FfmpegEq()},
    control=MIRRORED,
    caption_advice=ANY_CAPTION,
)
