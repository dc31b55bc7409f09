"""Pairs that get votes until they are certain, and what the desk knows of its workers."""

from __future__ import annotations

import json
import threading

import pytest

from storage_schemas.votes import SideWord, Standing, Vote
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.refusals import RefusalReason
from tasks.annotation.desk.tables import MODELS
from tasks.votes.worker_model import worker_model
from tests.tasks.annotation.example_desk import (
    HandClock,
    come_in,
    example_campaign,
    example_tasks,
    file_vote,
    ready_to_rate,
    refuses,
)

CAMPAIGN = example_campaign(until_certain=True)
TASKS = example_tasks(30)


def numbers(desk: Desk) -> dict[str, tuple[int, int]]:
    """Return the votes that each pair has and that it should have."""
    return {row.pair_id: (row.votes, row.wanted) for row in desk.organiser.progress("autumn")}


def say(desk: Desk, pair: int, letters: str, preferred: SideWord = "high", of: str = "w") -> None:
    """Let workers rate a pair, a letter each."""
    votes = [said(pair, f"{of}{n}", letter, preferred) for n, letter in enumerate(letters)]
    desk.votes.add("autumn", votes)


def said(pair: int, worker: str, rating: str, preferred: SideWord) -> Vote:
    first: SideWord = "high" if len(worker) + pair & 1 else "low"
    return file_vote(TASKS[pair], worker, CAMPAIGN, rating=rating, preferred=preferred, first=first)


def test_a_pair_gets_three_votes_and_more_until_it_is_certain(desk: Desk) -> None:
    desk.organiser.publish(CAMPAIGN, example_tasks(3))
    assert set(numbers(desk).values()) == {(0, 3)}
    first, second, third = numbers(desk)
    say(desk, 0, "AAA")
    say(desk, 1, "AAB")
    say(desk, 2, "CCCC", "low")
    assert numbers(desk) == {first: (3, 3), second: (3, 4), third: (4, 4)}
    # a pair on which people differ has seven, and no more
    for count, letter in enumerate("BBAB", 4):
        desk.votes.add("autumn", [said(1, f"late{count}", letter, "high")])
    assert numbers(desk)[second] == (7, 7)


def test_the_queue_gives_an_uncertain_pair_out_again(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(CAMPAIGN.model_copy(update={"check_share": 0.0}), example_tasks(1))
    for number, letter in enumerate("AABA"):
        worker = come_in(desk, f"w{number}")
        task = desk.queue.next("autumn", worker)
        ready_to_rate(desk, clock, task, task.place_of("high"))
        desk.answers.rate("autumn", worker, task.id, letter)
    assert set(numbers(desk).values()) == {(4, 4)}
    fifth = come_in(desk, "w5")
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", fifth)


def crowd(desk: Desk, pairs: int) -> None:
    """Let three careful workers rate most pairs, and three who press anything the first of them with one."""
    votes = []
    for number in range(pairs):
        clear = number % 4 != 3
        for worker in "abc" if number else "a":
            careful: SideWord = "high" if clear or (number + ord(worker)) % 3 else "low"
            votes.append(said(number, f"careful {worker}", "A" if clear else "C", careful))
        for place, worker in enumerate("xy"):
            left: SideWord = "high" if (number + place) % 2 else "low"
            votes.append(said(number, f"careless {worker}", "ABC"[(number * 7 + place) % 3], left))
    desk.votes.add("autumn", votes)


def test_votes_of_careless_workers_weigh_less_once_they_are_known(desk: Desk) -> None:
    desk.organiser.publish(CAMPAIGN, TASKS)
    crowd(desk, 30)
    unknown = numbers(desk)
    desk.votes.weigh("autumn")
    known = numbers(desk)
    # what three careful workers agree on is certain, whatever the others say
    before, after = (sum(a < b for a, b in one.values()) for one in (unknown, known))
    assert after < before
    assert known[TASKS[1].pair_id] == (5, 5)
    stored = models(desk)
    assert stored["kinds"]["careful a"][0] > 0.9 > 0.1 > stored["kinds"]["careless x"][0]


def models(desk: Desk) -> dict[str, dict[str, list[float]]]:
    with desk.database.read() as connection:
        rows = connection.execute(MODELS.select()).all()
    plain: dict[str, dict[str, list[float]]] = json.loads(rows[0].body) if rows else {}
    return plain


def test_an_excluded_workers_votes_do_not_count_and_nothing_remains_of_an_erased_one(desk: Desk) -> None:
    desk.organiser.publish(CAMPAIGN, example_tasks(1))
    (pair,) = numbers(desk)
    say(desk, 0, "AAA")
    desk.votes.weigh("autumn")
    assert numbers(desk)[pair] == (3, 3)
    desk.organiser.decide("autumn", "w0", Standing.EXCLUDED, "a robot", "me")
    assert numbers(desk)[pair] == (2, 3)
    desk.organiser.erase("autumn", "w0")
    assert models(desk) == {}
    desk.votes.weigh("autumn")
    assert set(models(desk)["kinds"]) == {"w1", "w2"}


def test_weigh_skips_counted_and_known_votes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(2))
    say(desk, 0, "AAAAA")
    desk.votes.weigh("autumn")
    assert models(desk) == {}
    # published again so that votes are weighed, they are counted again at once
    desk.organiser.publish(CAMPAIGN, example_tasks(2))
    assert sorted(numbers(desk).values()) == [(0, 3), (5, 5)]
    desk.votes.weigh("autumn")
    monkeypatch.setattr("tasks.annotation.desk.votes.worker_model", None)
    desk.votes.weigh("autumn")


def test_weigh_loses_no_vote_that_comes_meanwhile(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.organiser.publish(CAMPAIGN, example_tasks(20))
    crowd(desk, 10)

    # both have read the votes before another comes
    both = threading.Barrier(2, timeout=60)

    def slow(votes: object) -> object:
        given = list(votes)  # type: ignore[call-overload]
        if given:
            both.wait()
            say(desk, 15, "AAB", of="meanwhile ")
        return worker_model(given)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("tasks.annotation.desk.votes.worker_model", slow)
        others = [threading.Thread(target=desk.votes.weigh, args=("autumn",)) for _ in range(2)]
        for thread in others:
            thread.start()
        for thread in others:
            thread.join()
    assert numbers(desk)[TASKS[15].pair_id][0] == 3
    assert "meanwhile 0" not in models(desk)["kinds"]
    desk.votes.weigh("autumn")
    assert "meanwhile 0" in models(desk)["kinds"]
