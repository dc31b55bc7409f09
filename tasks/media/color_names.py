"""Colour words and the pixels they describe, in CIE Lab.

The bounds are wide and overlap, as everyday language does: a "grey" rabbit may have a tinge of blue, and
a "brown" trunk may pass for dark orange. They were set by inspecting frames of real films.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from storage_schemas.extras import lazy_package
from storage_schemas.frames import Planes

cv2 = lazy_package("cv2")

Lab = NDArray[np.float32]

#: The colours to draw from (SLVMEval, appendix E.2).
PALETTE = (
    "black",
    "white",
    "red",
    "green",
    "yellow",
    "blue",
    "brown",
    "purple",
    "pink",
    "orange",
    "gray",
)

#: Other words for the palette's colours, by colour.
_OTHER_WORDS: dict[str, str] = {
    "black": "ebony onyx obsidian sable",
    "white": "ivory cream creamy snowy alabaster",
    "red": "crimson scarlet maroon ruby burgundy vermilion vermillion carmine oxblood",
    "green": "emerald olive lime jade viridian chartreuse",
    "yellow": "golden gold blond blonde flaxen",
    "blue": "azure navy cyan indigo cobalt sapphire cerulean ultramarine periwinkle",
    "brown": "tan beige chestnut bronze khaki tawny sepia umber mahogany brunette taupe",
    "purple": "violet lilac lavender mauve amethyst",
    "pink": "magenta rose rosy salmon fuchsia",
    "orange": "amber tangerine apricot",
    "gray": "grey silver silvery ash ashen charcoal gunmetal pewter graphite",
}
#: Words that name a colour in a colour field but an object elsewhere.
_THINGS_AS_COLOURS: dict[str, str] = {
    "black": "coal jet ink inky raven",
    "white": "milk milky pearl pearly chalk eggshell snow",
    "red": "cherry wine brick blood cardinal",
    "green": "mint moss forest grass sage",
    "yellow": "lemon mustard straw sunflower canary",
    "blue": "denim sky",
    "brown": "chocolate coffee caramel walnut cinnamon hazel sand sandy",
    "purple": "plum grape eggplant",
    "pink": "bubblegum blush",
    "orange": "carrot pumpkin",
    "gray": "slate smoke smoky steel stone",
}


def _by_word(words: Mapping[str, str]) -> dict[str, str]:
    return {word: colour for colour, line in words.items() for word in line.split()}


#: Synonyms of the palette's colours. Colours between two of them (teal, turquoise, copper, peach, coral)
#: are omitted, so that an object of such a colour is assigned to neither.
SYNONYMS: Mapping[str, str] = _by_word(_OTHER_WORDS)
_FIELD_WORDS: Mapping[str, str] = {**SYNONYMS, **_by_word(_THINGS_AS_COLOURS)}
_ISH = re.compile(r"(?<=[a-z])d?ish$")


class _Bounds(NamedTuple):
    """Range of a colour: lightness 0–100, chroma, hue in degrees (from, to; may exceed 360)."""

    light: tuple[float, float]
    chroma: tuple[float, float]
    hue: tuple[float, float]
    focus: tuple[float, float, float]


#: `focus` is the typical colour in Lab, towards which pixels are moved.
_COLOURS: dict[str, _Bounds] = {
    "black": _Bounds((0, 28), (0, 18), (0, 360), (12, 0, 0)),
    "white": _Bounds((66, 100), (0, 20), (0, 360), (93, 0, 0)),
    "gray": _Bounds((18, 88), (0, 18), (0, 360), (55, 0, 0)),
    "red": _Bounds((12, 70), (25, 200), (5, 52), (48, 68, 46)),
    "orange": _Bounds((35, 90), (28, 200), (42, 80), (66, 42, 68)),
    "yellow": _Bounds((45, 100), (20, 200), (74, 114), (88, -4, 80)),
    "green": _Bounds((8, 95), (9, 200), (100, 195), (52, -48, 44)),
    "blue": _Bounds((8, 95), (9, 200), (205, 312), (42, 12, -62)),
    "purple": _Bounds((8, 85), (9, 200), (286, 350), (38, 50, -46)),
    "pink": _Bounds((50, 97), (7, 200), (318, 412), (74, 42, -2)),
    "brown": _Bounds((8, 62), (9, 60), (22, 88), (35, 17, 27)),
}


def named_colours(words: str) -> frozenset[str]:
    """Return the palette colours named in a text: {"gray"} for "light greyish"; empty if none."""
    return _colours_in(words, SYNONYMS)


def field_colours(words: str) -> frozenset[str]:
    """Return the palette colours named by the text of a colour field: {"red"} for "wine".

    "Sky blue" is blue and "wine red" is red: an object's name counts only without a colour word next to it.
    """
    return _colours_in(words, SYNONYMS) or _colours_in(words, _FIELD_WORDS)


def _colours_in(words: str, synonyms: Mapping[str, str]) -> frozenset[str]:
    colours = set()
    for word in re.findall(r"[a-z]+", words.lower()):
        stem = _ISH.sub("", word)
        for candidate in (word, stem, stem + "e"):
            name = synonyms.get(candidate, candidate)
            if name in PALETTE:
                colours.add(name)
                break
    return frozenset(colours)


def rgb_to_lab(rgb: Planes) -> Lab:
    """Convert RGB ``(H, W, 3)`` uint8 (sRGB, D65) to CIE Lab float32: L 0–100, a and b signed."""
    return cast("Lab", cv2.cvtColor(rgb.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2Lab))


def lab_to_rgb(lab: Lab) -> Planes:
    """Convert CIE Lab to RGB ``(H, W, 3)`` uint8; colours outside RGB are clipped."""
    rgb = cv2.cvtColor(lab, cv2.COLOR_Lab2RGB)
    return cast("Planes", np.clip(np.rint(rgb * 255), 0, 255).astype(np.uint8))


def pixels_named(lab: Lab, name: str) -> NDArray[np.bool_]:
    """Return which pixels of a Lab picture match a palette colour, ``(H, W)`` bool."""
    bounds = _COLOURS[name]
    light, a, b = lab[..., 0], lab[..., 1], lab[..., 2]
    chroma = np.hypot(a, b)
    hue = np.degrees(np.arctan2(b, a)) % 360
    low, high = bounds.hue
    around = (hue >= low) & (hue <= high)
    if high > 360:
        around |= hue <= high - 360
    inside = around & (light >= bounds.light[0]) & (light <= bounds.light[1])
    return inside & (chroma >= bounds.chroma[0]) & (chroma <= bounds.chroma[1])


def recolour(lab: Lab, mask: NDArray[np.bool_], name: str) -> Lab:
    """Return the picture with the pixels under `mask` moved to a palette colour, preserving their shading.

    The mean lightness moves most of the way to the colour's; each pixel keeps four fifths of its distance
    from the mean, and darker pixels get less chroma.
    """
    out = lab.copy()
    focus_light, focus_a, focus_b = _COLOURS[name].focus
    light = lab[..., 0][mask]
    mean = float(light.mean())
    new_light = np.clip(mean + 0.85 * (focus_light - mean) + 0.8 * (light - mean), 2, 99)
    gain = np.clip(new_light / max(focus_light, 1), 0.2, 1.15)
    out[mask] = np.stack([new_light, focus_a * gain, focus_b * gain], axis=-1)
    return out
