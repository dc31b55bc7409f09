"""A program that learns from the bytes of two videos is right by chance on what it has not seen."""

from __future__ import annotations

import pytest

from tests.tasks.annotation.adversary import KINDS, Task, task, tried
from tests.tasks.annotation.shown_films import CHANGES

#: Length tells where clips were removed.
ASPECTS = sorted(CHANGES.keys() - {"comprehensiveness"})


@pytest.mark.parametrize("aspect", ["color", "dynamics_degree", "temporal_flow"])
def test_headers_and_sizes_are_equal_and_no_slice_begins_as_another(aspect: str) -> None:
    shown, plain = task(aspect, 3), task(aspect, 3, hidden=False)
    assert set(shown.structure.values()) == {0.0}
    assert any(plain.structure.values()), "without it the adversary sees something"
    sizes = {name for name in shown.coded if name.endswith("size")}
    assert len(sizes) == 16
    assert {shown.coded[name] for name in sizes} == {0.0}
    assert any(plain.coded[name] for name in sizes)
    begun = [name for name in shown.data if "known beginning" in name]
    assert len(begun) == 16
    assert {shown.data[name] for name in begun} == {0.0}


@pytest.fixture(scope="module")
def read() -> dict[bool, list[Task]]:
    """Give tasks of both kinds: as workers get them, and plain."""
    return {
        hidden: [task(aspect, number, hidden) for number in range(12) for aspect in ASPECTS]
        for hidden in (True, False)
    }


@pytest.mark.slow
# the fixture takes a minute
@pytest.mark.xdist_group("adversary")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learned_is_worth_nothing(read: dict[bool, list[Task]], kind: str) -> None:
    """Keys and films are fixed, so the numbers are the same with one version of the encoder."""
    plain, shown = (tried(read[hidden][:54], read[hidden][54:], kind)["all"] for hidden in (False, True))
    assert plain.interval[0] > 0.5
    low, high = shown.interval
    assert low < 0.5 < high
