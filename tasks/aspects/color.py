"""Color: an object gets a colour that differs from the caption (SLVMEval, 4.3 and appendix E.2).

The paper's operation is in ``color_edit.py``. The one here is a classical substitute for its image editor:
every pixel of the named colour is recoloured, whichever object it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.extras import lazy_package
from storage_schemas.frames import Planes
from tasks.aspects.base import (
    Aspect,
    ClipContext,
    ClipNotDegradable,
    ClipSpan,
    Control,
    FindingOperation,
    FoundParameters,
    Scale,
    any_clip,
    blending,
)
from tasks.aspects.color_edit import (
    PALETTE,
    Palette,
    QwenImageEdit,
    colour_choices,
    coloured_things,
    drawn_colour,
)
from tasks.media.color_names import (
    field_colours,
    lab_to_rgb,
    named_colours,
    pixels_named,
    recolour,
    rgb_to_lab,
)
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
        How far the pixels move towards the new colour; 1 moves them all the way.
    """

    palette: Palette = PALETTE
    least_share: float = Field(default=0.01, ge=0, le=1)
    amount: float = Field(default=1.0, gt=0, le=1)


def colour_mask(rgb: Planes, colour: str, least_share: float) -> Mask:
    """Return the pixels of a colour without specks, ``(H, W)`` bool; none if there are too few."""
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
    scale: ClassVar[Scale | None] = blending()
    default_strength: ClassVar[str] = "standard"
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.5
    finds = "the named colour shows"

    def takes(self, analysis: CaptionAnalysis, clip: ClipSpan, parameters: HueShiftParameters) -> bool:
        """Return whether the caption gives an object exactly one colour of the palette."""
        return bool(colour_choices(analysis))

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the colours and objects to draw from."""
        return colour_choices(analysis)

    def choose(self, clip: ClipContext, parameters: HueShiftParameters) -> dict[str, Any]:
        """Draw the object and its new colour."""
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
        return recoloured(frames, clip, choice, parameters.least_share, parameters.amount)


#: Colours that may be recoloured if the caption does not name them: not those of skin, hair and wood.
UNNAMED: Palette = ("red", "green", "yellow", "blue", "purple")
#: Number of a clip's frames that are inspected before a colour is drawn.
_LOOKED_AT = 5


class UnnamedColourParameters(FoundParameters):
    """Which colours are recoloured, and how much of a picture they may cover.

    Parameters
    ----------
    palette
        Two or more colours, from which both the recoloured and the new one are drawn.
    least_share, most_share
        Share of a picture that the colour has, on average over some frames; a frame with less is not changed.
    """

    palette: Palette = UNNAMED
    least_share: float = Field(default=0.01, gt=0, le=1)
    most_share: float = Field(default=0.6, gt=0, le=1)


def caption_colours(analysis: CaptionAnalysis) -> list[str]:
    """Return the colours that a caption names, for any object."""
    things = (*analysis.subject, *analysis.background, *analysis.scene)
    fields = (field_colours(entry.color) | named_colours(entry.object) for entry in analysis.color)
    return sorted(frozenset().union(*fields, *map(named_colours, things)))


class UnnamedColourShift(FindingOperation[UnnamedColourParameters]):
    """Recolours the pixels of a colour that the caption does not name to another that it does not name.

    The threshold is that of :class:`NamedColourHueShift`.
    """

    name = "unnamed-colour-shift"
    parameters_type = UnnamedColourParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"control": {}}
    default_strength: ClassVar[str] = "control"
    works_on: ClassVar[Literal["planes", "rgb"]] = "planes"
    threshold = 0.5
    finds = "the colour shows"

    def consumed_analysis(self, analysis: CaptionAnalysis) -> Any:
        """Return the colours that the caption names."""
        return caption_colours(analysis)

    def choose(self, clip: ClipContext, parameters: UnnamedColourParameters) -> dict[str, Any]:
        """Draw a colour that some frames show, and its new colour.

        Raises
        ------
        ClipNotDegradable
            If the frames show no colour that the caption omits, or no other colour is left.
        """
        named = set(caption_colours(clip.analysis))
        free = [colour for colour in parameters.palette if colour not in named]
        indices = np.unique(np.linspace(0, clip.span.frame_count - 1, _LOOKED_AT).round().astype(int))
        shares = dict.fromkeys(free, 0.0)
        for index in indices.tolist():
            rgb = planes_to_rgb(clip.read(index, 1), clip.color)[0]
            for colour in free:
                shares[colour] += float(colour_mask(rgb, colour, 0).mean()) / len(indices)
        shown = [
            colour
            for colour, share in shares.items()
            if parameters.least_share <= share <= parameters.most_share
        ]
        if not shown or len(free) < 2:
            raise ClipNotDegradable("the frames show no colour that the caption leaves out")
        colour = shown[int(clip.rng("unnamed colour").integers(len(shown)))]
        others = [other for other in free if other != colour]
        return {"color": colour, "new_color": others[int(clip.rng("new color").integers(len(others)))]}

    def apply(
        self,
        frames: Planes,
        first: int,
        clip: ClipContext,
        parameters: UnnamedColourParameters,
        choice: Mapping[str, Any],
    ) -> Planes:
        """Return recoloured planes ``(n, H·3/2, W)``; frames without the colour are unchanged."""
        return recoloured(frames, clip, choice, parameters.least_share, 1.0)


def recoloured(
    frames: Planes, clip: ClipContext, choice: Mapping[str, Any], least_share: float, amount: float
) -> Planes:
    """Return planes in which the pixels of one colour have another."""
    cv2.setNumThreads(1)
    rgb = planes_to_rgb(frames, clip.color)
    masks = np.zeros(rgb.shape[:3], np.bool_)
    changed = rgb.copy()
    for index, frame in enumerate(rgb):
        mask = colour_mask(frame, choice["color"], least_share)
        if not mask.any():
            continue
        masks[index] = mask
        lab = rgb_to_lab(frame)
        moved = recolour(lab, mask, choice["new_color"])
        changed[index] = lab_to_rgb(lab + (moved - lab) * np.float32(amount))
    return merge_masked(frames, rgb_to_planes(changed, clip.color), masks)


def names_coloured_thing(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return whether the caption gives any object a colour (SLVMEval, appendix E.2)."""
    return bool(coloured_things(analysis))


ASPECT = Aspect(
    name="color",
    dimension="color",
    category="consistency",
    needs="an object with a colour (`color`)",
    takes=names_coloured_thing,
    operations={
        QwenImageEdit.name: QwenImageEdit(),
        NamedColourHueShift.name: NamedColourHueShift(),
    },
    control=Control(
        operation=UnnamedColourShift(),
        takes=any_clip,
        needs="a colour in the pictures that the caption does not name",
        reason="the caption does not mention that colour, so neither side fits it better",
        # the largest damage of 12 clips of an animated film was 21.2
        max_difference=22.0,
    ),
    caption_advice='Give an object exactly one colour: "A red boat lies on the beach."',
)
