"""Entering, consent, and getting tasks: leases, limits, gold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.votes import Standing
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.events import EventKind
from tasks.annotation.desk.keys import worker_hash
from tasks.annotation.desk.refusals import RefusalReason
from tests.tasks.annotation.example_desk import (
    KEY,
    HandClock,
    come_in,
    do_task,
    example_campaign,
    example_task,
    example_tasks,
    open_desk,
    ready_to_rate,
    refused,
)


def test_a_worker_is_a_keyed_hash_and_comes_back_as_the_same(desk: Desk) -> None:
    desk.organiser.publish(example_campaign(), [example_task()])
    first = desk.workers.enter("autumn", "prolific", "5f3a", study="S1", session="X")
    again = desk.workers.enter("autumn", "prolific", " 5f3a ")
    assert (first.returning, again.returning) == (False, True)
    assert first.worker == again.worker == worker_hash(KEY, "prolific", "5f3a")
    assert len(first.worker) == 32
    assert "5f3a" not in first.worker
    others = [("mturk", "5f3a"), ("prolific", "5f3b")]
    assert len({first.worker, *(desk.workers.name_of(*other) for other in others)}) == 3
    assert worker_hash(KEY + b"!", "prolific", "5f3a") != first.worker
    assert [event.kind for event in desk.events.read("autumn")][1:] == [EventKind.ENTERED]


@pytest.mark.parametrize("platform, identity", [("a:b", "c"), ("", "c"), ("prolific", "  "), ("x" * 65, "c")])
def test_who_does_not_say_who_they_are_is_not_let_in(desk: Desk, platform: str, identity: str) -> None:
    desk.organiser.publish(example_campaign(), [example_task()])
    with refused(RefusalReason.BAD_LINK):
        desk.workers.enter("autumn", platform, identity)


@pytest.mark.parametrize("name", ["winter", "", "../autumn", "a\x00", "\ud800"])
def test_a_campaign_that_is_not_there_is_refused(desk: Desk, name: str) -> None:
    desk.organiser.publish(example_campaign(), [example_task()])
    with refused(RefusalReason.UNKNOWN_CAMPAIGN):
        desk.workers.enter(name, "prolific", "x")
    with pytest.raises(UserInputError, match=r"there is no campaign .* autumn"):
        desk.votes.read(name)


def test_a_link_is_for_one_worker_who_may_come_back(desk: Desk) -> None:
    desk.organiser.publish(example_campaign(), [example_task()])
    one, other = desk.organiser.invite("autumn", 2, note="students")
    assert one != other
    assert len(one) >= 20
    here = desk.workers.enter("autumn", "link", one, token=one)
    assert desk.workers.enter("autumn", "link", one).worker == here.worker
    assert desk.workers.enter("autumn", "link", other).worker != here.worker
    for wrong in ("", "x", one[:-1], one + "\x00", one.swapcase(), "\ud800"):
        with refused(RefusalReason.BAD_LINK):
            desk.workers.enter("autumn", "link", wrong, token=wrong)


def test_a_link_that_came_with_a_platform_belongs_to_who_used_it_first(desk: Desk) -> None:
    desk.organiser.publish(example_campaign(), [example_task()])
    (token,) = desk.organiser.invite("autumn", 1)
    here = desk.workers.enter("autumn", "prolific", "ann", token=token)
    assert desk.workers.enter("autumn", "prolific", "ann", token=token).worker == here.worker
    with refused(RefusalReason.LINK_USED):
        desk.workers.enter("autumn", "prolific", "bob", token=token)
    with refused(RefusalReason.UNKNOWN_WORKER):
        desk.workers.get("autumn", desk.workers.name_of("prolific", "bob"))


def test_tokens_and_identities_are_not_in_the_database(tmp_path: Path, clock: HandClock) -> None:
    with open_desk(tmp_path, clock) as desk:
        desk.organiser.publish(example_campaign(), [example_task()])
        (token,) = desk.organiser.invite("autumn", 1)
        desk.workers.enter("autumn", "link", token)
        desk.workers.enter("autumn", "prolific", "someone-known")
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"autumn" in stored
    assert token.encode() not in stored
    assert b"someone-known" not in stored


def test_no_task_before_the_consent(desk: Desk) -> None:
    desk.organiser.publish(example_campaign(), [example_task()])
    worker = desk.workers.enter("autumn", "prolific", "x").worker
    with refused(RefusalReason.NO_CONSENT):
        desk.queue.next("autumn", worker)
    desk.workers.set_language("autumn", worker, "ja")
    with refused(RefusalReason.NO_CONSENT):
        desk.queue.next("autumn", worker)
    with refused(RefusalReason.BAD_VALUE):
        desk.workers.consent("autumn", worker, "fr")
    assert desk.workers.consent("autumn", worker, "ja").consented
    assert desk.queue.next("autumn", worker).language == "ja"
    assert desk.workers.consent("autumn", worker, "en").language == "en"
    kinds = [event.kind for event in desk.events.read("autumn") if event.worker]
    assert kinds.count(EventKind.CONSENTED) == 1, "who agreed has agreed"


@pytest.mark.parametrize("worker", ["0" * 32, "", "\x00", "\ud800", "no such worker"])
def test_who_never_entered_is_told_so(desk: Desk, worker: str) -> None:
    desk.organiser.publish(example_campaign(), [example_task()])
    for ask in (desk.workers.get, desk.queue.next, desk.workers.finish):
        with refused(RefusalReason.UNKNOWN_WORKER):
            ask("autumn", worker)


def test_two_tabs_and_a_worker_who_comes_back_tomorrow_have_the_same_task(
    desk: Desk, clock: HandClock
) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(3))
    worker = come_in(desk, "x")
    first = desk.queue.next("autumn", worker)
    assert desk.queue.next("autumn", worker).id == first.id
    clock.pass_s(20 * 3600)
    back = desk.queue.next("autumn", worker)
    assert back.id == first.id
    assert back.lease_until > first.lease_until
    assert back.opened_at == first.opened_at


def test_a_lease_that_ran_out_frees_the_place_for_another(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(workers_per_pair=1, lease_minutes=30), [example_task()])
    slow, quick = come_in(desk, "slow"), come_in(desk, "quick")
    assignment = desk.queue.next("autumn", slow)
    with refused(RefusalReason.NO_TASKS):
        desk.queue.next("autumn", quick)
    clock.pass_s(29 * 60)
    desk.answers.assignment("autumn", slow, assignment.id)
    clock.pass_s(29 * 60)
    with refused(RefusalReason.NO_TASKS):
        desk.queue.next("autumn", quick)
    clock.pass_s(2 * 60)
    taken = desk.queue.next("autumn", quick)
    assert taken.id != assignment.id
    assert taken.task == assignment.task
    last = [(event.kind, event.worker) for event in desk.events.read("autumn")][-2:]
    assert last == [(EventKind.EXPIRED, slow), (EventKind.OPENED, quick)]
    with refused(RefusalReason.NO_TASKS):
        desk.queue.next("autumn", slow)
    with refused(RefusalReason.EXPIRED):
        desk.answers.assignment("autumn", slow, assignment.id)
    clock.pass_s(31 * 60)
    assert desk.queue.next("autumn", slow).id == assignment.id, "the other did not answer either"


def test_nobody_gets_a_pair_twice_and_the_last_words_say_why(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(workers_per_pair=2), example_tasks(3))
    ann, bob = come_in(desk, "ann"), come_in(desk, "bob")
    pairs = [do_task(desk, clock, ann).pair_id for _ in range(3)]
    assert sorted(pairs) == ["color-000", "color-001", "color-002"]
    with refused(RefusalReason.DONE):
        desk.queue.next("autumn", ann)
    for _ in range(3):
        do_task(desk, clock, bob)
    with refused(RefusalReason.DONE):
        desk.queue.next("autumn", come_in(desk, "carol"))


def test_a_worker_does_at_most_so_many_tasks(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(tasks_per_worker=2), example_tasks(3))
    worker = come_in(desk, "x")
    do_task(desk, clock, worker)
    do_task(desk, clock, worker)
    with refused(RefusalReason.LIMIT):
        desk.queue.next("autumn", worker)


def test_at_the_limit_an_old_task_does_not_come_back(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(
        example_campaign(tasks_per_worker=1, workers_per_pair=1, lease_minutes=10), example_tasks(3)
    )
    ann, bob = come_in(desk, "ann"), come_in(desk, "bob")
    first = desk.queue.next("autumn", ann)
    clock.pass_s(11 * 60)
    desk.queue.next("autumn", bob)
    other = do_task(desk, clock, ann)
    assert other.vote_id != first.id
    clock.pass_s(11 * 60)
    with refused(RefusalReason.LIMIT):
        desk.queue.next("autumn", ann)


def test_the_code_comes_after_the_first_task_and_stays_the_same(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(2))
    ann, bob = come_in(desk, "ann"), come_in(desk, "bob")
    with refused(RefusalReason.NOTHING_DONE):
        desk.workers.finish("autumn", ann)
    do_task(desk, clock, ann)
    do_task(desk, clock, bob)
    code = desk.workers.finish("autumn", ann)
    assert len(code) == 8
    assert desk.workers.finish("autumn", ann) == code != desk.workers.finish("autumn", bob)
    assert [event.worker for event in desk.events.read("autumn") if event.kind is EventKind.FINISHED] == [
        ann,
        bob,
    ]
    desk.organiser.publish(example_campaign(completion_code="C0FFEE"), example_tasks(2))
    assert desk.workers.finish("autumn", ann) == desk.workers.finish("autumn", bob) == "C0FFEE"


def test_gold_comes_by_its_share_beside_the_queue(desk: Desk, clock: HandClock) -> None:
    tasks = example_tasks(20)
    gold = [task.pair_id for task in tasks[:6]]
    settings = {"rule": "paper", "gold_pairs": tuple(gold), "gold_share": 0.3, "workers_per_pair": 1}
    desk.organiser.publish(example_campaign(**settings), tasks)
    votes = []
    for name in ("ann", "bob"):
        worker = come_in(desk, name)
        votes += [do_task(desk, clock, worker) for _ in range(7)]
    assert all(vote.gold == (vote.pair_id in gold) for vote in votes)
    assert 1 <= sum(vote.gold for vote in votes) <= 9, "about four of fourteen"
    assert max(Counter((vote.worker, vote.pair_id) for vote in votes).values()) == 1
    ordinary = Counter(vote.pair_id for vote in votes if not vote.gold)
    assert max(ordinary.values()) == 1, "gold takes no place of another pair"


def test_without_a_share_no_gold_is_shown(desk: Desk, clock: HandClock) -> None:
    tasks = example_tasks(2)
    desk.organiser.publish(example_campaign(rule="paper", gold_pairs=(tasks[0].pair_id,)), tasks)
    worker = come_in(desk, "x")
    assert do_task(desk, clock, worker).pair_id == tasks[1].pair_id
    with refused(RefusalReason.DONE):
        desk.queue.next("autumn", worker)


def test_the_order_of_the_two_is_random_and_stays(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(16))
    worker = come_in(desk, "x")
    firsts = []
    for _ in range(16):
        assignment = desk.queue.next("autumn", worker)
        assert desk.queue.next("autumn", worker).first == assignment.first
        ready_to_rate(desk, clock, assignment)
        firsts.append(desk.answers.rate("autumn", worker, assignment.id, "A").first)
    assert 3 <= firsts.count("high") <= 13


def test_an_excluded_worker_gets_nothing_more_but_the_code(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(workers_per_pair=1), example_tasks(2))
    bad, good = come_in(desk, "bad"), come_in(desk, "good")
    do_task(desk, clock, bad)
    held = desk.queue.next("autumn", bad)
    desk.organiser.decide("autumn", bad, Standing.EXCLUDED, "answers before looking", "me")
    for ask in (
        lambda: desk.queue.next("autumn", bad),
        lambda: desk.answers.assignment("autumn", bad, held.id),
        lambda: desk.answers.prefer("autumn", bad, held.id, "left"),
        lambda: desk.viewing.play("autumn", bad, held.id, "left", [(0, 1)], 1.0),
        lambda: desk.answers.rate("autumn", bad, held.id, "A"),
    ):
        with refused(RefusalReason.EXCLUDED):
            ask()
    assert desk.workers.finish("autumn", bad)
    assert desk.queue.next("autumn", good).task == held.task, "the task is free again at once"
    desk.organiser.decide("autumn", bad, Standing.CLEARED, "was a mistake", "me")
    with refused(RefusalReason.NO_TASKS):
        desk.queue.next("autumn", bad)
