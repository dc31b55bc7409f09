"""Which thing of a caption gets which colour."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator

from storage_schemas.analysis import CaptionAnalysis
from tasks.aspects.base import ClipContext, ClipNotDegradable
from tasks.media.color_names import named_colours, said_colours

#: A colour that can be drawn (SLVMEval, appendix F.6).
PaletteColour = Literal[
    "black", "white", "red", "green", "yellow", "blue", "brown", "purple", "pink", "orange", "gray"
]


def _another_is_left(value: tuple[PaletteColour, ...]) -> tuple[PaletteColour, ...]:
    if len(set(value)) < 2 or len(set(value)) < len(value):
        raise ValueError("give two or more colours, each once")
    return value


#: The colours to draw the new one from: two or more, so that one is left beside the original.
Palette = Annotated[tuple[PaletteColour, ...], AfterValidator(_another_is_left)]
#: All of them.
PALETTE: Palette = get_args(PaletteColour)


def colour_choices(analysis: CaptionAnalysis) -> list[tuple[str, str]]:
    """Return (colour, thing) for each thing that the caption gives exactly one colour of the palette."""
    by_thing: dict[str, set[str]] = defaultdict(set)
    for entry in analysis.color:
        # the words of the thing count too: a "white" "red-roofed house" has two colours
        by_thing[entry.object] |= said_colours(entry.color) | named_colours(entry.object)
    return [(next(iter(colours)), thing) for thing, colours in by_thing.items() if len(colours) == 1]


def drawn_colour(clip: ClipContext, palette: Palette) -> dict[str, str]:
    """Draw a thing of the clip's caption, and the colour that it gets.

    Returns
    -------
    dict
        `object`, the thing as the caption has it; `color`, which of the palette's colours it has there;
        `new_color`, any other of `palette`.

    Raises
    ------
    ClipNotDegradable
        If the caption gives no thing exactly one colour.
    """
    choices = colour_choices(clip.analysis)
    if not choices:
        raise ClipNotDegradable("the caption gives no thing exactly one colour of the palette")
    colour, thing = choices[int(clip.rng("object").integers(len(choices)))]
    others = [name for name in palette if name != colour]
    return {
        "object": thing,
        "color": colour,
        "new_color": others[int(clip.rng("new color").integers(len(others)))],
    }
