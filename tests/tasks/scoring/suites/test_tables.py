"""Tables of correlations, and the grid that is drawn of one."""

from __future__ import annotations

from itertools import combinations

from tasks.report.suite_tables import correlation_figure, correlation_tables
from tasks.scoring.suites.base import Dimension
from tasks.scoring.suites.human_ratings import VideoKey


def dimension(name: str) -> Dimension:
    return Dimension(
        name=name, title=name, group="g", low=0, high=5, about="", behind="", source="not from the paper"
    )


def runs(**scores: list[float]) -> dict[str, dict[int, dict[VideoKey, float]]]:
    videos = [VideoKey(model="m", prompt_id=f"p{number}") for number in range(3)]
    return {name: {0: dict(zip(videos, values, strict=True))} for name, values in scores.items()}


def test_dimensions_stand_in_the_suites_order_and_others_after_them() -> None:
    suite = [dimension(name) for name in ("zest", "mild", "absent", "able")]
    result = runs(other=[1, 2, 3], able=[3, 2, 1], zest=[1, 2, 3], mild=[1, 3, 2])
    table, *_ = correlation_tables(result, suite, {})
    pairs = [(row["first"], row["second"]) for row in table.rows]
    assert pairs == list(combinations(("zest", "mild", "able", "other"), 2))


def test_the_grid_writes_numbers_as_the_table_does() -> None:
    table, *_ = correlation_tables(runs(a=[1, 2, 3], b=[3, 1, 2]), [], {})
    assert table.cells()[0][5] == "−0.50"
    svg = correlation_figure(table).svg.decode()
    assert ">−0.50<" in svg
    assert ">-0.50<" not in svg
