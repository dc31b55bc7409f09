"""Tables of correlations, and the grid that is drawn of one."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from scipy import stats

from tasks.report.suite_tables import correlation_figure, correlation_tables
from tasks.scoring.suites.base import Dimension, SuitePrompt
from tasks.scoring.suites.human_ratings import VideoKey


def dimension(name: str, group: str = "g", **fields: Any) -> Dimension:
    given = {"name": name, "title": name, "group": group, "low": 0, "high": 5, "source": "not from the paper"}
    return Dimension.model_validate({**given, "about": "", "behind": "", **fields})


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


SUITE = [
    dimension("raw", "static", high=10, averaged=False),
    dimension("sharp", "static", high=1),
    dimension("clean", "static", high=1),
    dimension("even", "motion", high=1),
]


def test_groups_are_correlated_by_the_mean_of_each_videos_dimensions() -> None:
    result = runs(raw=[9, 1, 5], sharp=[0.2, 0.4, 0.9], clean=[0.4, 0.8, 0.1], even=[0.5, 0.7, 0.6])
    # a failed dimension is missing, never zero
    del result["clean"][0][VideoKey(model="m", prompt_id="p2")]
    by_name = {table.name: table for table in correlation_tables(result, SUITE, {})}
    (row,) = by_name["correlations-groups"].rows
    x, y = [0.3, 0.6, 0.9], [0.5, 0.7, 0.6]
    assert (row["first"], row["second"], row["videos"]) == ("static", "motion", 3)
    assert row["pearson"] == pytest.approx(stats.pearsonr(x, y).statistic)
    assert row["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert row["kendall"] == pytest.approx(stats.kendalltau(x, y).statistic)
    assert "correlations-groups" not in {one.name for one in correlation_tables(result, SUITE[1:3], {})}


def test_models_have_means_in_each_category_as_in_the_leaderboard() -> None:
    def of(model: str, *values: float) -> dict[VideoKey, float]:
        return {VideoKey(model=model, prompt_id=f"p{at}"): value for at, value in enumerate(values)}

    result = {
        "raw": {0: of("a", 9, 9, 9)},
        "sharp": {0: of("a", 0.2, 0.4, 0.9) | of("b", 0.5)},
        "clean": {0: of("a", 0.6)},
        "even": {0: of("a", 0.1, 0.3, 0.5)},
    }
    categories = ("life", "life", "nature")
    prompts = {
        f"p{at}": SuitePrompt(prompt_id=f"p{at}", text="x", category=category)
        for at, category in enumerate(categories)
    }
    by_name = {table.name: table for table in correlation_tables(result, SUITE, prompts)}
    rows = {(row["category"], row["model"]): row for row in by_name["categories"].rows}
    assert list(rows) == [("life", "a"), ("life", "b"), ("nature", "a")]
    # sharp is 0.3 over two videos, clean 0.6 over the one that has it
    life = rows["life", "a"]
    assert (life["videos"], life["static"], life["motion"]) == (2, pytest.approx(0.45), pytest.approx(0.2))
    assert life["mean"] == pytest.approx(0.325)
    assert rows["life", "b"]["mean"] == 0.5
    assert by_name["categories"].cells()[1][3:] == ["50.0", "–", "50.0"]
    without = {name: prompt.model_copy(update={"category": ""}) for name, prompt in prompts.items()}
    assert "categories" not in {table.name for table in correlation_tables(result, SUITE, without)}
