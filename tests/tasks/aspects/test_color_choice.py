"""Which thing gets which colour: never the one that it has, by whatever word."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.analysis import CaptionAnalysis, ColoredObject
from storage_schemas.errors import UserInputError
from storage_schemas.frames import ColorSpec
from tasks.aspects.base import ClipContext, ClipNotDegradable, ClipSpan
from tasks.aspects.color import NamedColourHueShift, names_coloured_thing
from tasks.aspects.color_edit import (
    PALETTE,
    PaletteColour,
    QwenImageEdit,
    colour_choices,
    coloured_things,
    drawn_colour,
)
from tasks.media.color_names import PALETTE as KNOWN
from tasks.media.color_names import field_colours, named_colours
from tests.tasks.aspects.planted import PlantedModels

#: What people write, and the colour of the palette that they mean.
WORDS = {
    "black": "black ebony onyx blackish jet coal",
    "white": "white ivory cream snowy whitish alabaster pearl milky off-white",
    "red": "red crimson scarlet maroon ruby burgundy vermilion cherry wine reddish brick",
    "green": "green emerald olive lime jade greenish mint moss",
    "yellow": "yellow golden gold blond blonde lemon mustard yellowish",
    "blue": "blue navy azure cobalt sapphire indigo cyan bluish cerulean ultramarine",
    "brown": "brown tan beige chestnut bronze khaki chocolate brownish mahogany caramel",
    "purple": "purple violet lilac lavender mauve plum purplish amethyst",
    "pink": "pink magenta rose salmon pinkish fuchsia rosy",
    "orange": "orange amber tangerine pumpkin apricot",
    "gray": "gray grey silver ash ashen charcoal greyish grayish slate gunmetal silvery",
}
PAIRS = [(word, colour) for colour, line in WORDS.items() for word in line.split()]
FORMS = ("{}", "dark {}", "light-{}", "{} coloured", "Bright {}", "very pale {}")


def analysis(*colored: tuple[str, str]) -> CaptionAnalysis:
    return CaptionAnalysis(color=tuple(ColoredObject(color=color, object=thing) for color, thing in colored))


def test_the_palette_is_the_one_that_colour_words_lead_to() -> None:
    assert get_args(PaletteColour) == PALETTE == KNOWN
    assert len(PALETTE) == 11


def test_words_of_colours_are_known() -> None:
    said = [(form.format(word), colour) for word, colour in PAIRS for form in FORMS]
    assert [(words, colour) for words, colour in said if field_colours(words) != {colour}] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Grey", "gray"),
        ("light pinkish", "pink"),
        ("reddish-brown", "red brown"),
        ("bluish", "blue"),
        ("purplish", "purple"),
        ("dark golden", "yellow"),
        ("transparent", ""),
        ("bored greenery", ""),
        ("wine glass", ""),
        ("", ""),
    ],
)
def test_words_name_colours_of_the_palette(words: str, expected: str) -> None:
    assert named_colours(words) == set(expected.split())
    assert field_colours("wine") == {"red"}, "as a colour it is one"


@settings(max_examples=300, deadline=None)
@given(
    pair=st.sampled_from(PAIRS),
    form=st.sampled_from(FORMS),
    upper=st.booleans(),
    index=st.integers(0, 10_000),
    palette=st.lists(st.sampled_from(PALETTE), min_size=2, unique=True).map(tuple),
)
def test_the_new_colour_is_never_the_old_one(
    pair: tuple[str, str], form: str, upper: bool, index: int, palette: tuple[PaletteColour, ...]
) -> None:
    word, colour = pair
    output = form.format(word).upper() if upper else form.format(word)
    clip = ClipContext(
        span=ClipSpan(index, 0, 1),
        color=ColorSpec(),
        analysis=analysis((output, "car")),
        seed=(0, "s", "color"),
        models=PlantedModels(),
        read=lambda place, count: pytest.fail("nothing is looked at"),
    )
    for things, old in ((colour_choices(clip.analysis), colour), (coloured_things(clip.analysis), output)):
        drawn = drawn_colour(clip, things, palette)
        assert drawn["object"] == "car"
        assert drawn["color"] == old
        assert drawn["new_color"] in set(palette) - {colour}
        assert drawn_colour(clip, things, palette) == drawn


def test_every_other_colour_is_drawn_and_every_thing(clip_of: Callable[..., ClipContext]) -> None:
    two, operation = analysis(("navy", "car"), ("golden", "dog")), NamedColourHueShift()
    drawn = [operation.choose(clip_of(1, two, index), operation.parameters()) for index in range(200)]
    assert {each["object"] for each in drawn} == {"car", "dog"}
    for color in ("blue", "yellow"):
        new = {each["new_color"] for each in drawn if each["color"] == color}
        assert new == set(PALETTE) - {color}


def test_the_palette_has_known_colours_and_more_than_one() -> None:
    operation = NamedColourHueShift()
    assert operation.parameters().palette == PALETTE
    assert operation.parameters(overrides={"palette": ["red", "blue"]}).palette == ("red", "blue")
    for palette in ([], ["red"], ["red", "red"], ["red", "teal"]):
        with pytest.raises(UserInputError, match="palette"):
            operation.parameters(overrides={"palette": palette})


@pytest.mark.parametrize(
    ("colored", "choices"),
    [
        ([("red and blue", "shirt"), ("clear", "sky"), ("grey", "cat")], [("gray", "cat")]),
        ([("red", "shirt"), ("blue", "shirt")], []),
        ([("red", "shirt"), ("crimson", "shirt")], [("red", "shirt")]),
        ([("white", "red-roofed house")], []),
        ([("grey", "gray wolf")], [("gray", "gray wolf")]),
        ([("blue-green", "sea")], []),
        ([("turquoise", "sea")], []),
        ([("colourful", "flag"), ("", "sky")], []),
        ([("wine red", "curtain")], [("red", "curtain")]),
        ([("sky blue", "car")], [("blue", "car")]),
        ([("white", "wine glass")], [("white", "wine glass")]),
        ([("black", "coffee cup"), ("red-ish", "mug")], [("black", "coffee cup"), ("red", "mug")]),
        ([("赤い", "車")], []),
    ],
)
def test_things_of_one_colour(colored: list[tuple[str, str]], choices: list[tuple[str, str]]) -> None:
    assert colour_choices(analysis(*colored)) == choices


def test_choose_takes_things_of_one_colour_only_to_recolour(clip_of: Callable[..., ClipContext]) -> None:
    """Whatever the colour is called, a language model can be told to change it (SLVMEval, appendix E.2)."""
    several = analysis(("red", "shirt"), ("blue", "shirt"), ("teal", "sea"), ("teal", "sea"))
    clip = clip_of(1, several)
    assert names_coloured_thing(several, clip.span)
    assert coloured_things(several) == [("red", "shirt"), ("blue", "shirt"), ("teal", "sea")]
    drawn = [drawn_colour(clip_of(1, several, n), coloured_things(several), PALETTE) for n in range(200)]
    new = {name: {each["new_color"] for each in drawn if each["object"] == name} for name in ("shirt", "sea")}
    assert new == {"shirt": set(PALETTE) - {"red", "blue"}, "sea": set(PALETTE)}
    hue_shift, edit = NamedColourHueShift(), QwenImageEdit()
    assert edit.takes(several, clip.span, edit.parameters())
    assert not hue_shift.takes(several, clip.span, hue_shift.parameters())
    assert hue_shift.takes(analysis(("grey", "cat")), clip.span, hue_shift.parameters())
    for nothing in (several, analysis()):
        with pytest.raises(ClipNotDegradable, match="no object a colour"):
            hue_shift.choose(clip_of(1, nothing), hue_shift.parameters())
    assert not names_coloured_thing(analysis(), clip.span)
    clear = analysis(("clear", "sky"))
    assert names_coloured_thing(clear, clip.span)
    assert not hue_shift.takes(clear, clip.span, hue_shift.parameters())
    with pytest.raises(ClipNotDegradable, match="every colour"):
        drawn_colour(clip, [("red and blue", "shirt")], ("red", "blue"))
