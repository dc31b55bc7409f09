"""Color: a thing gets a colour that differs from the caption (SLVMEval, 4.3 and appendix E.2).

The paper's operation is in ``color_edit.py``. The one here is a classical substitute for its image editor:
every pixel of the named colour is recoloured, whichever thing it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.extras import lazy_package
from storage_schemas.frames import Planes
from tasks.aspects.base import Aspect, ClipContext, ClipSpan, FindingOperation, FoundParameters
from tasks.aspects.color_edit import (
    PALETTE,
    Palette,
    QwenImageEdit,
    colour_choices,
    coloured_things,
    drawn_colour,
)
from tasks.media.color_names import lab_to_rgb, pixels_named, recolour, rgb_to_lab
from tasks.media.planes import Mask, merge_masked, planes_to_rgb, rgb_to_planes

cv2 = lazy_package("cv2")


class HueShiftParameters(FoundParameters):
    """Selection of pixels and amount of recolouring.

    Parameters
    ----------
    palette
        Two or more colours from which the new one is drawn; the original is never drawn.
        least_share
        Frames with a smaller share of pixels of the named colour are not changed.
    amount
        How far the pixels move towards the new colour; 1 is all the way.
    """

    palette: Palette = PALETTE
    least_share: float = Field(default=0.01, ge=0, le=1)
    amount: float = Field(default=1.0, gt=0, le=1)


def colour_mask(rgb: Planes, colour: str, least_share: float) -> Mask:
    """Return the pixels of a colour without specks, ``(H, W)`` bool; none if they are too few."""
    pixels = pixels_named(rgb_to_lab(rgb), colour).astype(np.uint8)
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    smooth = cv2.morphologyEx(cv2.morphologyEx(pixels, cv2.MORPH_OPEN, cross), cv2.MORPH_CLOSE, cross)
    mask = smooth.astype(np.bool_)
    return mask if mask.mean() >= least_share else np.zeros_like(mask)


class NamedColourHueShift(FindingOperation[HueShiftParameters]):
    """Recolours the pixels of the colour named in the caption, preserving their shading.

    The threshold of 0.5 steps corresponds to one hundredth of the picture turning from dark to light.
    """

    name = "named-colour-hue-shift"
    parameters_type = HueShiftParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"amount": 0.35},
        "medium": {"amount": 0.65},
        "standard": {},
    }
    default_strength: ClassVar[str] = "standard"
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.5
    finds = "the named colour shows"

    def takes(self, analysis: CaptionAnalysis, clip: ClipSpan, parameters: HueShiftParameters) -> bool:
        """Return whether the caption gives some thing exactly one colour of the palette, to look for."""
        return bool(colour_choices(analysis))

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the colours and things to draw from."""
        return colour_choices(analysis)

    def choose(self, clip: ClipContext, parameters: HueShiftParameters) -> dict[str, Any]:
        """Draw the thing and its new colour."""
        return drawn_colour(clip, colour_choices(clip.analysis), parameters.palette)

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: HueShiftParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return recoloured planes ``(n, H·3/2, W)``; frames without the colour are unchanged."""
        cv2.setNumThreads(1)
        rgb = planes_to_rgb(frames, clip.color)
        masks = np.zeros(rgb.shape[:3], np.bool_)
        changed = rgb.copy()
        for place, frame in enumerate(rgb):
            mask = colour_mask(frame, choice["color"], parameters.least_share)
            if not mask.any():
                continue
            masks[place] = mask
            lab = rgb_to_lab(frame)
            moved = recolour(lab, mask, choice["new_color"])
            changed[place] = lab_to_rgb(lab + (moved - lab) * np.float32(parameters.amount))
        return merge_masked(frames, rgb_to_planes(changed, clip.color), masks)


def names_coloured_thing(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return whether the caption gives some thing a colour (SLVMEval, appendix E.2)."""
    return bool(coloured_things(analysis))


ASPECT = Aspect(
    name="color",
    dimension="color",
    category="consistency",
    needs="a thing with a colour (`color`)",
    takes=names_coloured_thing,
    operations={
        QwenImageEdit.name: QwenImageEdit(),
        NamedColourHueShift.name: NamedColourHueShift(),
    },
)
