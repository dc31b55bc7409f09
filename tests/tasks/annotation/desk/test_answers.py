"""From opening a task to its vote: what must be played and confirmed, and in which order."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.events import EventKind
from tasks.annotation.desk.playback import MAX_SILENCE_S, length
from tasks.annotation.desk.refusals import RefusalReason
from tasks.annotation.publish import _from_file
from tests.tasks.annotation.example_desk import (
    START,
    HandClock,
    Sitting,
    come_in,
    confirm_all,
    do_task,
    example_campaign,
    example_task,
    example_tasks,
    file_vote,
    refuses,
    send_all,
    sit,
    watch_all,
)

PLACES = ("left", "right")


@pytest.fixture
def ann(desk: Desk, clock: HandClock) -> Sitting:
    """A worker's first task in a campaign whose pairs need two votes, after three seconds of each video."""
    campaign = example_campaign(workers_per_pair=2, lease_minutes=60, look_share=0.1)
    desk.organiser.publish(campaign, example_tasks(2))
    return sit(desk, clock)


def alone(desk: Desk, clock: HandClock, after_s: float, **task: object) -> Sitting:
    """A worker to whom the only task of a campaign was sent a while ago."""
    desk.organiser.publish(example_campaign(), [example_task(**task)])
    sitting = sit(desk, clock)
    sitting.send()
    clock.pass_s(after_s)
    return sitting


def test_rate_gives_a_vote_with_the_servers_times(desk: Desk, clock: HandClock, ann: Sitting) -> None:
    clock.pass_s(5)
    watch_all(desk, clock, ann.task)
    ann.prefer("right")
    clock.pass_s(10)
    watch_all(desk, clock, ann.task)
    confirm_all(desk, ann.task)
    clock.pass_s(2)
    vote = ann.rate("B", "the colour \x00 of \ud800 the car\nflickers")
    assert vote.model_dump() == {
        **{"vote_id": ann.task.id, "campaign": "autumn", "release": "first", "version": 1},
        **{"pair_id": ann.task.task.pair_id, "source_id": ann.task.task.source_id, "aspect": "color"},
        **{"worker": ann.task.worker, "platform": "prolific", "origin": "web", "language": "en"},
        **{"gold": False, "control": False, "first": ann.task.first, "rating": "B"},
        "preferred": "high" if ann.task.first == "low" else "low",
        **{"preference_s": 35.0, "total_s": 77.0, "watched_s": 120.0, "pair_duration_s": 60.0},
        "comment": "the colour  of ? the car\nflickers",
        "protocol": "rule strict, 10% of each video first, 2 votes",
        "opened_at": START.isoformat(timespec="microseconds"),
        "at": (START + timedelta(seconds=77)).isoformat(timespec="microseconds"),
    }
    assert desk.votes.read("autumn") == [(1, vote)]
    kinds = [event.kind.value for event in desk.events.read("autumn")][3:]
    assert kinds == ["opened", "preferred", "confirmed", "confirmed", "rated"]
    assert desk.answers.assignment(*ann.who).view()["rating"] == "B"


def test_rate_takes_the_same_answer_again_and_no_other(desk: Desk, clock: HandClock, ann: Sitting) -> None:
    ann.get_ready()
    vote = ann.rate("A", "fine")
    clock.pass_s(99)
    assert ann.rate("A", "fine") == vote
    for rating, comment in (("B", "fine"), ("A", "not fine")):
        refuses(RefusalReason.OTHER_ANSWER, ann.rate, rating, comment)
    assert desk.votes.read("autumn") == [(1, vote)]
    assert ann.prefer("left").state == ann.play("left", (0, 1)).state == "rated"
    refuses(RefusalReason.OTHER_ANSWER, ann.prefer, "right")


def test_the_first_answer_needs_a_look_at_both(clock: HandClock, ann: Sitting) -> None:
    ann.send()
    refuses(RefusalReason.NOT_LOOKED, ann.prefer)
    clock.pass_s(3)
    ann.play("left", (5, 8))
    refuses(RefusalReason.NOT_LOOKED, ann.prefer)
    assert ann.play("right", (0, 1), (20, 22)).view()["can_prefer"]
    refuses(RefusalReason.NO_PREFERENCE, ann.confirm, 0)
    refuses(RefusalReason.NO_PREFERENCE, ann.rate)
    assignment = ann.prefer()
    assert (assignment.state, assignment.preferred) == ("preferred", "left")
    assert ann.prefer() == assignment
    refuses(RefusalReason.OTHER_ANSWER, ann.prefer, "right")


def test_a_video_shorter_than_the_look_has_to_be_played_whole(desk: Desk, clock: HandClock) -> None:
    ann = alone(desk, clock, 8, high_s=5.0, low_s=30.0, first_look=((0, 8),))
    ann.play(ann.task.place_of("low"), (0, 8))
    assert not ann.play(ann.task.place_of("high"), (0, 4.4)).looked()
    assert ann.play(ann.task.place_of("high"), (4.4, 5)).looked()


def test_each_stretch_of_the_first_look_is_played_in_both_videos(desk: Desk, clock: HandClock) -> None:
    ann = alone(desk, clock, 60, first_look=((0, 10), (20, 30)))
    assert ann.task.view()["look"] == {place: [[0.0, 10.0], [20.0, 30.0]] for place in PLACES}
    ann.play("left", (0, 30))
    # what lies between the stretches does not count for them
    assert not ann.play("right", (0, 20), (20, 28.5)).looked()
    refuses(RefusalReason.NOT_LOOKED, ann.prefer)
    assert ann.play("right", (28.5, 29)).view()["can_prefer"]


def test_play_at_normal_speed_takes_its_time(desk: Desk, clock: HandClock) -> None:
    ann = alone(desk, clock, 10)
    seen = ann.play("left", (0, 20)).seen["left"]
    assert seen == ((0.0, 10.0),), "twice the speed is allowed, but was not reported"
    clock.pass_s(5)
    ann.play("left", (0, 20), speed=2.0)
    assert desk.answers.assignment(*ann.who).seen["left"] == ((0.0, 20.0),)
    # a clock that jumps ahead gives ten minutes at most
    desk.organiser.publish(example_campaign(), [example_task("long", high_s=3000.0, low_s=3000.0)])
    bob = sit(desk, clock, "bob")
    bob.send()
    clock.pass_s(86400)
    assert length(bob.play("left", (0, 3000)).seen["left"]) == MAX_SILENCE_S


def test_every_stretch_has_to_be_played_and_confirmed(clock: HandClock, ann: Sitting) -> None:
    ann.send()
    low, high = ann.task.place_of("low"), ann.task.place_of("high")
    clock.pass_s(60)
    ann.play(high, (0, 30))
    ann.play(low, (0, 30))
    ann.prefer(high)
    # what was played before the worker knew what to look for counts no more, and not by being claimed again
    assert ann.play(low, (0, 9), (20, 30)).missing() == (0, 1)
    refuses(RefusalReason.NOT_SEEN, ann.confirm, 0)
    clock.pass_s(18)
    ann.play(low, (0, 9))
    refuses(RefusalReason.NOT_SEEN, ann.confirm, 1)
    refuses(RefusalReason.NOT_SEEN, ann.rate)
    assert ann.confirm(0).missing() == (1,)
    assert not ann.play(low, (20, 28.9)).was_seen(1), "8.9 of 10 seconds"
    assignment = ann.play(low, (20, 29))
    assert assignment.was_seen(1)
    assert assignment.missing() == (1,)
    assert not assignment.view()["can_rate"]
    refuses(RefusalReason.NOT_CONFIRMED, ann.rate)
    for number in (-1, 2):
        refuses(RefusalReason.BAD_VALUE, ann.confirm, number)
    assignment = ann.confirm(1)
    assert assignment.view()["can_rate"]
    assert ann.confirm(1) == assignment
    refuses(RefusalReason.BAD_VALUE, ann.rate, "D")
    assert ann.rate().watched_s == 60.0 + 18.0


def test_play_cuts_and_records_a_claim_of_all_at_once(desk: Desk, clock: HandClock, ann: Sitting) -> None:
    ann.send()
    clock.pass_s(4)
    for place in PLACES:
        seen = ann.play(place, (0, 30), speed=2.0).seen[place]
        assert seen == ((0.0, 8.0),), "four seconds at double speed"
    ann.prefer()
    refuses(RefusalReason.NOT_SEEN, ann.rate)
    events = [event for event in desk.events.read("autumn") if event.worker == ann.task.worker]
    cuts = [event.detail for event in events if event.kind is EventKind.CLAIM_CUT]
    told = [(cut["place"], cut["cut_time_s"], cut["cut_bytes_s"]) for cut in cuts]
    assert told == [("left", 22.0, 0.0), ("right", 22.0, 0.0)]
    assert events[-1].detail == {"reason": "not_seen"}


def test_play_counts_only_what_was_sent(desk: Desk, clock: HandClock) -> None:
    index = ((0.0, 8192), (15.0, 131072))
    desk.organiser.publish(example_campaign(), [example_task(high_index=index, low_index=index)])
    ann = sit(desk, clock)
    clock.pass_s(100)
    assert ann.play("left", (0, 30)).seen["left"] == ()
    for first, last, end in ((0, 131_071, 15.0), (0, 131_071, 15.0), (131_072, 299_999, 30.0)):
        desk.viewing.serve("autumn", ann.task.id, "left", first, last)
        assert ann.play("left", (0, 30)).seen == {"left": ((0.0, end),), "right": ()}


def test_desk_refuses_values_that_no_page_sends(desk: Desk, clock: HandClock, ann: Sitting) -> None:
    refuses(RefusalReason.BAD_VALUE, ann.play, "middle", (0, 1))
    refuses(RefusalReason.BAD_VALUE, ann.prefer, "")
    for first, last in ((-1, 5), (7, 6)):
        refuses(RefusalReason.BAD_VALUE, desk.viewing.serve, "autumn", ann.task.id, "left", first, last)
    ann.send()
    clock.pass_s(100)
    for speed in (2.001, 16.0, 0.0, -1.0, math.nan, math.inf):
        assert ann.play("left", (0, 30), speed=speed).seen["left"] == (), "played too fast"
    assert ann.play("left", (0, 30), speed=2.0).seen["left"] == ((0.0, 30.0),)


def test_another_workers_task_is_not_there(desk: Desk, ann: Sitting) -> None:
    bob, unknown = come_in(desk, "bob"), RefusalReason.UNKNOWN_ASSIGNMENT
    for id_ in (ann.task.id, "0" * 32, "", "\x00", ann.task.id.upper() + "A"):
        refuses(unknown, desk.answers.assignment, "autumn", bob, id_)
        refuses(unknown, desk.viewing.play, "autumn", bob, id_, "left", [(0, 1)], 1.0)
        refuses(unknown, desk.answers.rate, "autumn", bob, id_, "A")
    refuses(unknown, desk.viewing.serve, "autumn", "f" * 32, "left", 0, 1)


@pytest.mark.parametrize("others", [0, 1])
def test_rate_takes_a_late_answer_for_a_place(
    desk: Desk, clock: HandClock, ann: Sitting, others: int
) -> None:
    ann.get_ready()
    clock.pass_s(3 * 3600)
    done = [do_task(desk, clock, come_in(desk, "bob")).pair_id for _ in range(2 * others)]
    assert (ann.task.task.pair_id in done) == bool(others)
    assert ann.rate().pair_id == ann.task.task.pair_id


def test_rate_counts_a_late_answer_over_the_number_once(desk: Desk, clock: HandClock, ann: Sitting) -> None:
    ann.get_ready()
    clock.pass_s(3 * 3600)
    for name in ("bob", "carol"):
        worker = come_in(desk, name)
        assert ann.task.task.pair_id in {do_task(desk, clock, worker).pair_id for _ in range(2)}
    for _ in range(2):
        refuses(RefusalReason.EXPIRED, ann.rate)
    refuses(RefusalReason.EXPIRED, ann.play, "left", (0, 1))
    (row,) = [row for row in desk.organiser.workers("autumn") if row.worker == ann.task.worker]
    assert (row.votes, row.refused_late) == (0, 1)
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", ann.task.worker)


def test_an_answer_that_came_in_a_file_closes_the_task(desk: Desk, ann: Sitting) -> None:
    ann.get_ready()
    vote = file_vote(ann.task.task, ann.task.worker, desk.campaigns.get("autumn"), rating="B")
    assert desk.votes.add("autumn", [vote]).accepted == 1
    refuses(RefusalReason.EXPIRED, ann.rate)
    assert [vote.rating for _, vote in desk.votes.read("autumn")] == ["B"]
    assert desk.queue.next("autumn", ann.task.worker).task != ann.task.task


def test_a_clock_that_jumps_gives_no_time_and_takes_none(clock: HandClock, ann: Sitting) -> None:
    ann.send()
    for passed, end in ((2, 2.0), (-7200, 2.0), (1, 3.0), (-7200, 3.0)):
        clock.pass_s(passed)
        assert ann.play("left", (0, 30)).seen["left"] == ((0.0, end),)
    ann.get_ready()
    assert ann.rate().total_s == 0.0, "never below zero"


def test_paper_protocol_asks_for_nothing_before_the_preference(desk: Desk, clock: HandClock) -> None:
    paper = {"rule": "paper", "viewing": "free", "workers_per_pair": 5, "least_seen": 0.01}
    campaign = example_campaign(**paper)
    desk.organiser.publish(campaign, [example_task()])
    sitting = sit(desk, clock)
    view = desk.answers.assignment(campaign.name, sitting.task.worker, sitting.task.id).view()
    # nothing is marked, and an answer is possible at once
    assert (view["look"], view["look_share"], view["can_prefer"]) == ({"left": [], "right": []}, None, True)
    sitting.prefer("left")
    assert campaign.protocol == "paper"


@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        ({}, "rule strict, marked viewing, 3 to 7 votes"),
        ({"until_certain": False}, "rule strict, marked viewing, 5 votes"),
        ({"rule": "paper"}, "rule paper, marked viewing, 5 votes"),
        ({"rule": "paper", "look_share": 0.5}, "rule paper, 50% of each video first, 5 votes"),
        ({"rule": "paper", "viewing": "free", "workers_per_pair": 3}, "rule paper, free viewing, 3 votes"),
        # more of each part than the paper asks for
        ({"rule": "paper", "viewing": "free"}, "rule paper, free viewing, 5 votes"),
        ({"rule": "paper", "viewing": "free", "least_seen": 0.01}, "paper"),
        ({"viewing": "drawn"}, "rule strict, drawn viewing, 3 to 7 votes"),
    ],
)
def test_votes_say_under_which_protocol_they_were_given(settings: dict[str, object], protocol: str) -> None:
    campaign = Campaign(name="one", release="main", version=1, **settings)
    assert campaign.protocol == protocol


@pytest.mark.parametrize("viewing", ["free", "drawn"])
def test_free_viewing_asks_for_no_share(viewing: str) -> None:
    with pytest.raises(ValidationError, match=f"{viewing} viewing asks for no share"):
        Campaign.model_validate(
            {"name": "one", "release": "main", "version": 1, "viewing": viewing, "look_share": 0.5}
        )


def test_drawn_viewing_is_one_way_for_each_worker(desk: Desk, clock: HandClock) -> None:
    campaign = example_campaign(viewing="drawn")
    ways = Counter(campaign.shown_to(f"worker{number}").protocol for number in range(300))
    assert set(ways) == {
        "rule strict, marked viewing, 5 votes",
        "rule strict, free viewing, 5 votes",
        "rule strict, free viewing, the playhead in each part, 5 votes",
    }
    assert min(ways.values()) > 70
    desk.organiser.publish(campaign, [example_task()])
    seen = set()
    for number in range(5):
        worker = come_in(desk, f"worker {number}", campaign.name)
        way = campaign.shown_to(worker)
        view = desk.queue.next(campaign.name, worker).view()
        # nothing on the page but what has to be watched tells the ways apart
        assert (view["look_share"], view["least_seen"]) == (way.look_first, way.least_seen)
        seen.add((view["look_share"], view["least_seen"]))
        assert campaign.shown_to(worker) == way
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("recipe", "told", "protocol"),
    [
        ("paper", "", "paper"),
        ("paper-prompts", "", "paper"),
        ("paper", 'rule = "strict"', "rule strict, marked viewing, 3 to 7 votes"),
        ("paper", "look_share = 0.5", "rule strict, 50% of each video first, 3 to 7 votes"),
        ("cpu-approx", "", "rule strict, marked viewing, 3 to 7 votes"),
    ],
)
def test_campaign_takes_the_recipes_protocol(recipe: str, told: str, protocol: str, tmp_path: Path) -> None:
    settings = tmp_path / "campaign.toml"
    settings.write_text(told, encoding="utf-8")
    release: Any = SimpleNamespace(name="main", version=1, recipe={"name": recipe}, path=tmp_path)
    assert _from_file(settings, release, "one").protocol == protocol


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    story=st.lists(
        st.tuples(st.floats(-20, 20), st.sampled_from(PLACES), st.floats(0, 30), st.floats(0, 30)), max_size=6
    )
)
def test_play_sees_no_more_than_time_went_by(
    desk: Desk, clock: HandClock, story: list[tuple[float, str, float, float]]
) -> None:
    campaign = example_campaign(f"story-{len(desk.campaigns.all())}")
    desk.organiser.publish(campaign, [example_task()])
    worker = come_in(desk, "ann", campaign.name)
    assignment = desk.queue.next(campaign.name, worker)
    send_all(desk, assignment)
    forward = 0.0
    for passed, place, start, end in story:
        clock.pass_s(passed)
        forward += max(passed, 0.0)
        assignment = desk.viewing.play(campaign.name, worker, assignment.id, place, [(start, end)], 1.0)
        for seen in assignment.seen.values():
            assert length(seen) <= 2.0 * forward + 1e-3
