"""Means, ranks and correlations: the paper's own scores give its own ranks; what failed is missing."""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from storage_schemas.suite_score import SuiteScore
from tasks.report.suite_leaderboard import board_table, write_board
from tasks.report.suite_tables import correlation_figure, correlation_tables
from tasks.scoring.suites.base import Dimension, SuitePrompt
from tasks.scoring.suites.human_ratings import VideoKey
from tasks.scoring.suites.leaderboard import (
    Mean,
    board_of,
    common_prompts,
    current,
    means_of,
    prompts_sent,
    ranks_of,
)

QUALITY, ALIGNMENT = "Video quality", "Video-condition alignment"
NAMES = ("imaging", "aesthetic", "temporal", "motion", "video_text", "object", "color", "action", "scene")
#: Video-Bench, table 1: scores, then the printed ranks by quality, by alignment, overall.
PRINTED = {
    "Gen3": ((4.66, 4.44, 4.74, 3.99, 4.38, 2.81, 2.87, 2.59, 2.93), (1, 2, 1)),
    "CogVideoX": ((3.87, 3.84, 4.14, 3.55, 4.62, 2.81, 2.92, 2.81, 2.93), (3, 1, 2)),
    "VideoCrafter2": ((4.08, 3.85, 3.69, 2.81, 4.18, 2.85, 2.90, 2.53, 2.78), (4, 3, 3)),
    "Kling": ((4.26, 3.82, 4.38, 3.11, 4.07, 2.70, 2.81, 2.50, 2.82), (2, 5, 4)),
    "Show-1": ((3.30, 3.28, 3.90, 2.90, 4.21, 2.82, 2.79, 2.53, 2.72), (5, 4, 5)),
    "LaVie": ((3.00, 2.94, 3.00, 2.43, 3.71, 2.82, 2.81, 2.45, 2.63), (7, 6, 6)),
    "PiKa-Beta": ((3.78, 3.76, 3.40, 2.59, 3.78, 2.51, 2.52, 2.25, 2.60), (6, 7, 7)),
}


def dimension(name: str, group: str = "g", **fields: Any) -> Dimension:
    given = {"name": name, "title": name, "group": group, "low": 0, "high": 5, "source": "table 1"}
    return Dimension.model_validate({**given, "about": "", "behind": "", **fields})


DIMENSIONS = [dimension(name, QUALITY if place < 4 else ALIGNMENT) for place, name in enumerate(NAMES)]


def row(model: str, prompt: str, score: float | None, **more: object) -> SuiteScore:
    given = {"dimension": "imaging", "settings": "s1", "repeat": 0, "sample": 0, "at": "2026-01-01", **more}
    failure = {"failure": more.get("failure", "refused"), "message": "no"} if score is None else {}
    return SuiteScore.model_validate(
        {"key": f"{model}{prompt}{given}", "suite": "x", "model": model, "prompt_id": prompt, "video": "v"}
        | given
        | failure
        | {"score": score}
    )


def test_the_papers_scores_give_the_papers_ranks() -> None:
    means = {
        name: {model: Mean(scores[place], 1) for model, (scores, _) in PRINTED.items()}
        for place, name in enumerate(NAMES)
    }
    board = board_of("Video-Bench", DIMENSIONS, means)
    result = {
        line.model: (line.groups[QUALITY].rank, line.groups[ALIGNMENT].rank, line.overall.rank)
        for line in board.lines
    }
    assert result == {model: ranks for model, (_, ranks) in PRINTED.items()}
    assert [line.model for line in board.lines] == list(PRINTED)
    assert board.lines[0].groups[QUALITY].mean_rank == 1.0
    # equal values share a rank and the next is passed over
    assert ranks_of({"a": 0.1 + 0.2, "b": 0.3, "c": 1.0}) == {"a": 2, "b": 2, "c": 1}
    assert ranks_of({"a": 1.5, "b": 2.0}, least_first=True) == {"a": 1, "b": 2}


def test_what_failed_is_missing_in_a_mean_and_repeats_count_once() -> None:
    rows = [row("a", "p1", 4), row("a", "p1", 2, repeat=1), row("a", "p2", 5), row("a", "p3", None)]
    rows += [row("b", "p1", None)]
    means = means_of(rows)["imaging"]
    interval = means["a"].interval
    assert interval is not None
    # 3 and 5 of two prompts: t with one degree of freedom is 12.7
    assert (interval.low, interval.high) == pytest.approx((4 - 12.706205, 4 + 12.706205))
    assert means == {"a": Mean(4.0, 2, 1, interval), "b": Mean(None, 0, 1)}
    board = board_of("x", DIMENSIONS, {"imaging": means})
    assert [(line.model, line.overall.rank) for line in board.lines] == [("a", 1), ("b", None)]
    both = [*rows, row("b", "p2", 1)]
    assert {one.prompt_id for one in common_prompts(both)} == {"p2"}
    # whose prompts were sent is reported by dimension
    sent = [row("a", "p1", 4, prompts="built-in"), row("b", "p1", 4, prompts="mine, 12ab")]
    sent += [row("a", "p2", 4, prompts="built-in"), row("a", "p1", 1, dimension="scene")]
    assert prompts_sent(sent) == {"imaging": "built-in; mine, 12ab"}


def test_the_newest_score_with_the_newest_settings_counts() -> None:
    rows = [
        row("a", "p1", 1, at="2026-01-01"),
        row("a", "p1", 2, at="2026-01-03", key="other file"),
        row("b", "p1", 5, at="2026-01-02"),
        row("b", "p1", 4, settings="s0", at="2025-01-01"),
        row("b", "p1", None, settings="unknown", at="2027-01-01", failure="prerequisite_missing"),
        # the server was down when a batch with one more model was to be scored
        row("a", "p1", None, at="2027-01-01", key="other batch", failure="prerequisite_missing"),
    ]
    result, others = current(rows)
    assert sorted((one.model, one.score) for one in result) == [("a", 2), ("b", 5)]
    assert others == {"imaging": 2}
    older, _ = current(rows, ["s0"])
    assert [(one.model, one.score) for one in older] == [("b", 4)]


def test_the_board_is_written_in_all_formats(tmp_path: Path) -> None:
    means = {
        "imaging": {"<b>a</b>": Mean(4.254, 3, 1), "b": Mean(3.0, 2)},
        "scene": {"<b>a</b>": Mean(0.5, 3), "b": Mean(None, 0, 3)},
    }
    dimensions = [dimension("imaging", QUALITY), dimension("scene", ALIGNMENT, high=1)]
    wordings = {"imaging": "<i>mine</i>, 12ab", "scene": "built-in"}
    board = board_of("Suite", dimensions, means, {"scene": 2}, wordings)
    page = write_board(board, tmp_path / "out").read_text()
    for told in ("&lt;b&gt;a&lt;/b&gt;", "4.25", "50.0", "1 failed", "older settings of scene"):
        assert told in page
    assert "different numbers of videos" in page
    for foreign in ("<b>a", "<i>mine", "http://", "https://", "src="):
        assert foreign not in page
    with (tmp_path / "out" / "leaderboard.csv").open() as file:
        first = next(csv.DictReader(file))
    assert (first["imaging"], first["scene"], first["rank"]) == ("4.254", "0.5", "1")
    assert (first[f"{QUALITY} rank"], first["imaging_failed"]) == ("1", "1")
    # whose prompts were sent
    assert (first["imaging_prompts"], first["scene_prompts"]) == ("<i>mine</i>, 12ab", "built-in")
    for wording in ("&lt;i&gt;mine&lt;/i&gt;, 12ab: imaging.", "built-in: scene."):
        assert f"Prompts sent to models, {wording}" in page
    assert "built-in: scene." in (tmp_path / "out" / "leaderboard.md").read_text()
    same = board_table(board_of("Suite", dimensions, means, {}, dict.fromkeys(wordings, "built-in")))
    assert "Prompts sent to models: built-in." in same.note
    assert r"\begin{longtable}" in (tmp_path / "out" / "leaderboard.tex").read_text()
    assert "| b | 3.00 | 2 | – | – |" in (tmp_path / "out" / "leaderboard.md").read_text()
    # of nobody or of one
    assert board_table(board_of("Suite", [], {})).empty
    for few in ({}, {"imaging": {"a": Mean(1.0, 1)}}):
        assert write_board(board_of("Suite", DIMENSIONS, few), tmp_path / "few").is_file()
    # nothing is reported of scales that the suite does not have
    assert "in per cent" in page
    assert "in per cent" not in board_table(board_of("Suite", dimensions[:1], means)).note


def test_groups_have_means_as_in_the_table_of_locot2v_bench(tmp_path: Path) -> None:
    # its table 2: VGoT's static quality and text-video alignment, and the mean of all groups
    printed = {"static": (0.8550, 0.9679), "alignment": (0.5495, None), "temporal": (0.7121,)}
    printed |= {"clarity": (0.7979,), "expectation": (0.6374,)}
    dimensions, means = [], {}
    for group, values in printed.items():
        for number, value in enumerate(values):
            dimensions.append(dimension(f"{group} {number}", group, high=1))
            means[f"{group} {number}"] = {"VGoT": Mean(value, 3), "other": Mean(None, 0, 3)}
    board = board_of("LoCoT2V-Bench", dimensions, means)
    best, other = board.lines
    # what is missing is missing in a mean, never zero
    assert best.group_means["static"] == pytest.approx(0.9115, abs=1e-4)
    assert best.group_means["alignment"] == 0.5495
    assert best.mean == pytest.approx(0.7217, abs=1e-4)
    assert set(other.group_means.values()) == {None}
    assert other.mean is None
    page = write_board(board, tmp_path / "out").read_text()
    assert "Static: mean" in page
    assert "72.2" in page
    assert "A group's mean is" in board_table(board).note
    with (tmp_path / "out" / "leaderboard.csv").open() as file:
        first = next(csv.DictReader(file))
    assert float(first["mean"]) == pytest.approx(0.7217, abs=1e-4)
    assert float(first["static mean"]) == pytest.approx(0.91145)
    # dimensions of different scales have no mean in common
    dimensions = [dimension("imaging", QUALITY), dimension("scene", ALIGNMENT, high=3)]
    board = board_of("Video-Bench", dimensions, {one.name: {"a": Mean(2.0, 1)} for one in dimensions})
    assert (board.averaged, board.lines[0].mean) == (False, None)
    assert not [column for column in board_table(board).columns if column.key.endswith("mean")]


def runs(**scores: list[float]) -> dict[str, dict[int, dict[VideoKey, float]]]:
    videos = [VideoKey(model="m", prompt_id=f"p{number}") for number in range(3)]
    return {name: {0: dict(zip(videos, values, strict=True))} for name, values in scores.items()}


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
    prompts = {
        f"p{at}": SuitePrompt(prompt_id=f"p{at}", text="x", category=category)
        for at, category in enumerate(("life", "life", "nature"))
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


def test_the_suites_order_is_kept_and_the_grid_writes_numbers_as_the_table_does() -> None:
    suite = [dimension(name) for name in ("zest", "mild", "absent", "able")]
    result = runs(other=[1, 2, 3], able=[3, 2, 1], zest=[1, 2, 3], mild=[3, 1, 2])
    table, *_ = correlation_tables(result, suite, {})
    pairs = [(row["first"], row["second"]) for row in table.rows]
    assert pairs == list(combinations(("zest", "mild", "able", "other"), 2))
    assert table.cells()[0][5] == "−0.50"
    svg = correlation_figure(table).svg.decode()
    assert ">−0.50<" in svg
    assert ">-0.50<" not in svg
