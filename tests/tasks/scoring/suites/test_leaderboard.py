"""Means and ranks: the paper's own scores give the paper's own ranks; what failed is missing, never zero."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from storage_schemas.suite_score import SuiteScore
from tasks.report.suite_leaderboard import board_table, write_board
from tasks.scoring.suites.base import Dimension
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


def dimension(name: str, group: str, high: float = 5) -> Dimension:
    return Dimension(
        name=name, title=name, group=group, low=0, high=high, about="", behind="", source="table 1"
    )


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


def test_equal_values_share_a_rank_and_the_next_is_passed_over() -> None:
    assert ranks_of({"a": 0.1 + 0.2, "b": 0.3, "c": 1.0}) == {"a": 2, "b": 2, "c": 1}
    assert ranks_of({"a": 1.5, "b": 2.0}, least_first=True) == {"a": 1, "b": 2}


def test_whose_prompts_were_sent_is_said_by_dimension() -> None:
    rows = [row("a", "p1", 4, prompts="built-in"), row("b", "p1", 4, prompts="mine, 12ab")]
    rows += [row("a", "p2", 4, prompts="built-in"), row("a", "p1", 1, dimension="scene")]
    assert prompts_sent(rows) == {"imaging": "built-in; mine, 12ab"}


def test_what_failed_is_missing_in_a_mean_and_repeats_count_once() -> None:
    rows = [row("a", "p1", 4), row("a", "p1", 2, repeat=1), row("a", "p2", 5), row("a", "p3", None)]
    rows += [row("b", "p1", None)]
    means = means_of(rows)["imaging"]
    assert means == {"a": Mean(4.0, 2, 1), "b": Mean(None, 0, 1)}
    board = board_of("x", DIMENSIONS, {"imaging": means})
    assert [(line.model, line.overall.rank) for line in board.lines] == [("a", 1), ("b", None)]
    both = [*rows, row("b", "p2", 1)]
    assert {one.prompt_id for one in common_prompts(both)} == {"p2"}


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
    assert "&lt;b&gt;a&lt;/b&gt;" in page
    assert "<b>a" not in page
    assert "4.25" in page
    assert "50.0" in page
    assert "1 failed" in page
    assert "older settings of scene" in page
    assert "different numbers of videos" in page
    for foreign in ("http://", "https://", "src="):
        assert foreign not in page
    with (tmp_path / "out" / "leaderboard.csv").open() as file:
        first = next(csv.DictReader(file))
    assert (first["imaging"], first["scene"], first["rank"]) == ("4.254", "0.5", "1")
    assert (first[f"{QUALITY} rank"], first["imaging_failed"]) == ("1", "1")
    # whose prompts were sent
    assert (first["imaging_prompts"], first["scene_prompts"]) == ("<i>mine</i>, 12ab", "built-in")
    assert "<i>mine" not in page
    for wording in ("&lt;i&gt;mine&lt;/i&gt;, 12ab: imaging.", "built-in: scene."):
        assert f"Prompts sent to models, {wording}" in page
    assert "built-in: scene." in (tmp_path / "out" / "leaderboard.md").read_text()
    same = board_table(board_of("Suite", dimensions, means, {}, dict.fromkeys(wordings, "built-in")))
    assert "Prompts sent to models: built-in." in same.note
    assert r"\begin{longtable}" in (tmp_path / "out" / "leaderboard.tex").read_text()
    assert "| b | 3.00 | 2 | – | – |" in (tmp_path / "out" / "leaderboard.md").read_text()
    assert board_table(board_of("Suite", [], {})).empty
    # nothing is said of scales that the suite does not have
    assert "in per cent" in page
    assert "in per cent" not in board_table(board_of("Suite", dimensions[:1], means)).note


@pytest.mark.parametrize("models", [0, 1])
def test_a_board_of_nobody_or_of_one(models: int, tmp_path: Path) -> None:
    means = {"imaging": {"a": Mean(1.0, 1)}} if models else {}
    assert write_board(board_of("Suite", DIMENSIONS, means), tmp_path / "out").is_file()


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


def test_dimensions_of_different_scales_have_no_mean_in_common() -> None:
    dimensions = [dimension("imaging", QUALITY), dimension("scene", ALIGNMENT, high=3)]
    board = board_of("Video-Bench", dimensions, {one.name: {"a": Mean(2.0, 1)} for one in dimensions})
    assert not board.averaged
    assert board.lines[0].mean is None
    assert not [column for column in board_table(board).columns if column.key.endswith("mean")]
