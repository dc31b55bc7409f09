"""No field of headers and boxes tells the two videos of a pair apart."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tasks.annotation.alike import write_alike
from tests.tasks.annotation.shown_films import film
from tests.tasks.media.trace import idr_numbers


@pytest.mark.parametrize("aspect", ["technical_quality", "comprehensiveness", "temporal_flow"])
def test_idr_pictures_are_numbered_by_their_order_on_both_sides(tmp_path: Path, aspect: str) -> None:
    made = film(tmp_path, aspect, 2)
    targets = tmp_path / "a.mp4", tmp_path / "b.mp4"
    joined = idr_numbers(made.low)
    assert any(first == second for first, second in pairwise(joined)), (
        "joined units repeat the encoder's numbers"
    )
    write_alike((made.high, made.low), targets)
    for target in targets:
        numbers = idr_numbers(target)
        assert len(numbers) > 6
        assert numbers == [place % 2 for place in range(len(numbers))]
