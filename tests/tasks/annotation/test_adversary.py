"""A program that learns from the bytes of two videos is right by chance on what it has not seen."""

from __future__ import annotations

import pytest

from tests.tasks.annotation.adversary import task, tried
from tests.tasks.annotation.shown_films import CHANGES

#: Length tells where clips were removed.
ASPECTS = sorted(CHANGES.keys() - {"comprehensiveness"})


@pytest.mark.parametrize("aspect", ["color", "technical_quality", "temporal_flow"])
def test_nothing_of_the_structure_differs(aspect: str) -> None:
    assert set(task(aspect, 3).structure.values()) == {0.0}
    plain = task(aspect, 3, hidden=False).structure
    assert any(plain.values()), "without it the adversary sees something"


@pytest.mark.slow
def test_what_is_learned_from_the_structure_is_worth_nothing() -> None:
    plain = [task(aspect, number, hidden=False) for number in range(12) for aspect in ASPECTS]
    assert tried(plain[:54], plain[54:], "structure")["all"].interval[0] > 0.5
    shown = [task(aspect, number) for number in range(12) for aspect in ASPECTS]
    low, high = tried(shown[:54], shown[54:], "structure")["all"].interval
    assert low < 0.5 < high
