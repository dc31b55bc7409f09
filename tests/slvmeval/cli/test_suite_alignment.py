"""`suite alignment` says which ratings it left out: bad lines, and those of videos without a score."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from hashlib import sha256
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


def test_the_page_shows_the_videos_on_which_both_differ_most_with_the_models_reason(
    tmp_path: Path, planted_suite: Path, film_maker: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.create(tmp_path / "store")
    folder, out = tmp_path / "videos", tmp_path / "out"
    folder.mkdir()
    (folder / "one.mp4").write_bytes(film_maker(0).read_bytes())
    manifest = "model,prompt_id,file\na,p0,one.mp4\na,p1,one.mp4\n"
    (folder / "manifest.csv").write_text(manifest)
    (tmp_path / "prompts.csv").write_text("prompt_id,text\np0,A <b>red</b> ball.\np1,A box.\np2,-\n")
    digest = sha256((folder / "one.mp4").read_bytes()).hexdigest()
    entries = [
        {"video": 1, "reason": "Of another.", "score": 2},
        {"video": 2, "reason": "<i>Flat.</i>", "score": 1},
    ]
    steps = [{"step": "few-shot", "model": "m", "answer": {"scores": entries}}]
    first = score(0, 1).model_copy(
        update={"video": digest, "details": json.dumps({"conversation": steps, "video": 2})}
    )
    # the file is another one than was scored; and on the third both agree
    ScoresStore(store).add([first, score(1, 4), score(2, 3)])
    rows = [
        f"a,p{number},beauty,r{rater},{value}"
        for number, value in ((0, 5), (1, 3), (2, 3))
        for rater in (1, 2)
    ]
    (tmp_path / "ratings.csv").write_text("\n".join(["model,prompt_id,dimension,rater,rating", *rows, ""]))
    words = ["suite", "alignment", "--ratings", str(tmp_path / "ratings.csv"), "--out", str(out)]
    words += [
        "--videos",
        str(folder),
        "--prompt-suite",
        str(tmp_path / "prompts.csv"),
        "--store",
        str(store.root),
    ]
    assert main(words) == 0
    assert "a/p1#0: the file is no longer the one that was scored" in " ".join(
        capsys.readouterr().out.split()
    )
    page = (out / "differences.html").read_text()
    (name,) = [path.relative_to(out).as_posix() for path in (out / "videos").iterdir()]
    assert f'<video src="{name}"' in page
    assert page.count("<article") == 2
    assert "&lt;i&gt;Flat.&lt;/i&gt;" in page
    assert "Of another." not in page
    assert "A &lt;b&gt;red&lt;/b&gt; ball." in page
    with (out / "differences.csv").open() as file:
        found = [(row["prompt_id"], row["difference"], row["reason"]) for row in csv.DictReader(file)]
    assert found == [("p0", "-4.0", "<i>Flat.</i>"), ("p1", "1.0", "")]
    # a second run without the videos takes their copies away
    assert main([*words[:6], "--store", str(store.root)]) == 0
    assert not (out / "videos").exists()
