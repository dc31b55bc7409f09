"""What is wrong with a value is reported in plain words, without those of the validator."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from storage_schemas.model import Frozen, ModelServer
from storage_schemas.value_problems import first_error


class Settings(Frozen):
    rounds: Annotated[int, Field(ge=1, le=9)] = 1
    weight: float = 1.0
    fps: Fraction = Fraction(8)
    names: tuple[str, ...] = ()
    two: Annotated[tuple[int, ...], Field(min_length=2, max_length=3)] = (1, 2)
    server: ModelServer | None = None
    prices: dict[str, float] = Field(default_factory=dict)
    word: Annotated[str, Field(pattern="^[a-z]+$", max_length=5)] = "a"
    which: Literal["x", "y"] = "x"
    place: Path = Path("here")
    quick: bool = False


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rounds": "x"}, "rounds: must be a whole number, not 'x'"),
        ({"rounds": 1.5}, "rounds: must be a whole number, not 1.5"),
        ({"rounds": 0}, "rounds: must be at least 1, not 0"),
        ({"rounds": 10}, "rounds: must be at most 9, not 10"),
        ({"weight": []}, "weight: must be a number"),
        ({"fps": "x"}, "fps: must be a number, or a fraction such as 30000/1001, not 'x'"),
        ({"names": 3}, "names: must be a list, not 3"),
        ({"two": [1]}, "two: must have at least 2 items, not 1"),
        ({"two": [1, 2, 3, 4]}, "two: must have at most 3 items, not 4"),
        ({"server": 3}, "server: must be a table of names and values, not 3"),
        ({"server": {}}, "server.url: is missing"),
        ({"server": {"url": "ftp://x"}}, "server.url: an address must begin with http"),
        ({"prices": 3}, "prices: must be a table of names and values, not 3"),
        ({"word": "A"}, "word: must match ^[a-z]+$"),
        ({"word": "abcdef"}, "word: must have at most 5 characters"),
        ({"which": "z"}, "which: must be 'x' or 'y', not 'z'"),
        ({"place": 3}, "place: must be a path, not 3"),
        ({"quick": "perhaps"}, "quick: must be true or false, not 'perhaps'"),
        ({"round": 3}, "round: unknown key. Did you mean 'rounds'?"),
        (3, "must be a table of names and values, not 3"),
    ],
)
def test_a_value_that_does_not_fit(given: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(given)
    result = first_error(caught.value, Settings.model_fields)
    assert result.startswith(said)
    assert "\n" not in result


def test_what_is_not_json_is_reported_with_its_place() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate_json('{"rounds": 1,\n x')
    assert first_error(caught.value) == "is not valid JSON in line 2, column 2"
