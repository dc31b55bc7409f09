"""The report's tables on excerpts: signs and intervals of what length and position change."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from storage_schemas.pair import Position
from tasks.report.length_tables import _changes
from tasks.statistics.trials import TrialPair

Points = Mapping[TrialPair, float]


def excerpt(source: int, share: float, position: Position = "own") -> TrialPair:
    name = f"{source}-{share}-{position}"
    return TrialPair(name, f"s{source}", "color", 60.0 * share, length=share, position=position)


def test_changes_are_the_longer_less_the_shorter_and_late_less_early() -> None:
    # right on all long excerpts, and on short ones of every second film
    points = {excerpt(n, share): float(share == 1 or n % 2) for n in range(8) for share in (0.2, 0.5, 1.0)}
    points |= {excerpt(n, 0.5, "late"): float(n < 6) for n in range(8)}
    points |= {excerpt(n, 0.5, "early"): float(n < 2) for n in range(8)}
    length, position = _changes(points)
    assert (length["compared"], length["difference"]) == ("100 % against 20 % of the film", 0.5)
    assert position["compared"] == "late against early damage, 50 % of the film"
    assert (position["difference"], position["pairs"], position["sources"]) == (0.5, 8, 8)
    # differences of 0 and 1, four each: t with 7 degrees of freedom times the deviation over the root of 8
    half = 2.36462 * 0.53452 / 8**0.5
    assert (length["low"], length["high"]) == (
        pytest.approx(0.5 - half, abs=1e-4),
        pytest.approx(0.5 + half, abs=1e-4),
    )


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_films_that_are_all_alike_have_no_interval(right: float) -> None:
    points = {excerpt(n, share): right if share == 1 else 1.0 for n in range(2) for share in (0.5, 1.0)}
    (row,) = _changes(points)
    assert (row["difference"], row.get("low"), row.get("high")) == (right - 1, None, None)
