"""Who gets which pair: the choice as a function, and a random simulation of a campaign."""

from __future__ import annotations

import tempfile
from collections import Counter
from hashlib import sha256
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage_schemas.votes import Standing
from tasks.annotation.desk.choice import WaitingPair, aspect_shares, choose_pair
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.events import EventKind
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tests.tasks.annotation.example_desk import (
    HandClock,
    come_in,
    example_campaign,
    example_tasks,
    open_desk,
    ready_to_rate,
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


@given(queues, st.data())
def test_the_choice_is_free_new_and_where_it_is_wanted_most(
    queue: list[WaitingPair], data: st.DataObject
) -> None:
    mine = data.draw(st.sets(st.sampled_from([pair.pair_id for pair in queue]))) if queue else set()
    free = [pair for pair in queue if pair.votes + pair.leases < pair.wanted and pair.pair_id not in mine]
    choice = choose_pair(queue, mine, chance)
    assert (choice is None) == (not free)
    if choice is None:
        return
    assert choice in free
    shares = aspect_shares(queue)
    assert shares[choice.aspect] == min(shares[pair.aspect] for pair in free)
    assert choice.taken == max(pair.taken for pair in free if pair.aspect == choice.aspect)
    assert choose_pair(queue[::-1], mine, chance) == choice, "the order of the rows decides nothing"


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
def test_aspects_advance_side_by_side_and_pairs_get_finished(a: int, b: int, wanted: int) -> None:
    taken = Counter({f"a{n}": 0 for n in range(a)} | {f"b{n}": 0 for n in range(b)})
    places = {"a": a * wanted, "b": b * wanted}
    for worker in range(sum(places.values())):
        queue = [WaitingPair(pair, pair[0], number, 0, wanted) for pair, number in taken.items()]
        result = choose_pair(queue, set(), lambda what, who=worker: chance(f"{who}{what}"))
        assert result is not None
        taken[result.pair_id] += 1
        shares = [sum(n for p, n in taken.items() if p[0] == x) / places[x] for x in "ab"]
        assert abs(shares[0] - shares[1]) <= max(1 / places["a"], 1 / places["b"]) + 1e-9
        begun = [pair for pair, number in taken.items() if 0 < number < wanted]
        assert len(begun) <= 2, "one of each aspect"
    full = [WaitingPair(pair, pair[0], number, 0, wanted) for pair, number in taken.items()]
    assert choose_pair(full, set(), chance) is None


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


@settings(max_examples=8, deadline=None)
@given(st.lists(steps, max_size=25), st.integers(1, 3))
@example([("next", 0), ("back", 0), ("rate", 0)], 1)
def test_a_campaign_by_chance_never_takes_too_many_and_loses_nothing(
    story: list[tuple[str, int]], wanted: int
) -> None:
    clock = HandClock()
    with tempfile.TemporaryDirectory() as folder, open_desk(Path(folder), clock) as desk:
        desk.organiser.publish(
            example_campaign(workers_per_pair=wanted, lease_minutes=10), example_tasks(2, ("color", "style"))
        )
        workers = [come_in(desk, f"w{n}") for n in range(4)]
        open_tasks: dict[str, str] = {}
        acknowledged: set[str] = set()
        for what, who in story:
            worker = workers[who]
            try:
                if what == "next":
                    open_tasks[worker] = desk.queue.next("autumn", worker).id
                elif what == "rate" and worker in open_tasks:
                    assignment = desk.answers.assignment("autumn", worker, open_tasks.pop(worker))
                    ready_to_rate(desk, clock, assignment)
                    acknowledged.add(desk.answers.rate("autumn", worker, assignment.id, "A").vote_id)
                elif what == "exclude":
                    desk.organiser.decide("autumn", worker, Standing.EXCLUDED, "note", "me")
                elif what == "clear":
                    desk.organiser.decide("autumn", worker, Standing.CLEARED, "note", "me")
                elif what in ("wait", "back"):
                    clock.pass_s(11 * 60 if what == "wait" else -7 * 60)
            except DeskRefusal as refusal:
                assert refusal.reason in {
                    RefusalReason.DONE,
                    RefusalReason.NO_TASKS,
                    RefusalReason.EXCLUDED,
                    RefusalReason.EXPIRED,
                }
            check(desk, wanted)
        assert {vote.vote_id for _, vote in desk.votes.read("autumn")} == acknowledged


def test_a_first_crowd_is_spread_over_the_aspects_and_finishes_pairs(tmp_path: Path) -> None:
    with open_desk(tmp_path, HandClock()) as desk:
        desk.organiser.publish(example_campaign(), example_tasks(20, ("color", "style", "flow")))
        tasks = [desk.queue.next("autumn", come_in(desk, f"w{n}")).task for n in range(6)]
    # three aspects in parallel; in each, the second worker helps to finish what the first began
    assert Counter(task.aspect for task in tasks) == {"color": 2, "style": 2, "flow": 2}
    assert len({task.pair_id for task in tasks}) == 3
