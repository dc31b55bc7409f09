"""Colour words and the pixels that people call by them, in CIE Lab.

The bounds are wide and overlap, as speech does: a caption's "grey" rabbit has a tinge of blue, and its
"brown" trunk may pass for dark orange. They were set by looking at frames of real films.
"""

from __future__ import annotations

import re
from typing import NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from storage_schemas.frames import Planes

Lab = NDArray[np.float32]

#: The colours to draw from (SLVMEval, appendix F.6).
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

#: Other words for the palette's colours.
SYNONYMS: dict[str, str] = {
    "grey": "gray",
    "silver": "gray",
    "silvery": "gray",
    "ash": "gray",
    "charcoal": "gray",
    "violet": "purple",
    "lilac": "purple",
    "lavender": "purple",
    "mauve": "purple",
    "golden": "yellow",
    "gold": "yellow",
    "blond": "yellow",
    "blonde": "yellow",
    "crimson": "red",
    "scarlet": "red",
    "maroon": "red",
    "ruby": "red",
    "tan": "brown",
    "beige": "brown",
    "chestnut": "brown",
    "bronze": "brown",
    "khaki": "brown",
    "azure": "blue",
    "navy": "blue",
    "cyan": "blue",
    "indigo": "blue",
    "emerald": "green",
    "olive": "green",
    "lime": "green",
    "magenta": "pink",
    "rose": "pink",
    "rosy": "pink",
    "salmon": "pink",
    "amber": "orange",
    "ivory": "white",
    "cream": "white",
    "snowy": "white",
    "ebony": "black",
}
_ISH = re.compile(r"(?<=[a-z])d?ish$")


class _Bounds(NamedTuple):
    """Where a colour lies: lightness 0–100, chroma, hue in degrees (from, to; may pass 360)."""

    light: tuple[float, float]
    chroma: tuple[float, float]
    hue: tuple[float, float]
    focus: tuple[float, float, float]


#: `focus` is the colour itself in Lab, to which pixels are moved.
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
    """Return the palette's colours that some words name: {"gray"} for "light greyish"; empty if none."""
    found = set()
    for word in re.findall(r"[a-z]+", words.lower()):
        stem = _ISH.sub("", word)
        for candidate in (word, stem, stem + "e"):
            name = SYNONYMS.get(candidate, candidate)
            if name in PALETTE:
                found.add(name)
                break
    return frozenset(found)


def rgb_to_lab(rgb: Planes) -> Lab:
    """Return RGB ``(H, W, 3)`` uint8 (sRGB, D65) as CIE Lab float32: L 0–100, a and b signed."""
    return cast("Lab", cv2.cvtColor(rgb.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2Lab))


def lab_to_rgb(lab: Lab) -> Planes:
    """Return CIE Lab as RGB ``(H, W, 3)`` uint8, colours outside RGB clipped."""
    rgb = cv2.cvtColor(lab, cv2.COLOR_Lab2RGB)
    return np.clip(np.rint(rgb * 255), 0, 255).astype(np.uint8)


def pixels_named(lab: Lab, name: str) -> NDArray[np.bool_]:
    """Return which pixels of a Lab picture go by a palette colour, ``(H, W)`` bool."""
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
    """Return the picture with the pixels under `mask` moved to a palette colour, their shading kept.

    The pixels' mean lightness goes most of the way to the colour's own; each pixel keeps four fifths of its
    distance from the mean, and the darker it is, the less chroma it has.
    """
    out = lab.copy()
    focus_light, focus_a, focus_b = _COLOURS[name].focus
    light = lab[..., 0][mask]
    mean = float(light.mean())
    new_light = np.clip(mean + 0.85 * (focus_light - mean) + 0.8 * (light - mean), 2, 99)
    gain = np.clip(new_light / max(focus_light, 1), 0.2, 1.15)
    out[mask] = np.stack([new_light, focus_a * gain, focus_b * gain], axis=-1)
    return out
