"""People's ratings from files: what is read, and what is left out with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from tasks.scoring.suites.human_ratings import DUPLICATE, INVALID, UNKNOWN, VideoKey, load_ratings

SCALES = {"color": (1, 3), "motion_effects": (1, 5)}
HEAD = "model,prompt_id,dimension,rater,rating\n"


def test_rows_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(HEAD + "a,p1,color,ann,3\na,p1,color,bob,2\nb,p1,motion_effects,ann,5\n")
    result = load_ratings(path, SCALES)
    assert [(str(row.video), row.dimension, row.rater, row.value) for row in result.rows] == [
        ("a/p1#0", "color", "ann", 3),
        ("a/p1#0", "color", "bob", 2),
        ("b/p1#0", "motion_effects", "ann", 5),
    ]
    assert result.left_out == ()


def test_lists_of_ratings_as_they_are_published(tmp_path: Path) -> None:
    path = tmp_path / "ratings.jsonl"
    rows = [
        {"model": "a", "prompt_id": "p1", "sample": 2, "dimension": "color", "ratings": [3, 0, 2, 3]},
        {"model": "b", "prompt_id": "p1", "dimension": "color", "ratings": {"ann": 1, "bob": "x"}},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    result = load_ratings(path, SCALES)
    first = VideoKey(model="a", prompt_id="p1", sample=2)
    assert [row.value for row in result.rows if row.video == first] == [3, 2, 3]
    # 0 is no rating, and the raters after it keep their places
    assert [row.rater for row in result.rows if row.video == first] == ["1", "3", "4"]
    assert [(one.where, one.reason) for one in result.left_out] == [
        ("line 1", INVALID),
        ("line 2", "malformed_row"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a,p1,color,ann,4", INVALID),
        ("a,p1,color,ann,0", INVALID),
        ("a,p1,colour,ann,3", UNKNOWN),
        ("a,p1,color,ann,2.5", "malformed_row"),
        ("a,p1,color,ann,nan", "malformed_row"),
        ("a,p1,color,ann,", "malformed_row"),
        ("a,p1,color,,3", "malformed_row"),
        ("a,p1,color,eve,3", DUPLICATE),
    ],
)
def test_what_does_not_fit_is_left_out_with_its_line(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(HEAD + "a,p1,color,eve,2\n" + line + "\n")
    result = load_ratings(path, SCALES)
    assert len(result.rows) == 1
    assert [(one.where, one.reason) for one in result.left_out] == [("line 3", reason)]


def test_a_file_without_a_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("model,dimension,rating\na,color,3\n")
    with pytest.raises(UserInputError, match="no column prompt_id, rater"):
        load_ratings(path, SCALES)
    (tmp_path / "r.jsonl").write_text("[1]\n")
    with pytest.raises(UserInputError, match="line 1"):
        load_ratings(tmp_path / "r.jsonl", SCALES)
