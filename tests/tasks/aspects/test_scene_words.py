"""The scene without one of its things."""

from __future__ import annotations

import pytest

from storage_schemas.analysis import CaptionAnalysis
from tasks.aspects.object_diffusion import scene_without, share_a_word


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a red car", "The cars", True),
        ("houses by the sea", "a house", True),
        ("rows of churches", "church", True),
        ("two men", "the man's hat", True),
        ("berries", "a berry bush", True),
        ("a buS stop", "buses", True),
        ("the lake of glass", "a horse in the field", False),
        ("on the left", "the dog on a rug", False),
        ("a man's coat", "a dog's tail", False),
        ("the", "the", False),
        ("", "dog", False),
        ("carpet", "car", False),
        ("犬の公園", "犬", True),
        ("公園", "犬", False),
        ("собака в парке", "Собака", True),
    ],
)
def test_phrases_that_speak_of_the_same_thing(one: str, other: str, expected: bool) -> None:
    assert share_a_word(one, other) is expected
    assert share_a_word(other, one) is expected


def test_the_scene_has_each_phrase_once_and_none_of_the_thing_or_of_other_things() -> None:
    analysis = CaptionAnalysis(
        subject=("dog", "cat"),
        background=("a  park", "trees", "dogs playing"),
        scene=("A park", "", "city at night"),
    )
    assert scene_without(analysis, "the dog") == ("a park", "trees", "city at night")
    assert scene_without(analysis, "park trees") == ("dogs playing", "city at night")
    assert scene_without(CaptionAnalysis(), "dog") == ()
