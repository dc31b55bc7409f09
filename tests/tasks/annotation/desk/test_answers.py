"""From opening a task to its vote: what must be played and confirmed, and in which order."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.annotation.desk.assignments import Assignment
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.events import EventKind
from tasks.annotation.desk.playback import MAX_SILENCE_S, length
from tasks.annotation.desk.refusals import RefusalReason
from tests.tasks.annotation.example_desk import (
    START,
    HandClock,
    come_in,
    confirm_all,
    do_task,
    example_campaign,
    example_task,
    example_tasks,
    file_vote,
    ready_to_rate,
    refused,
    send_all,
    watch_all,
)

PLACES = ("left", "right")


@pytest.fixture
def opened(desk: Desk) -> Assignment:
    """A worker's first task in a campaign whose pairs need two votes, after three seconds of each video."""
    campaign = example_campaign(workers_per_pair=2, lease_minutes=60, look_share=0.1)
    desk.organiser.publish(campaign, example_tasks(2))
    return desk.queue.next("autumn", come_in(desk, "ann"))


def play(
    desk: Desk, assignment: Assignment, place: str, *parts: tuple[float, float], speed: float = 1.0
) -> Assignment:
    return desk.viewing.play("autumn", assignment.worker, assignment.id, place, parts, speed)


def test_a_whole_task_gives_one_vote_with_the_servers_times(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    clock.pass_s(5)
    assignment = watch_all(desk, clock, opened)
    assignment = desk.answers.prefer("autumn", assignment.worker, assignment.id, "right")
    clock.pass_s(10)
    confirm_all(desk, assignment)
    clock.pass_s(2)
    vote = desk.answers.rate(
        "autumn", assignment.worker, assignment.id, "B", "the colour \x00 of \ud800 the car\nflickers"
    )
    low_left = assignment.first == "low"
    assert vote.model_dump() == {
        "vote_id": assignment.id,
        "campaign": "autumn",
        "release": "first",
        "version": 1,
        "pair_id": assignment.task.pair_id,
        "source_id": assignment.task.source_id,
        "aspect": "color",
        "worker": assignment.worker,
        "platform": "prolific",
        "origin": "web",
        "language": "en",
        "gold": False,
        "first": assignment.first,
        "preferred": "high" if low_left else "low",
        "rating": "B",
        "preference_s": 35.0,
        "total_s": 47.0,
        "watched_s": 60.0,
        "pair_duration_s": 60.0,
        "comment": "the colour  of ? the car\nflickers",
        "opened_at": (START).isoformat(timespec="microseconds"),
        "at": (START + timedelta(seconds=47)).isoformat(timespec="microseconds"),
    }
    assert desk.votes.read("autumn") == [(1, vote)]
    kinds = [event.kind.value for event in desk.events.read("autumn")][3:]
    assert kinds == ["opened", "preferred", "confirmed", "confirmed", "rated"]
    assert desk.answers.assignment("autumn", assignment.worker, assignment.id).view()["rating"] == "B"


def test_the_same_answer_again_is_the_same_vote_and_another_is_refused(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    assignment = ready_to_rate(desk, clock, opened)
    vote = desk.answers.rate("autumn", assignment.worker, assignment.id, "A", "fine")
    clock.pass_s(99)
    assert desk.answers.rate("autumn", assignment.worker, assignment.id, "A", "fine") == vote
    for rating, comment in (("B", "fine"), ("A", "not fine")):
        with refused(RefusalReason.OTHER_ANSWER):
            desk.answers.rate("autumn", assignment.worker, assignment.id, rating, comment)
    assert desk.votes.read("autumn") == [(1, vote)]
    assert desk.answers.prefer("autumn", assignment.worker, assignment.id, "left").state == "rated"
    with refused(RefusalReason.OTHER_ANSWER):
        desk.answers.prefer("autumn", assignment.worker, assignment.id, "right")
    assert play(desk, assignment, "left", (0, 1)).state == "rated"


def test_the_first_answer_needs_a_look_at_both(desk: Desk, clock: HandClock, opened: Assignment) -> None:
    send_all(desk, opened)
    with refused(RefusalReason.NOT_LOOKED):
        desk.answers.prefer("autumn", opened.worker, opened.id, "left")
    clock.pass_s(3)
    play(desk, opened, "left", (5, 8))
    with refused(RefusalReason.NOT_LOOKED):
        desk.answers.prefer("autumn", opened.worker, opened.id, "left")
    assert play(desk, opened, "right", (0, 1), (20, 22)).view()["can_prefer"]
    assignment = desk.answers.prefer("autumn", opened.worker, opened.id, "left")
    assert (assignment.state, assignment.preferred) == ("preferred", "left")
    assert desk.answers.prefer("autumn", opened.worker, opened.id, "left") == assignment
    with refused(RefusalReason.OTHER_ANSWER):
        desk.answers.prefer("autumn", opened.worker, opened.id, "right")


def test_a_video_shorter_than_the_look_has_to_be_played_whole(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), [example_task(high_s=5.0, low_s=30.0, first_look=((0, 8),))])
    assignment = desk.queue.next("autumn", come_in(desk, "ann"))
    send_all(desk, assignment)
    clock.pass_s(8)
    play(desk, assignment, assignment.place_of("low"), (0, 8))
    assert not play(desk, assignment, assignment.place_of("high"), (0, 4.4)).looked()
    assert play(desk, assignment, assignment.place_of("high"), (4.4, 5)).looked()


def test_each_stretch_of_the_first_look_is_played_in_both_videos(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), [example_task(first_look=((0, 10), (20, 30)))])
    assignment = desk.queue.next("autumn", come_in(desk, "ann"))
    assert assignment.view()["look"] == {place: [[0.0, 10.0], [20.0, 30.0]] for place in PLACES}
    send_all(desk, assignment)
    clock.pass_s(60)
    play(desk, assignment, "left", (0, 30))
    # what lies between the stretches does not count for them
    assert not play(desk, assignment, "right", (0, 20), (20, 28.5)).looked()
    with refused(RefusalReason.NOT_LOOKED):
        desk.answers.prefer("autumn", assignment.worker, assignment.id, "left")
    assert play(desk, assignment, "right", (28.5, 29)).view()["can_prefer"]


def test_what_is_played_at_normal_speed_takes_its_time(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), [example_task(first_look=((0, 20),))])
    assignment = desk.queue.next("autumn", come_in(desk, "ann"))
    send_all(desk, assignment)
    clock.pass_s(10)
    (seen,) = play(desk, assignment, "left", (0, 20)).seen["left"]
    assert seen == (0.0, 10.0), "twice the speed is allowed, but was not reported"
    clock.pass_s(5)
    desk.viewing.play("autumn", assignment.worker, assignment.id, "left", [(0, 20)], 2.0)
    (seen,) = desk.answers.assignment("autumn", assignment.worker, assignment.id).seen["left"]
    assert seen == (0.0, 20.0)


def test_rating_and_confirming_come_after_the_preference(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    watch_all(desk, clock, opened)
    with refused(RefusalReason.NO_PREFERENCE):
        desk.answers.confirm("autumn", opened.worker, opened.id, 0)
    with refused(RefusalReason.NO_PREFERENCE):
        desk.answers.rate("autumn", opened.worker, opened.id, "A")


def test_every_stretch_has_to_be_played_and_confirmed(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    send_all(desk, opened)
    low, high = opened.place_of("low"), opened.place_of("high")
    clock.pass_s(60)
    play(desk, opened, high, (0, 30))
    play(desk, opened, low, (0, 9))
    desk.answers.prefer("autumn", opened.worker, opened.id, high)
    with refused(RefusalReason.NOT_SEEN):
        desk.answers.confirm("autumn", opened.worker, opened.id, 1)
    with refused(RefusalReason.NOT_SEEN):
        desk.answers.rate("autumn", opened.worker, opened.id, "A")
    assert desk.answers.confirm("autumn", opened.worker, opened.id, 0).missing() == (1,)
    assignment = play(desk, opened, low, (20, 28.9))
    assert not assignment.was_seen(1), "8.9 of 10 seconds"
    assignment = play(desk, opened, low, (20, 29))
    assert assignment.was_seen(1)
    assert assignment.missing() == (1,)
    assert not assignment.view()["can_rate"]
    with refused(RefusalReason.NOT_CONFIRMED):
        desk.answers.rate("autumn", opened.worker, opened.id, "A")
    for number in (-1, 2):
        with refused(RefusalReason.BAD_VALUE):
            desk.answers.confirm("autumn", opened.worker, opened.id, number)
    assignment = desk.answers.confirm("autumn", opened.worker, opened.id, 1)
    assert assignment.view()["can_rate"]
    assert desk.answers.confirm("autumn", opened.worker, opened.id, 1) == assignment
    with refused(RefusalReason.BAD_VALUE):
        desk.answers.rate("autumn", opened.worker, opened.id, "D")
    assert desk.answers.rate("autumn", opened.worker, opened.id, "A").watched_s == 48.0


def test_a_cheat_who_claims_all_at_once_is_cut_and_put_on_record(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    send_all(desk, opened)
    clock.pass_s(4)
    for place in PLACES:
        assignment = play(desk, opened, place, (0, 30), speed=2.0)
        assert assignment.seen[place] == ((0.0, 8.0),), "four seconds at double speed"
    desk.answers.prefer("autumn", opened.worker, opened.id, "left")
    with refused(RefusalReason.NOT_SEEN):
        desk.answers.rate("autumn", opened.worker, opened.id, "A")
    events = [event for event in desk.events.read("autumn") if event.worker == opened.worker]
    cuts = [event.detail for event in events if event.kind is EventKind.CLAIM_CUT]
    assert [(cut["place"], cut["cut_time_s"], cut["cut_bytes_s"]) for cut in cuts] == [
        ("left", 22.0, 0.0),
        ("right", 22.0, 0.0),
    ]
    assert events[-1].detail == {"reason": "not_seen"}


def test_what_was_not_sent_was_not_seen(desk: Desk, clock: HandClock) -> None:
    index = {"high_index": ((0.0, 8192), (15.0, 131072)), "low_index": ((0.0, 8192), (15.0, 131072))}
    desk.organiser.publish(example_campaign(), [example_task(**index)])
    assignment = desk.queue.next("autumn", come_in(desk, "ann"))
    clock.pass_s(100)
    assert play(desk, assignment, "left", (0, 30)).seen["left"] == ()
    desk.viewing.serve("autumn", assignment.id, "left", 0, 131071)
    desk.viewing.serve("autumn", assignment.id, "left", 0, 131071)
    assert play(desk, assignment, "left", (0, 30)).seen == {"left": ((0.0, 15.0),), "right": ()}
    desk.viewing.serve("autumn", assignment.id, "left", 131072, 299_999)
    assert play(desk, assignment, "left", (0, 30)).seen == {"left": ((0.0, 30.0),), "right": ()}


@pytest.mark.parametrize("speed", [2.001, 16.0, 0.0, -1.0, math.nan, math.inf])
def test_what_is_played_too_fast_counts_for_nothing(
    desk: Desk, clock: HandClock, opened: Assignment, speed: float
) -> None:
    send_all(desk, opened)
    clock.pass_s(100)
    assert play(desk, opened, "left", (0, 30), speed=speed).seen["left"] == ()
    assert play(desk, opened, "left", (0, 30), speed=2.0).seen["left"] == ((0.0, 30.0),)


def test_values_of_no_page_are_refused(desk: Desk, opened: Assignment) -> None:
    with refused(RefusalReason.BAD_VALUE):
        play(desk, opened, "middle", (0, 1))
    with refused(RefusalReason.BAD_VALUE):
        desk.answers.prefer("autumn", opened.worker, opened.id, "")
    for first, last in ((-1, 5), (7, 6)):
        with refused(RefusalReason.BAD_VALUE):
            desk.viewing.serve("autumn", opened.id, "left", first, last)


def test_another_workers_task_is_not_there(desk: Desk, opened: Assignment) -> None:
    bob = come_in(desk, "bob")
    for id_ in (opened.id, "0" * 32, "", "\x00", opened.id.upper() + "A"):
        with refused(RefusalReason.UNKNOWN_ASSIGNMENT):
            desk.answers.assignment("autumn", bob, id_)
        with refused(RefusalReason.UNKNOWN_ASSIGNMENT):
            desk.viewing.play("autumn", bob, id_, "left", [(0, 1)], 1.0)
        with refused(RefusalReason.UNKNOWN_ASSIGNMENT):
            desk.answers.rate("autumn", bob, id_, "A")
    with refused(RefusalReason.UNKNOWN_ASSIGNMENT):
        desk.viewing.serve("autumn", "f" * 32, "left", 0, 1)


def test_a_late_answer_is_taken_where_nobody_else_got_the_pair(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    assignment = ready_to_rate(desk, clock, opened)
    clock.pass_s(3 * 3600)
    assert desk.answers.rate("autumn", assignment.worker, assignment.id, "A").rating == "A"


def test_a_late_answer_is_taken_where_the_pair_still_has_a_place(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    assignment = ready_to_rate(desk, clock, opened)
    clock.pass_s(3 * 3600)
    assert do_task(desk, clock, come_in(desk, "bob")).pair_id != ""
    assert do_task(desk, clock, desk.workers.name_of("prolific", "bob")).pair_id != ""
    assert (
        desk.answers.rate("autumn", assignment.worker, assignment.id, "A").pair_id == assignment.task.pair_id
    )


def test_a_late_answer_over_the_number_is_refused_with_thanks_and_counted_once(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    assignment = ready_to_rate(desk, clock, opened)
    clock.pass_s(3 * 3600)
    for name in ("bob", "carol"):
        worker = come_in(desk, name)
        done = {do_task(desk, clock, worker).pair_id for _ in range(2)}
        assert assignment.task.pair_id in done
    for _ in range(2):
        with refused(RefusalReason.EXPIRED):
            desk.answers.rate("autumn", assignment.worker, assignment.id, "A")
    with refused(RefusalReason.EXPIRED):
        play(desk, assignment, "left", (0, 1))
    (row,) = [row for row in desk.organiser.workers("autumn") if row.worker == assignment.worker]
    assert (row.votes, row.refused_late) == (0, 1)
    with refused(RefusalReason.DONE):
        desk.queue.next("autumn", assignment.worker)


def test_an_answer_that_came_in_a_file_closes_the_task(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    assignment = ready_to_rate(desk, clock, opened)
    campaign = desk.campaigns.get("autumn")
    added = desk.votes.add("autumn", [file_vote(assignment.task, assignment.worker, campaign, rating="B")])
    assert added.accepted == 1
    with refused(RefusalReason.EXPIRED):
        desk.answers.rate("autumn", assignment.worker, assignment.id, "A")
    assert [vote.rating for _, vote in desk.votes.read("autumn")] == ["B"]
    assert desk.queue.next("autumn", assignment.worker).task != assignment.task


def test_a_clock_that_jumps_gives_no_time_and_takes_none(
    desk: Desk, clock: HandClock, opened: Assignment
) -> None:
    send_all(desk, opened)
    clock.pass_s(2)
    assert play(desk, opened, "left", (0, 30)).seen["left"] == ((0.0, 2.0),)
    clock.pass_s(-7200)
    assert play(desk, opened, "left", (0, 30)).seen["left"] == ((0.0, 2.0),)
    clock.pass_s(1)
    assert play(desk, opened, "left", (0, 30)).seen["left"] == ((0.0, 3.0),), "time goes on from there"
    clock.pass_s(-7200)
    play(desk, opened, "left", (0, 30))
    assignment = ready_to_rate(desk, clock, opened)
    vote = desk.answers.rate("autumn", assignment.worker, assignment.id, "A")
    assert vote.total_s == 0.0, "never below zero"


def test_a_jump_ahead_gives_at_most_ten_minutes(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), [example_task(high_s=3000.0, low_s=3000.0)])
    assignment = desk.queue.next("autumn", come_in(desk, "ann"))
    send_all(desk, assignment)
    clock.pass_s(86400)
    assert length(play(desk, assignment, "left", (0, 3000)).seen["left"]) == MAX_SILENCE_S


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    story=st.lists(
        st.tuples(st.floats(-20, 20), st.sampled_from(PLACES), st.floats(0, 30), st.floats(0, 30)), max_size=6
    )
)
def test_whatever_is_claimed_no_more_is_seen_than_time_went_by(
    desk: Desk, clock: HandClock, story: list[tuple[float, str, float, float]]
) -> None:
    number = len(desk.campaigns.all())
    campaign = example_campaign(f"story-{number}")
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
