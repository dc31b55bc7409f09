"""`suite alignment` says which ratings it left out: bad lines, and those of videos without a score."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from storage_schemas.suite_score import SuiteScore
from tasks.scoring.suites.score_store import ScoresStore


def score(number: int, value: float | None) -> SuiteScore:
    failed = {"failure": Failure.NO_ANSWER, "message": "it was silent"} if value is None else {}
    return SuiteScore(
        key=f"k{number}",
        suite="planted",
        settings="s",
        dimension="beauty",
        model="a",
        prompt_id=f"p{number}",
        video="v",
        score=value,
        at="2026-01-01",
        **failed,
    )


def test_ratings_of_videos_without_a_score_are_left_out_and_named(
    tmp_path: Path, planted_suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.create(tmp_path / "store")
    ScoresStore(store).add([*(score(number, number + 1) for number in range(3)), score(3, None)])
    given = [f"a,p{number},beauty,{rater},{number + 1}" for number in range(3) for rater in ("r1", "r2")]
    lines = ["a,p3,beauty,r1,4", *(f"a,p{number},beauty,r1,1" for number in range(4, 8))]
    lines += ["a,p4,beauty,r2,1", "a,p0,contest,r1,2"]
    ratings, out = tmp_path / "ratings.csv", tmp_path / "out"
    words = ["suite", "alignment", "--ratings", str(ratings), "--out", str(out), "--store", str(store.root)]

    def run(rows: list[str]) -> tuple[int, list[dict[str, str]]]:
        ratings.write_text("\n".join(["model,prompt_id,dimension,rater,rating", *rows, ""]))
        capsys.readouterr()
        code = main(words)
        with (out / "alignment-left-out.csv").open() as file:
            return code, list(csv.DictReader(file))

    assert run(given) == (0, [])
    code, problems = run([*given, *lines, "a,p0,beauty,r3,0"])
    output = capsys.readouterr().out
    assert code == 3
    assert "beauty: 5 rated videos without a score: a/p3#0, a/p4#0, a/p5#0, …" in " ".join(output.split())
    assert "contest: 1 rated video without a score: a/p0#0" in output
    assert [(row["where"], row["reason"]) for row in problems] == [
        ("line 15", "invalid_rating"),
        *((f"a/p{number}#0 in beauty", "no_score") for number in range(3, 8)),
        ("a/p0#0 in contest", "no_score"),
    ]
    assert "it failed with no_answer: it was silent" in problems[1]["message"]
    assert problems[2]["message"].startswith("2 ratings of a video")
    assert "not scored" in problems[2]["message"]
    with (out / "alignment.csv").open() as file:
        (row,) = csv.DictReader(file)
    # what is left out changes nothing for the others
    assert (row["videos"], row["ratings"], row["spearman"]) == ("3", "6", "1.0")
