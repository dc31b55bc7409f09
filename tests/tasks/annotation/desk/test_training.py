"""Before the first task and after the last: the question, training, and who comes or answers too late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.extras import ExtraKind
from tasks.annotation.desk.pair_assignment import PairAssignment
from tasks.annotation.desk.refusals import RefusalReason
from tasks.annotation.desk.workers import Question
from tests.tasks.annotation.example_desk import (
    HandClock,
    Sitting,
    come_in,
    do_task,
    example_campaign,
    example_tasks,
    file_vote,
    open_desk,
    ready_to_rate,
    refuses,
    send_all,
    sit,
)

ASPECTS = ("color", "dynamics_degree", "object_integrity", "temporal_flow", "aesthetics")
INSTRUCTIONS = {aspect: f"Look at {aspect}." for aspect in ASPECTS}
GOLD = tuple(task.pair_id for task in example_tasks(6)[-3:])
PAY: dict[str, Any] = {"pay_per_hour": 36, "currency": "EUR"}
#: Each video is 30 s, of which 30 are looked at first and 20 are changed, and an answer takes a minute.
FULL = 1.10
MINUTE = 0.60


def begin(desk: Desk, pairs: int = 6, **settings: Any) -> None:
    desk.organiser.publish(example_campaign(**{**PAY, **settings}), example_tasks(pairs))


def paid(desk: Desk, worker: str) -> list[tuple[ExtraKind, float]]:
    """Return what a worker is paid besides votes, as the organiser sees it, and see that the worker does."""
    (row,) = [one for one in desk.organiser.workers("autumn") if one.worker == worker]
    assert desk.workers.done("autumn", worker).extras == row.extras
    assert bool(row.code) == bool(row.extras or row.votes)
    return [(one.kind, one.pay) for one in row.extras]


def trained(desk: Desk, clock: HandClock, worker: str, rating: str = "A") -> PairAssignment:
    """Let a worker answer the next task, which is training, and return it with its explanation."""
    lesson = ready_to_rate(desk, clock, next_task(desk, worker))
    return desk.answers.train("autumn", worker, lesson.id, rating)


def next_task(desk: Desk, worker: str) -> PairAssignment:
    task = desk.queue.next("autumn", worker)
    assert isinstance(task, PairAssignment)
    return task


def test_training_is_first_and_paid_once(desk: Desk, clock: HandClock, desk_url: str, tmp_path: Path) -> None:
    begin(desk, gold_pairs=GOLD, training=2)
    ann, lessons = come_in(desk, "ann"), []
    for _ in range(2):
        lesson = next_task(desk, ann)
        assert lesson.training and lesson.task.pair_id in GOLD
        refuses(RefusalReason.NO_PREFERENCE, desk.answers.train, "autumn", ann, lesson.id, "A")
        done = trained(desk, clock, ann, "C")
        assert (done.state, done.rating) == ("rated", "C")
        assert {"intended", "must_see"} <= set(done.view())
        # the same answer again changes nothing, another one is refused, and it is not a vote
        assert desk.answers.train("autumn", ann, lesson.id, "C") == done
        refuses(RefusalReason.OTHER_ANSWER, desk.answers.train, "autumn", ann, lesson.id, "A")
        refuses(RefusalReason.BAD_VALUE, desk.answers.rate, "autumn", ann, lesson.id, "C")
        # a worker who closes the page comes back to the explanation, at a server that was started again
        with open_desk(tmp_path, clock, desk_url) as again:
            assert next_task(again, ann) == done
        desk.answers.finish_training("autumn", ann, lesson.id)
        refuses(RefusalReason.UNKNOWN_ASSIGNMENT, desk.answers.finish_training, "autumn", ann, lesson.id)
        refuses(RefusalReason.UNKNOWN_ASSIGNMENT, desk.answers.train, "autumn", ann, lesson.id, "C")
        lessons.append(lesson.task.pair_id)
    assert len(set(lessons)) == 2
    assert paid(desk, ann) == [(ExtraKind.TRAINING, FULL)] * 2
    assert desk.votes.read("autumn") == []
    assert all(row.votes == 0 for row in desk.organiser.progress("autumn"))
    first = next_task(desk, ann)
    assert not first.training and first.task.pair_id not in GOLD
    refuses(RefusalReason.BAD_VALUE, desk.answers.train, "autumn", ann, first.id, "A")
    vote = do_task(desk, clock, ann)
    assert (vote.pair_id, vote.gold) == (first.task.pair_id, False)
    assert desk.workers.done("autumn", ann).pay == pytest.approx(3 * FULL)
    # the known answers are not asked again
    others = [do_task(desk, clock, ann) for _ in range(2)]
    assert not {one.pair_id for one in others} & set(lessons)


def test_a_worker_who_has_begun_is_not_trained(desk: Desk, clock: HandClock) -> None:
    begin(desk, gold_pairs=GOLD)
    ann, bob = come_in(desk, "ann"), come_in(desk, "bob")
    do_task(desk, clock, ann)
    before = next_task(desk, bob)
    begin(desk, gold_pairs=GOLD, training=1)
    assert not next_task(desk, ann).training
    assert next_task(desk, bob).id == before.id
    assert next_task(desk, come_in(desk, "cem")).training


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValidationError, match="training asks for 2 gold pairs, and gold_pairs names 1"):
        example_campaign(training=2, gold_pairs=GOLD[:1])
    for first in ({"comprehension": True}, {"training": 1, "gold_pairs": GOLD}):
        with pytest.raises(ValidationError, match="comprehension and training are about pairs"):
            example_campaign(kind="ratings", suite="x", **first)


def asked(desk: Desk, worker: str) -> Question:
    question = desk.workers.question("autumn", worker, INSTRUCTIONS)
    assert question is not None
    return question


def test_the_question_comes_first_and_is_paid_whatever_the_answer(desk: Desk, clock: HandClock) -> None:
    begin(desk, comprehension=True, gold_pairs=GOLD, training=1)
    ann = come_in(desk, "ann")
    refuses(RefusalReason.CHECK_FIRST, desk.queue.next, "autumn", ann)
    question = asked(desk, ann)
    assert (question.aspect, question.tries, len(set(question.choices))) == ("color", 0, 4)
    assert question.aspect in question.choices and asked(desk, ann) == question
    right = question.choices.index("color")
    wrong = (right + 1) % 4
    ask = desk.workers.answer_question
    refuses(RefusalReason.BAD_VALUE, ask, "autumn", ann, INSTRUCTIONS, question.id, 4)
    for _ in range(2):
        # the second is the same request again, and takes no try
        assert ask("autumn", ann, INSTRUCTIONS, question.id, wrong).tries == 1
    assert paid(desk, ann) == []
    second = asked(desk, ann)
    assert second.tries == 1
    assert ask("autumn", ann, INSTRUCTIONS, second.id, right).check == "passed"
    assert ask("autumn", ann, INSTRUCTIONS, second.id, wrong).check == "passed"
    assert desk.workers.question("autumn", ann, INSTRUCTIONS) is None
    assert paid(desk, ann) == [(ExtraKind.CHECK, MINUTE)]
    assert next_task(desk, ann).training


@pytest.mark.parametrize("change", ["words", "choices"])
def test_answer_to_a_question_whose_texts_have_changed_takes_no_try(desk: Desk, change: str) -> None:
    begin(desk, comprehension=True)
    ann = come_in(desk, "ann")
    shown = asked(desk, ann)
    other = next(aspect for aspect in shown.choices if aspect != "color")
    changed = {**INSTRUCTIONS, other: "Look elsewhere."}
    if change == "choices":
        del changed[other]
    for index in range(4):
        # wherever the right answer is now, it is not counted
        session = desk.workers.answer_question("autumn", ann, changed, shown.id, index)
        assert (session.check, session.tries) == ("", 0)
    now = desk.workers.question("autumn", ann, changed)
    assert now is not None
    right = now.choices.index("color")
    assert desk.workers.answer_question("autumn", ann, changed, now.id, right).check == "passed"


def test_question_failed_twice_is_paid_and_has_its_code(desk: Desk) -> None:
    begin(desk, comprehension=True, completion_code="DONE", screen_out_code="OUT")
    ann = come_in(desk, "ann")
    refuses(RefusalReason.NOTHING_DONE, desk.workers.finish, "autumn", ann)
    first = asked(desk, ann)
    wrong = (first.choices.index("color") + 1) % 4
    desk.workers.answer_question("autumn", ann, INSTRUCTIONS, first.id, wrong)
    second = asked(desk, ann)
    for question in (first, second, second):
        desk.workers.answer_question("autumn", ann, INSTRUCTIONS, question.id, wrong)
    refuses(RefusalReason.SCREENED_OUT, desk.queue.next, "autumn", ann)
    assert paid(desk, ann) == [(ExtraKind.CHECK, MINUTE)]
    assert desk.workers.finish("autumn", ann) == "OUT"
    (row,) = desk.organiser.workers("autumn")
    assert (row.check, row.code, row.votes) == ("failed", "OUT", 0)
    # and it goes with the rest that is stored of a worker
    desk.organiser.erase("autumn", ann)
    assert desk.organiser.workers("autumn") == []


def test_question_is_paid_at_the_rate_of_tasks_with_one_pay(desk: Desk) -> None:
    # a task takes 110 s, an answer 60
    begin(desk, comprehension=True, pay_per_hour=0, pay_per_task=1.1)
    assert desk.workers.answer_pay("autumn") == MINUTE


@pytest.mark.parametrize("how", ["done", "no_tasks", "closed", "full"])
def test_a_latecomer_is_paid_once_for_coming(desk: Desk, clock: HandClock, how: str) -> None:
    begin(desk, 1, workers_per_pair=1)
    worker = come_in(desk, "ann")
    if how == "done":
        do_task(desk, clock, worker)
    elif how == "no_tasks":
        next_task(desk, worker)
    else:
        limit = {"closed": True} if how == "closed" else {"most_workers": 1, "until_certain": False}
        begin(desk, 1, workers_per_pair=1, **limit)
    late = desk.workers.enter("autumn", "prolific", "late").worker
    reason = RefusalReason(how) if how != "closed" else RefusalReason.DONE
    for _ in range(2):
        refuses(reason, desk.queue.look, "autumn", late)
    assert paid(desk, late) == [(ExtraKind.LATECOMER, MINUTE)]
    assert desk.workers.finish("autumn", late)
    assert paid(desk, worker) == [], "who has a task, or has answered one, is not too late"
    if how == "done":
        refuses(reason, desk.queue.next, "autumn", worker)
        assert paid(desk, worker) == []


def test_a_closed_campaign_takes_the_answers_to_open_tasks(desk: Desk, clock: HandClock) -> None:
    begin(desk)
    ann = come_in(desk, "ann")
    opened = next_task(desk, ann)
    begin(desk, closed=True)
    assert do_task(desk, clock, ann).vote_id == opened.id
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", ann)


def expired(desk: Desk, clock: HandClock, played_s: float) -> Sitting:
    """Return a worker whose task expired and was completed by another, after some seconds were played."""
    begin(desk, 1, workers_per_pair=1)
    ann = sit(desk, clock)
    send_all(desk, ann.task)
    if played_s:
        clock.pass_s(played_s)
        for place in ("left", "right"):
            ann.play(place, (0, played_s))
    clock.pass_s(3 * 3600)
    do_task(desk, clock, come_in(desk, "bob"))
    return ann


@pytest.mark.parametrize(("played_s", "pay"), [(0, None), (5, 0.70), (30, FULL)])
def test_late_task_is_paid_as_played(
    desk: Desk, clock: HandClock, played_s: float, pay: float | None
) -> None:
    ann = expired(desk, clock, played_s)
    for _ in range(2):
        refuses(RefusalReason.EXPIRED, ann.prefer)
    assert paid(desk, ann.task.worker) == ([(ExtraKind.LATE_TASK, pay)] if pay else [])
    # asking for the next task finds it, too
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", ann.task.worker)
    extras = paid(desk, ann.task.worker)
    assert extras.count((ExtraKind.LATE_TASK, pay)) == bool(pay)


@pytest.mark.parametrize("by_file", [False, True])
def test_late_task_with_an_answer_is_paid_as_an_answer(desk: Desk, clock: HandClock, by_file: bool) -> None:
    ann = expired(desk, clock, 30)
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", ann.task.worker)
    assert (ExtraKind.LATE_TASK, FULL) in paid(desk, ann.task.worker)
    if by_file:
        assert desk.votes.add("autumn", [file_vote(ann.task.task, ann.task.worker)]).accepted == 1
    else:
        begin(desk, 1, workers_per_pair=2)
        do_task(desk, clock, ann.task.worker)
    done = desk.workers.done("autumn", ann.task.worker)
    assert [one.kind for one in done.extras] == [ExtraKind.LATECOMER]
    assert done.pay == pytest.approx(FULL + MINUTE)
