"""A suite's tables held against printed ones: rows, units, ranges, and what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import UserInputError
from tasks.report.suite_published import SuiteAgainst, hold_suite_against, read_suite_published
from tasks.report.table import Column, Table

FORM = """
title = "Mine"
[[tables]]
table = "1"
section = "2"
gives = "{gives}"
columns = {columns}
[tables.rows]
{rows}
"""


def held(folder: Path, ours: Table, columns: list[str], rows: str, **titles: str) -> SuiteAgainst:
    path = folder / "mine.toml"
    path.write_text(FORM.format(gives=ours.name, columns=columns, rows=rows), encoding="utf-8")
    return hold_suite_against(read_suite_published(str(path), ""), [ours], titles)


def table(name: str, keys: list[Column], *rows: dict[str, Any]) -> Table:
    return Table(name, name, tuple(keys), rows)


BOARD = table(
    "leaderboard",
    [Column("model", "model"), Column("sharp", "Sharp", "percent"), Column("rank", "rank", "count")],
    {"model": "Kling 1.0", "sharp": 0.5, "rank": 2},
    {"model": "sora", "sharp": None, "rank": 1},
)


def test_models_are_found_whatever_their_spelling_and_in_the_print_s_unit(tmp_path: Path) -> None:
    rows = '"kling-1.0" = ["55.5", "1"]\nSORA = ["9", "1"]\nNobody = ["1", "3"]'
    found = held(tmp_path, BOARD, ["sharp", "rank"], rows, sharp="Sharpness")
    lines = [(row["row"], row["column"], row["ours"], row["difference"]) for row in found.table.rows]
    assert lines == [
        ("Kling 1.0", "Sharpness", 50.0, -5.5),
        ("Kling 1.0", "rank", 2.0, 1.0),
        ("sora", "rank", 1.0, 0.0),
    ]
    assert found.absent == (
        "table 1, sora, sharp: no value here: not compared",
        "table 1, Nobody: not here: not compared",
    )
    assert found.table.title == "Against Mine"


def test_a_range_is_over_all_models(tmp_path: Path) -> None:
    found = held(tmp_path, BOARD, ["rank"], '"*" = ["1.5 to 3"]')
    assert {row["row"]: row["difference"] for row in found.table.rows} == {"Kling 1.0": 0.0, "sora": -0.5}


def test_rows_of_the_other_tables(tmp_path: Path) -> None:
    spearman = [Column("spearman", "ρ", "number"), Column("difference", "d", "number")]
    aligned = table(
        "alignment", [Column("dimension", "dimension"), *spearman],
        {"dimension": "Sharpness", "spearman": 0.5, "difference": -0.3},
        {"dimension": "Sharpness", "metric": "musiq", "spearman": 0.1},
        {"dimension": "Colour", "spearman": 0.25, "difference": 0.1},
    )  # fmt: skip
    rows = 'sharp = ["0.75", ""]\n"sharp | musiq" = ["0", ""]\n"mean of absolutes" = ["", "0.25"]'
    found = held(tmp_path, aligned, ["spearman", "difference"], rows, sharp="Sharpness")
    assert [row["difference"] for row in found.table.rows] == pytest.approx([-0.25, 0.1, -0.05])
    variants = table(
        "ablations", [Column("variant", "v"), Column("sharp", "Sharp", "number")],
        {"variant": "", "sharp": 0.5}, {"variant": "3-shot", "sharp": 0.25},
    )  # fmt: skip
    found = held(tmp_path, variants, ["sharp", "blunt"], 'suite = ["0.5", ""]\n"3-shot" = ["0.5", "1"]')
    assert {row["row"]: row["difference"] for row in found.table.rows} == {"suite": 0.0, "3-shot": -0.25}
    assert found.absent == ("table 1, blunt: not here: not compared",)
    pairs = table(
        "correlations-groups", [Column("pearson", "r", "number")],
        {"first": "static", "second": "dynamic", "pearson": 0.5},
    )  # fmt: skip
    (row,) = held(tmp_path, pairs, ["pearson"], '"static | dynamic" = ["0.25"]').table.rows
    assert row["difference"] == 0.25


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["rank"], 'a = ["1", "2"]', "table 1, a: 2 values, 1 columns"),
        (["rank"], 'a = ["many"]', "table 1, a: 'many' is not a number"),
        (["rank"], "a = 1", "tables"),
    ],
)
def test_file_that_does_not_fit_ends_it(tmp_path: Path, columns: list[str], rows: str, message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        held(tmp_path, BOARD, columns, rows)


def test_a_suite_without_a_paper_has_no_values(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="has no published values"):
        read_suite_published("paper", "")
    with pytest.raises(UserInputError, match="No such file"):
        read_suite_published(str(tmp_path / "none.toml"), "")
