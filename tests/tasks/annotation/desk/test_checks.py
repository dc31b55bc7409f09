"""Check tasks at the desk: who gets them, what a browser learns of them, and whom the votes reveal."""

from __future__ import annotations

from collections import Counter

from storage_schemas.votes import Check, Vote, check_id
from tasks.annotation.desk.desk import Desk
from tasks.annotation.exchange.task_table import TableOptions, task_rows
from tasks.annotation.pair_task import PairTask
from tasks.votes.quality import QualityRule, quality
from tests.tasks.annotation.example_desk import (
    KEY,
    HandClock,
    come_in,
    example_campaign,
    example_tasks,
    file_vote,
    ready_to_rate,
)

PAIRS = 30
GOLD = tuple(task.pair_id for task in example_tasks(PAIRS)[-4:])


def with_checks(pairs: int = PAIRS) -> list[PairTask]:
    """Return pairs, each twice, and six of them as two equal videos."""
    tasks = example_tasks(pairs)

    def made(task: PairTask, check: Check) -> PairTask:
        return task.model_copy(update={"pair_id": check_id(task.pair_id, check), "gold": True})

    equal = [made(task, Check.EQUAL) for task in tasks[:6]]
    return [*tasks, *(made(task, Check.AGAIN) for task in tasks), *equal]


def begin(desk: Desk, **settings: object) -> None:
    desk.organiser.publish(example_campaign(gold_pairs=GOLD, **settings), with_checks())


def test_checks_in_eight_tasks_reveal_who_always_presses_a(desk: Desk, clock: HandClock) -> None:
    begin(desk)
    given: list[Vote] = []
    for name in ("ann", "bob", "cem", "odd"):
        worker, shapes, votes = come_in(desk, name), set(), []
        for _ in range(8):
            assignment = desk.queue.next("autumn", worker)
            blind = assignment.view()
            high = "left" if assignment.first == "high" else "right"
            ready = ready_to_rate(desk, clock, assignment, high).view()
            # a check looks like any other task to a browser: the same fields, and no id that tells it apart
            assert not {"gold", "check"} & {*blind, *ready}
            assert "~" not in str(ready) and assignment.task.pair_id not in str(ready)
            shapes.add((tuple(blind), tuple(ready), len(ready["must_see"])))
            nothing = assignment.task.check is Check.EQUAL and name != "odd"
            votes.append(desk.answers.rate("autumn", worker, assignment.id, "C" if nothing else "A"))
        assert len(shapes) == 1
        assert Counter(vote.check for vote in votes if vote.gold) == {Check.EQUAL: 3, Check.AGAIN: 1, None: 2}
        (again,) = [vote for vote in votes if vote.check is Check.AGAIN]
        (before,) = [vote for vote in votes if vote.pair_id == again.judged]
        assert votes.index(again) - votes.index(before) > 3
        assert {again.first, before.first} == {"high", "low"}, "the sides are swapped"
        given += votes
    counted = [row for row in desk.organiser.progress("autumn") if not row.gold]
    assert sum(row.votes for row in counted) == 8, "checks are not votes on a pair"
    rows = quality(given, rule=QualityRule(name="strict"))
    assert [row.review for row in rows] == [True, False, False, False]
    assert rows[0].worker == come_in(desk, "odd")
    assert not any(row.review for row in quality(given))


def test_without_checks_or_under_the_paper_s_rule_none_is_given(desk: Desk) -> None:
    for name, settings in (("ann", {"check_share": 0}), ("bob", {"rule": "paper"})):
        begin(desk, **settings)
        worker = come_in(desk, name)
        for _ in range(8):
            task = desk.queue.next("autumn", worker).task
            # a vote from a file closes the task like an answer
            assert desk.votes.add("autumn", [file_vote(task, worker)]).accepted == 1
            assert task.check is None and task.pair_id not in GOLD


def test_checks_are_not_pairs_and_go_into_no_table(desk: Desk) -> None:
    done = desk.organiser.publish(example_campaign(), with_checks(4))
    assert (done.new, done.known, done.retired) == (4, 0, 0)
    done = desk.organiser.publish(example_campaign(), with_checks(3))
    assert (done.new, done.known, done.retired) == (0, 3, 1)
    rows = task_rows(desk, KEY, "autumn", TableOptions(links="none", every=True))
    assert {row["pair"] for row in rows} == {task.pair_id for task in example_tasks(3)}


def test_a_worker_in_doubt_is_given_checks_only_and_another_is_not(desk: Desk, clock: HandClock) -> None:
    begin(desk, until_certain=True)

    def does(name: str, tasks: int) -> list[Vote]:
        worker, votes = come_in(desk, name), []
        for _ in range(tasks):
            assignment = desk.queue.next("autumn", worker)
            nothing = assignment.task.check is Check.EQUAL and name != "odd"
            side = "left" if name == "odd" else assignment.place_of("high")
            ready_to_rate(desk, clock, assignment, side)
            votes.append(desk.answers.rate("autumn", worker, assignment.id, "C" if nothing else "A"))
        return votes

    for name in ("ann", "bob", "odd"):
        does(name, 8)
    desk.votes.weigh("autumn")
    assert [vote.check for vote in does("odd", 3)] == [Check.EQUAL] * 3
    assert sum(vote.gold for vote in does("ann", 6)) < 3
