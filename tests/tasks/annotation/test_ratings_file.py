"""The file of ratings that `suite alignment` reads, and what is left out of it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from storage_schemas.store import Store
from storage_schemas.votes import Standing
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.ratings import Verdict
from tasks.annotation.rating_task import VideoRating
from tasks.annotation.ratings_file import collect_ratings
from tasks.scoring.suites.human_ratings import load_ratings
from tests.tasks.annotation.example_desk import HandClock, come_in, open_desk
from tests.tasks.annotation.example_ratings import rate, rating_task, ratings_campaign

Rated = tuple[Store, Desk, HandClock, list[str]]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Rated]:
    """A campaign of two videos with two raters, each of whom has rated both."""
    clock = HandClock()
    with open_desk(tmp_path, clock) as desk:
        campaign = ratings_campaign(workers_per_pair=2, drop_excluded=True)
        desk.organiser.publish(campaign, [rating_task(0), rating_task(1, model="=cmd")])
        raters = [come_in(desk, name, "rated") for name in ("ann", "bob")]
        for number in range(2):
            for place, rater in enumerate(raters):
                rate(desk, clock, rater, 1 + number + 2 * place)
        yield Store.create(tmp_path / "store"), desk, clock, raters


def check(desk: Desk, given: Sequence[VideoRating], verdict: Verdict = Verdict.CONFIRMED) -> None:
    note = "No." if verdict is Verdict.SENT_BACK else ""
    desk.ratings.check("rated", [(one.vote_id, one.rating) for one in given], verdict, note, "Anna")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_confirmed_ratings_go_into_the_file_that_alignment_reads(made: Rated) -> None:
    store, desk, clock, _ = made
    ratings = [one.given for one in desk.ratings.read("rated")]
    nothing = collect_ratings(store, desk, "rated")
    assert (nothing.ratings, nothing.left_out, nothing.complete) == (0, 4, False)
    assert {row["reason"] for row in rows(nothing.left_out_path)} == {"not_checked"}
    check(desk, ratings[:3])
    check(desk, ratings[3:], Verdict.SENT_BACK)
    done = collect_ratings(store, desk, "rated")
    assert (done.ratings, done.left_out, done.tasks, done.done) == (3, 1, 2, 1)
    read = load_ratings(done.path, {"look": (1, 5)})
    assert read.left_out == ()
    assert sorted((one.video.prompt_id, one.rater, one.value) for one in read.rows) == sorted(
        (one.prompt_id, "rater-1" if one.worker == ratings[0].worker else "rater-2", one.rating)
        for one in ratings[:3]
    )
    (left,) = rows(done.left_out_path)
    assert (left["reason"], left["message"]) == ("sent_back", "Anna sent it back: No.")
    text = done.path.read_text() + done.left_out_path.read_text()
    assert not any(one.worker in text for one in ratings), "nothing identifies a rater"
    # a rating that was sent back waits until somebody else rates, if the rater does not come back for it
    assert (done.waiting, done.complete) == (1, False)
    clock.pass_s(48 * 3600)
    rate(desk, clock, come_in(desk, "cem", "rated"), 4)
    check(desk, [one.given for one in desk.ratings.read("rated") if not one.confirmed])
    after = collect_ratings(store, desk, "rated")
    assert (after.ratings, after.left_out, after.waiting, after.complete) == (4, 1, 0, True)


def test_ratings_of_an_excluded_rater_are_left_out_if_the_campaign_drops_them(made: Rated) -> None:
    store, desk, _, raters = made
    desk.organiser.decide("rated", raters[0], Standing.EXCLUDED, "all the same", "Anna")
    # checks are off: all others are used
    desk.organiser.publish(
        ratings_campaign(workers_per_pair=2, drop_excluded=True, check_ratings=False),
        desk.campaigns.rating_tasks("rated"),
    )
    done = collect_ratings(store, desk, "rated")
    assert (done.ratings, done.left_out) == (2, 2)
    assert {row["reason"] for row in rows(done.left_out_path)} == {"rater_excluded"}
