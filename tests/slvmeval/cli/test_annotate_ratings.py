"""A campaign of ratings from the command line: publish, rate, check, collect."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.ratings import Verdict
from tasks.annotation.installation import database_url, installation_key
from tasks.scoring.suites.human_ratings import load_ratings
from tests.slvmeval.cli.running import Run
from tests.tasks.annotation.example_desk import HandClock, come_in
from tests.tasks.annotation.example_ratings import next_task, watch

DIMENSION = "imaging_quality"


@pytest.fixture
def videos(tmp_path: Path, film_maker: Callable[[int], Path]) -> list[str]:
    """Write two videos with their manifest and prompts; return the options that name them."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.mp4").write_bytes(film_maker(number).read_bytes())
    (folder / "manifest.csv").write_text("model,prompt_id,file\na,p0,0.mp4\na,p1,1.mp4\n")
    (tmp_path / "prompts.csv").write_text("prompt_id,text\np0,A ball.\np1,A box.\n")
    return ["--videos", str(folder), "--prompt-suite", str(tmp_path / "prompts.csv")]


def test_people_rate_and_the_file_is_one_for_alignment(tmp_path: Path, videos: list[str], run: Run) -> None:
    root = tmp_path / "store"
    (tmp_path / "settings.toml").write_text('name = "rated"\nworkers_per_pair = 2\npay_per_task = 0.25\n')
    at = ("--store", root)
    publish = ("annotate", "publish-ratings", "video-bench", *videos, "--dimension", DIMENSION, *at)
    output = run(*publish, "--settings", tmp_path / "settings.toml", "--quiet").text
    assert "shows 2 videos in dimensions of video-bench: 2 tasks, 2 of them new, 2 ratings each" in output
    assert "all ratings cost 1.00 USD" in output

    clock = HandClock()
    with Desk.open(database_url(root), installation_key(root), clock) as desk:
        raters = [come_in(desk, name, "rated") for name in ("ann", "bob")]
        for rater in raters * 2:
            task = next_task(desk, rater)
            watch(desk, clock, task, task.task.seconds)
            desk.answers.rate("rated", rater, task.id, 2 if task.task.prompt_id == "p0" else 5)
        ratings = [one.given for one in desk.ratings.read("rated")]
        confirmed = [(one.vote_id, one.rating) for one in ratings[:3]]
        desk.ratings.check("rated", confirmed, Verdict.CONFIRMED, "", "Anna")

    status = run("annotate", "status", "rated", *at).out
    assert "1 ratings not confirmed, 0 sent back" in status
    (state,) = run("annotate", "status", *at, "--format", "json").json
    assert (state["total"]["votes"], state["unchecked"]) == (4, 1)
    rows = list(csv.DictReader(run("annotate", "payments", "rated", *at).out.splitlines()))
    assert [(row["answers"], row["pay"]) for row in rows] == [("2", "0.50")] * 2
    refusal = run("annotate", "export", "rated", "--out", tmp_path / "x.csv", *at, code=1).err
    assert "rates single videos" in refusal
    (collected,) = run("annotate", "collect", "rated", *at, "--format", "json", code=3).json
    assert (collected["ratings"], collected["left_out"]) == (3, 1)
    assert len(load_ratings(Path(collected["path"]), {DIMENSION: (1, 5)}).rows) == 3


def test_what_cannot_be_rated_is_reported(tmp_path: Path, videos: list[str], run: Run) -> None:
    for words, message in (
        (("publish-ratings", "video-bench", "--dimension", "beauty", *videos), "has no dimension 'beauty'"),
        (("publish-ratings", "nothing", *videos), "nothing"),
        # a release and prompts are not translated at once
        (("translate", "main", *videos[2:]), "RELEASE: not with --prompt-suite"),
    ):
        refusal = run("annotate", *words, "--store", tmp_path / "store", code=(1, 2))
        assert message in refusal.error
