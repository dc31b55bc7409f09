"""Who gets which pair: the choice as a function, leases, limits, gold, and a campaign by chance."""

from __future__ import annotations

import tempfile
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage_schemas.votes import Check, Standing, check_id
from tasks.annotation.desk.choice import WaitingPair, aspect_shares, choose_pair
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.events import EventKind
from tasks.annotation.desk.queue import Queue
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tasks.annotation.desk.tables import ASSIGNMENTS
from tests.tasks.annotation.example_desk import (
    HandClock,
    Sitting,
    come_in,
    do_task,
    example_campaign,
    example_task,
    example_tasks,
    file_vote,
    open_desk,
    refuses,
    sit,
)


def chance(what: str) -> float:
    return int(sha256(what.encode()).hexdigest()[:8], 16) / (1 << 32)


queues = st.lists(
    st.builds(
        WaitingPair,
        pair_id=st.integers(0, 10**6).map(str),
        aspect=st.sampled_from("abc"),
        votes=st.integers(0, 6),
        leases=st.integers(0, 3),
        wanted=st.integers(1, 5),
    ),
    max_size=30,
    unique_by=lambda pair: pair.pair_id,
)


@settings(max_examples=40)
@given(queues, st.data())
def test_choose_pair_is_free_new_and_most_wanted(queue: list[WaitingPair], data: st.DataObject) -> None:
    mine = data.draw(st.sets(st.sampled_from([pair.pair_id for pair in queue]))) if queue else set()
    free = [pair for pair in queue if pair.votes + pair.leases < pair.wanted and pair.pair_id not in mine]
    choice = choose_pair(queue, mine, chance)
    assert (choice is None) == (not free)
    if choice is not None:
        assert choice in free
        shares = aspect_shares(queue)
        assert shares[choice.aspect] == min(shares[pair.aspect] for pair in free)
        taken = {pair: pair.votes + pair.leases for pair in free if pair.aspect == choice.aspect}
        assert taken[choice] == max(taken.values())
        assert choose_pair(queue[::-1], mine, chance) == choice, "the order of the rows decides nothing"


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
def test_aspects_advance_side_by_side_and_pairs_get_finished(a: int, b: int, wanted: int) -> None:
    taken = Counter({f"a{n}": 0 for n in range(a)} | {f"b{n}": 0 for n in range(b)})
    places = {"a": a * wanted, "b": b * wanted}
    for worker in range(sum(places.values()) + 1):
        queue = [WaitingPair(pair, pair[0], number, 0, wanted) for pair, number in taken.items()]
        result = choose_pair(queue, set(), lambda what, who=worker: chance(f"{who}{what}"))
        if result is None:
            assert sum(taken.values()) == sum(places.values())
            break
        taken[result.pair_id] += 1
        shares = [sum(n for p, n in taken.items() if p[0] == x) / places[x] for x in "ab"]
        assert abs(shares[0] - shares[1]) <= max(1 / places["a"], 1 / places["b"]) + 1e-9
        begun = [pair for pair, number in taken.items() if 0 < number < wanted]
        assert len(begun) <= 2, "one of each aspect"


def check(desk: Desk, wanted: int) -> None:
    """Invariants of a campaign."""
    for row in desk.organiser.progress("autumn"):
        assert row.votes + row.leases <= wanted, row
    votes = [vote for _, vote in desk.votes.read("autumn")]
    assert max(Counter((vote.worker, vote.pair_id) for vote in votes).values(), default=0) <= 1
    opened = [(e.worker, e.pair_id) for e in desk.events.read("autumn") if e.kind is EventKind.OPENED]
    assert len(opened) == len(set(opened)), "no pair twice to one worker"


steps = st.tuples(
    st.sampled_from(["next", "next", "rate", "rate", "wait", "back", "exclude", "clear"]), st.integers(0, 3)
)
USUAL = {RefusalReason.DONE, RefusalReason.NO_TASKS, RefusalReason.EXCLUDED, RefusalReason.EXPIRED}


@settings(max_examples=8, deadline=None)
@given(st.lists(steps, max_size=25), st.integers(1, 3))
@example([("next", 0), ("back", 0), ("rate", 0)], 1)
def test_campaign_by_chance_loses_no_vote_and_takes_none_more(
    story: list[tuple[str, int]], wanted: int
) -> None:
    clock = HandClock()
    with tempfile.TemporaryDirectory() as folder, open_desk(Path(folder), clock) as desk:
        desk.organiser.publish(
            example_campaign(workers_per_pair=wanted, lease_minutes=10), example_tasks(2, ("color", "style"))
        )
        workers = [come_in(desk, f"w{n}") for n in range(4)]
        sitting: dict[str, Sitting] = {}
        acknowledged: set[str] = set()
        for what, who in story:
            worker = workers[who]
            try:
                if what == "next":
                    sitting[worker] = Sitting(desk, clock, desk.queue.next("autumn", worker))
                elif what == "rate" and worker in sitting:
                    one = sitting.pop(worker)
                    one.get_ready()
                    acknowledged.add(one.rate().vote_id)
                elif what in ("exclude", "clear"):
                    standing = Standing.EXCLUDED if what == "exclude" else Standing.CLEARED
                    desk.organiser.decide("autumn", worker, standing, "note", "me")
                elif what in ("wait", "back"):
                    clock.pass_s(11 * 60 if what == "wait" else -7 * 60)
            except DeskRefusal as refusal:
                assert refusal.reason in USUAL
            check(desk, wanted)
        assert {vote.vote_id for _, vote in desk.votes.read("autumn")} == acknowledged


def test_a_first_crowd_is_spread_over_the_aspects_and_finishes_pairs(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(5, ("color", "style", "flow")))
    tasks = [sit(desk, clock, f"w{n}").task for n in range(6)]
    # three aspects in parallel; in each, the second worker helps to finish what the first began
    assert Counter(one.task.aspect for one in tasks) == {"color": 2, "style": 2, "flow": 2}
    assert len({one.task.pair_id for one in tasks}) == 3


def test_queue_gives_two_tabs_and_a_return_the_same_task(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(3))
    first = sit(desk, clock).task
    assert desk.queue.next("autumn", first.worker).id == first.id
    clock.pass_s(20 * 3600)
    back = desk.queue.next("autumn", first.worker)
    assert (back.id, back.first, back.opened_at) == (first.id, first.first, first.opened_at)
    assert back.lease_until > first.lease_until
    with desk.database.read() as connection:
        (row,) = connection.execute(ASSIGNMENTS.select()).all()
    # nothing of it was played or confirmed
    assert (row.elapsed_s, row.cuts, row.seen_left, row.sent_right, row.confirmed) == (
        0.0,
        0,
        "[]",
        "[]",
        "[]",
    )


def test_a_pair_that_comes_again_has_its_sides_swapped(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(3))
    tasks = [sit(desk, clock, f"w{n}").task for n in range(8)]
    assert {task.first for task in tasks} == {"high", "low"}
    equal = 0
    with desk.database.read() as connection:
        for task in tasks:
            again, other = (
                desk.queue._first_side(connection, "autumn", task.worker, check_id(task.task.pair_id, check))
                for check in (Check.AGAIN, Check.EQUAL)
            )
            assert {again, task.first} == {"high", "low"}
            equal += other == task.first
    assert 0 < equal < 8, "two equal videos are in any order"


def test_the_order_of_the_two_is_random_and_stays(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(16))
    one = sit(desk, clock).task
    assert sit(desk, clock).task.first == one.first
    with desk.database.read() as connection:
        firsts = {
            task.pair_id: desk.queue._first_side(connection, "autumn", one.worker, task.pair_id)
            for task in example_tasks(16)
        }
    assert firsts[one.task.pair_id] == one.first
    assert 3 <= [*firsts.values()].count("high") <= 13


def test_a_lease_that_ran_out_frees_the_place_for_another(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(workers_per_pair=1, lease_minutes=30), [example_task()])
    slow, quick = come_in(desk, "slow"), come_in(desk, "quick")
    assignment = desk.queue.next("autumn", slow)
    refuses(RefusalReason.NO_TASKS, desk.queue.next, "autumn", quick)
    clock.pass_s(29 * 60)
    desk.answers.assignment("autumn", slow, assignment.id)
    clock.pass_s(29 * 60)
    refuses(RefusalReason.NO_TASKS, desk.queue.next, "autumn", quick)
    clock.pass_s(60)
    taken = desk.queue.next("autumn", quick)
    assert taken.id != assignment.id
    assert taken.task == assignment.task
    last = [(event.kind, event.worker) for event in desk.events.read("autumn")][-2:]
    assert last == [(EventKind.EXPIRED, slow), (EventKind.OPENED, quick)]
    refuses(RefusalReason.NO_TASKS, desk.queue.next, "autumn", slow)
    refuses(RefusalReason.EXPIRED, desk.answers.assignment, "autumn", slow, assignment.id)
    clock.pass_s(31 * 60)
    assert desk.queue.next("autumn", slow).id == assignment.id, "the other did not answer either"


def test_a_lapsed_task_whose_pair_still_has_a_place_comes_back_first(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(workers_per_pair=2, lease_minutes=30), example_tasks(3))
    both = [sit(desk, clock, name).task for name in ("ann", "bob")]
    assert both[0].task == both[1].task
    clock.pass_s(31 * 60)
    for task in both:
        assert desk.queue.next("autumn", task.worker).id == task.id


def test_queue_gives_a_pair_once_and_says_why_there_is_none(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(workers_per_pair=2), example_tasks(2))
    ann, bob, carol = (come_in(desk, name) for name in ("ann", "bob", "carol"))
    assert {do_task(desk, clock, ann).pair_id for _ in range(2)} == {"color-000", "color-001"}
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", ann)
    do_task(desk, clock, bob)
    desk.queue.next("autumn", bob)
    # one pair has two votes, and the other one and a lease
    refuses(RefusalReason.NO_TASKS, desk.queue.next, "autumn", carol)
    do_task(desk, clock, bob)
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", carol)


def test_the_number_of_tasks_of_a_worker_is_limited(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(
        example_campaign(tasks_per_worker=1, workers_per_pair=1, lease_minutes=10), example_tasks(3)
    )
    ann, bob = come_in(desk, "ann"), come_in(desk, "bob")
    first = desk.queue.next("autumn", ann)
    clock.pass_s(11 * 60)
    assert desk.queue.next("autumn", bob).task == first.task
    assert do_task(desk, clock, ann).vote_id != first.id
    clock.pass_s(11 * 60)
    # an old task does not come back either
    refuses(RefusalReason.LIMIT, desk.queue.next, "autumn", ann)
    desk.organiser.publish(example_campaign(tasks_per_worker=2), example_tasks(3))
    do_task(desk, clock, ann)
    for limit in (2, 1):
        desk.organiser.publish(example_campaign(tasks_per_worker=limit), example_tasks(3))
        refuses(RefusalReason.LIMIT, desk.queue.next, "autumn", ann)
    # who has a task already may end it
    desk.organiser.publish(example_campaign(tasks_per_worker=3), example_tasks(3))
    held = desk.queue.next("autumn", ann)
    desk.organiser.publish(example_campaign(tasks_per_worker=1), example_tasks(3))
    assert desk.queue.next("autumn", ann).id == held.id


def told(desk: Desk, clock: HandClock) -> list[str]:
    """What three workers are given, or told, one after the other while half an hour passes twice."""
    result = []
    for who in ("ann", "bob", "ann", "cem", "later", "dora", "bob", "later", "ann", "cem"):
        if who == "later":
            clock.pass_s(30 * 60)
            continue
        try:
            task = sit(desk, clock, who).task
            result.append(f"{who} {task.task.pair_id} {task.first}")
        except DeskRefusal as refusal:
            result.append(f"{who} {refusal.reason}")
    return result


def test_queue_does_not_depend_on_other_campaigns(tmp_path: Path) -> None:
    """Whether they come before or after by name, and regardless of who works in them."""
    tasks, settings = example_tasks(3), {"workers_per_pair": 1, "lease_minutes": 30, "tasks_per_worker": 3}
    clock = HandClock()
    with open_desk(tmp_path / "alone", clock) as desk:
        desk.organiser.publish(example_campaign(**settings), tasks)
        expected = told(desk, clock)
    clock = HandClock()
    with open_desk(tmp_path / "beside", clock) as desk:
        for name in ("april", "autumn", "winter"):
            desk.organiser.publish(example_campaign(name, **settings), tasks)
        held = []
        for name in ("april", "winter"):
            done = do_task(desk, clock, come_in(desk, "dora", name), campaign=name)
            held += [desk.queue.next(name, come_in(desk, who, name)) for who in ("ann", "bob")]
            assert len({done.pair_id, *(one.task.pair_id for one in held[-2:])}) == 3
        clock.now = HandClock().now
        assert told(desk, clock) == expected
        for one in held:
            back = desk.queue.next(one.campaign, one.worker)
            assert (back.id, back.task, back.first) == (one.id, one.task, one.first)


def test_queue_skips_a_pair_just_filled(
    desk: Desk, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = example_tasks(7)
    gold, full, voted, half, gone = (task.pair_id for task in tasks[:5])
    settings = {"workers_per_pair": 2, "gold_pairs": (gold,), "rule": "paper"}
    desk.organiser.publish(example_campaign(**settings), tasks)
    said = [(1, "a"), (2, "a"), (2, "b"), (3, "a")]
    desk.votes.add("autumn", [file_vote(tasks[number], who) for number, who in said])
    # of the two pairs that have a vote one is with another worker
    held = sit(desk, clock, "bob").task.task.pair_id
    assert held in (full, half)
    full, half = (full, half) if held == full else (half, full)
    desk.organiser.publish(example_campaign(**settings), [task for task in tasks if task.pair_id != gone])
    choose = Queue._pick
    for first, kept in ((half, True), (full, False), (voted, False), (gone, False), (gold, True)):
        stale = [WaitingPair(first, "color", 0, 0, 2)]
        monkeypatch.setattr(Queue, "_pick", lambda *of, stale=stale: stale.pop() if stale else choose(*of))
        assert (sit(desk, clock, f"for {first}").task.task.pair_id == first) == kept, first


def test_gold_comes_by_its_share_beside_the_queue(desk: Desk, clock: HandClock) -> None:
    tasks = example_tasks(20)
    gold = tuple(task.pair_id for task in tasks[:6])
    settings = {"rule": "paper", "gold_pairs": gold, "gold_share": 0.3, "workers_per_pair": 1}
    desk.organiser.publish(example_campaign(**settings), tasks)
    votes = [do_task(desk, clock, come_in(desk, name)) for name in ("ann", "bob") for _ in range(7)]
    assert all(vote.gold == (vote.pair_id in gold) for vote in votes)
    assert 1 <= sum(vote.gold for vote in votes) <= 9, "about four of fourteen"
    assert max(Counter((vote.worker, vote.pair_id) for vote in votes).values()) == 1
    ordinary = Counter(vote.pair_id for vote in votes if not vote.gold)
    assert max(ordinary.values()) == 1, "gold takes no place of another pair"


def test_without_a_share_no_gold_is_shown(desk: Desk, clock: HandClock) -> None:
    tasks = example_tasks(2)
    desk.organiser.publish(example_campaign(rule="paper", gold_pairs=(tasks[0].pair_id,)), tasks)
    vote = do_task(desk, clock, come_in(desk, "x"))
    assert vote.pair_id == tasks[1].pair_id
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", vote.worker)


def test_an_excluded_worker_gets_nothing_more_but_the_code(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(workers_per_pair=1), example_tasks(2))
    bad, good = come_in(desk, "bad"), come_in(desk, "good")
    do_task(desk, clock, bad)
    held = sit(desk, clock, "bad")
    desk.organiser.decide("autumn", bad, Standing.EXCLUDED, "answers before looking", "me")
    refuses(RefusalReason.EXCLUDED, desk.queue.next, "autumn", bad)
    refuses(RefusalReason.EXCLUDED, desk.answers.assignment, *held.who)
    refuses(RefusalReason.EXCLUDED, held.play, "left", (0, 1))
    for ask in (held.prefer, held.rate):
        refuses(RefusalReason.EXCLUDED, ask)
    assert desk.workers.finish("autumn", bad)
    assert desk.queue.next("autumn", good).task == held.task.task, "the task is free again at once"
    desk.organiser.decide("autumn", bad, Standing.CLEARED, "was a mistake", "me")
    refuses(RefusalReason.NO_TASKS, desk.queue.next, "autumn", bad)
