"""Entering, consent, links, the code at the end, and the log of events."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
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
    refused,
    refuses,
)


@pytest.fixture
def open_to_all(desk: Desk) -> Desk:
    """A desk whose campaign has one pair."""
    desk.organiser.publish(example_campaign(), [example_task()])
    return desk


def test_a_worker_is_a_keyed_hash_and_comes_back_as_the_same(open_to_all: Desk) -> None:
    workers = open_to_all.workers
    first = workers.enter("autumn", "prolific", "5f3a", study="S1", session="X")
    again = workers.enter("autumn", "prolific", " 5f3a ")
    assert (first.returning, again.returning) == (False, True)
    assert first.worker == again.worker == worker_hash(KEY, "prolific", "5f3a")
    assert len(first.worker) == 32
    assert "5f3a" not in first.worker
    others = {workers.name_of("mturk", "5f3a"), workers.name_of("prolific", "5f3b")}
    assert len({first.worker, *others, worker_hash(KEY + b"!", "prolific", "5f3a")}) == 4
    assert [event.kind for event in open_to_all.events.read("autumn")][1:] == [EventKind.ENTERED]


def test_unknown_workers_and_campaigns_are_refused(open_to_all: Desk) -> None:
    desk = open_to_all
    for platform, identity in (("a:b", "c"), ("", "c"), ("prolific", "  "), ("x" * 65, "c")):
        refuses(RefusalReason.BAD_LINK, desk.workers.enter, "autumn", platform, identity)
    for name in ("winter", "", "../autumn", "a\x00", "\ud800"):
        refuses(RefusalReason.UNKNOWN_CAMPAIGN, desk.workers.enter, name, "prolific", "x")
        with pytest.raises(UserInputError, match=r"there is no campaign .* autumn"):
            desk.votes.read(name)
    for worker in ("0" * 32, "", "\x00", "\ud800", "no such worker"):
        for ask in (desk.workers.get, desk.queue.next, desk.workers.finish):
            refuses(RefusalReason.UNKNOWN_WORKER, ask, "autumn", worker)


def test_a_link_is_for_one_worker_who_may_come_back(open_to_all: Desk) -> None:
    workers = open_to_all.workers
    one, other, third = open_to_all.organiser.invite("autumn", 3, note="students")
    assert one != other
    assert len(one) >= 20
    here = workers.enter("autumn", "link", one, token=one)
    assert workers.enter("autumn", "link", one).worker == here.worker
    assert workers.enter("autumn", "link", other).worker != here.worker
    for wrong in ("", "x", one[:-1], one + "\x00", one.swapcase(), "\ud800"):
        with refused(RefusalReason.BAD_LINK):
            workers.enter("autumn", "link", wrong, token=wrong)
    # one that came with a platform belongs to who used it first
    here = workers.enter("autumn", "prolific", "ann", token=third)
    assert workers.enter("autumn", "prolific", "ann", token=third).worker == here.worker
    with refused(RefusalReason.LINK_USED):
        workers.enter("autumn", "prolific", "bob", token=third)
    refuses(RefusalReason.UNKNOWN_WORKER, workers.get, "autumn", workers.name_of("prolific", "bob"))
    for count in (0, -1, 100_001):
        with pytest.raises(UserInputError, match="cannot create"):
            open_to_all.organiser.invite("autumn", count)


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


def test_no_task_before_the_consent(open_to_all: Desk) -> None:
    desk = open_to_all
    worker = desk.workers.enter("autumn", "prolific", "x").worker
    refuses(RefusalReason.NO_CONSENT, desk.queue.next, "autumn", worker)
    desk.workers.set_language("autumn", worker, "ja")
    refuses(RefusalReason.NO_CONSENT, desk.queue.next, "autumn", worker)
    refuses(RefusalReason.BAD_VALUE, desk.workers.consent, "autumn", worker, "fr")
    assert desk.workers.consent("autumn", worker, "ja").consented
    assert desk.queue.next("autumn", worker).language == "ja"
    assert desk.workers.consent("autumn", worker, "en").language == "en"
    kinds = [event.kind for event in desk.events.read("autumn") if event.worker]
    assert kinds.count(EventKind.CONSENTED) == 1, "who agreed has agreed"


def test_the_code_comes_after_the_first_task_and_stays_the_same(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(2))
    ann, bob = come_in(desk, "ann"), come_in(desk, "bob")
    refuses(RefusalReason.NOTHING_DONE, desk.workers.finish, "autumn", ann)
    do_task(desk, clock, ann)
    do_task(desk, clock, bob)
    code = desk.workers.finish("autumn", ann)
    assert len(code) == 8
    assert desk.workers.finish("autumn", ann) == code != desk.workers.finish("autumn", bob)
    events = desk.events.read("autumn")
    assert [event.worker for event in events if event.kind is EventKind.FINISHED] == [ann, bob]
    # events have numbers without gaps, and are read in parts
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert events[0].kind is EventKind.PUBLISHED
    kinds = [event.kind.value for event in events if event.worker == ann]
    assert kinds == [
        "entered",
        "consented",
        "opened",
        "preferred",
        "confirmed",
        "confirmed",
        "rated",
        "finished",
    ]
    assert desk.events.read("autumn", after=3, most=2) == events[3:5]
    assert desk.events.read("autumn", after=len(events)) == []
    desk.organiser.publish(example_campaign(completion_code="C0FFEE"), example_tasks(2))
    assert desk.workers.finish("autumn", ann) == desk.workers.finish("autumn", bob) == "C0FFEE"
