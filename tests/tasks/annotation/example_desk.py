"""A desk with small tasks, a clock that tests set, and a worker who does everything a task requires."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.votes import Vote
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.pair_assignment import PairAssignment
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tasks.annotation.pair_task import PLACES, PairTask, PromptClip, Stretch

KEY = b"the key of an installation"
START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)


class HandClock:
    """A clock that stands still until it is moved; it may be set back."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def example_task(pair_id: str = "pair-1", aspect: str = "color", **other: Any) -> PairTask:
    """Return a pair of 30 s whose low video has two degraded stretches."""
    values: dict[str, Any] = {
        "pair_id": pair_id,
        "source_id": f"source-of-{pair_id}",
        "aspect": aspect,
        "prompt_clips": (
            PromptClip(start_s=0, end_s=10, caption="A red car <drives> & stops"),
            PromptClip(start_s=10, end_s=20, caption="A dog runs"),
            PromptClip(start_s=20, end_s=30, caption="A house"),
        ),
        "high_s": 30.0,
        "low_s": 30.0,
        "high_file": f"{pair_id}/high.mp4",
        "low_file": f"{pair_id}/low.mp4",
        "high_bytes": 300_000,
        "low_bytes": 290_000,
        "must_see": (
            Stretch(video="low", start_s=0, end_s=10, kind="degraded", note="car: red → blue"),
            Stretch(video="low", start_s=20, end_s=30, kind="degraded", note="house: white → green"),
        ),
        "first_look": ((0, 30),),
    }
    return PairTask(**{**values, **other})


def example_campaign(name: str = "autumn", **other: Any) -> Campaign:
    fixed = {"until_certain": False}
    return Campaign(**{"name": name, "release": "first", "version": 1, **fixed, **other})


def open_desk(folder: Path, clock: HandClock, url: str | None = None) -> Desk:
    return Desk.open(url or f"sqlite:///{folder / 'desk.sqlite'}", KEY, clock)


def come_in(desk: Desk, identity: str, campaign: str = "autumn", language: str = "en") -> str:
    """Let a worker enter from a platform and agree; return the worker's name."""
    worker = desk.workers.enter(campaign, "prolific", identity).worker
    desk.workers.consent(campaign, worker, language)
    return worker


def send_all(desk: Desk, assignment: PairAssignment) -> None:
    """Report that both files were sent completely."""
    for place in PLACES:
        size = assignment.task.bytes_of(assignment.side_at(place))
        desk.viewing.serve(assignment.campaign, assignment.id, place, 0, size - 1)


def watch_all(desk: Desk, clock: HandClock, assignment: PairAssignment) -> PairAssignment:
    """Send and play both videos completely, at normal speed and in real time."""
    send_all(desk, assignment)
    # a page reports from the start: if the clock was set back, time counts from its next report
    desk.viewing.play(assignment.campaign, assignment.worker, assignment.id, "left", [], 1.0)
    longest = max(assignment.task.high_s, assignment.task.low_s)
    clock.pass_s(longest)
    for place in PLACES:
        seconds = assignment.task.seconds(assignment.side_at(place))
        played = [(0.0, seconds)]
        assignment = desk.viewing.play(
            assignment.campaign, assignment.worker, assignment.id, place, played, 1.0
        )
    return assignment


def confirm_all(desk: Desk, assignment: PairAssignment) -> PairAssignment:
    for number in range(len(assignment.task.must_see)):
        assignment = desk.answers.confirm(assignment.campaign, assignment.worker, assignment.id, number)
    return assignment


def ready_to_rate(
    desk: Desk, clock: HandClock, assignment: PairAssignment, place: str = "left"
) -> PairAssignment:
    """Do everything up to the rating."""
    assignment = watch_all(desk, clock, assignment)
    assignment = desk.answers.prefer(assignment.campaign, assignment.worker, assignment.id, place)
    assignment = watch_all(desk, clock, assignment)
    return confirm_all(desk, assignment)


def do_task(desk: Desk, clock: HandClock, worker: str, rating: str = "A", campaign: str = "autumn") -> Vote:
    """Let the worker get a task and do it."""
    assignment = ready_to_rate(desk, clock, desk.queue.next(campaign, worker))
    return desk.answers.rate(campaign, worker, assignment.id, rating)


def file_vote(task: PairTask, worker: str, of: Campaign | None = None, **other: Any) -> Vote:
    """Return a vote as read from a file."""
    settings = of or example_campaign()
    values: dict[str, Any] = {
        **{"vote_id": f"file-{task.pair_id}-{worker}"[:64], "worker": worker},
        **{"campaign": settings.name, "release": settings.release, "version": settings.version},
        **{"pair_id": task.pair_id, "source_id": task.source_id, "aspect": task.aspect},
        **{"platform": "crowd", "origin": "file", "first": "high", "preferred": "high", "rating": "A"},
        "pair_duration_s": task.high_s + task.low_s,
    }
    return Vote(**{**values, **other})


def example_tasks(count: int, aspects: Iterable[str] = ("color",)) -> list[PairTask]:
    """Return a number of tasks of each aspect."""
    return [example_task(f"{aspect}-{n:03}", aspect) for aspect in aspects for n in range(count)]


def refused(reason: RefusalReason) -> pytest.RaisesExc[DeskRefusal]:
    """Expect that the desk refuses for this reason."""
    return pytest.RaisesExc(DeskRefusal, check=lambda problem: problem.reason is reason)


def refuses(reason: RefusalReason, ask: Callable[..., object], *given: object) -> None:
    """See that the desk refuses a request for this reason."""
    with refused(reason):
        ask(*given)


class Sitting:
    """A worker with an open task."""

    def __init__(self, desk: Desk, clock: HandClock, task: PairAssignment) -> None:
        self.desk, self.clock, self.task = desk, clock, task
        self.who = task.campaign, task.worker, task.id

    def send(self) -> None:
        send_all(self.desk, self.task)

    def play(self, place: str, *parts: tuple[float, float], speed: float = 1.0) -> PairAssignment:
        return self.desk.viewing.play(*self.who, place, parts, speed)

    def prefer(self, place: str = "left") -> PairAssignment:
        return self.desk.answers.prefer(*self.who, place)

    def confirm(self, number: int) -> PairAssignment:
        return self.desk.answers.confirm(*self.who, number)

    def rate(self, rating: str = "A", comment: str = "") -> Vote:
        return self.desk.answers.rate(*self.who, rating, comment)

    def get_ready(self) -> None:
        """Do everything up to the rating."""
        ready_to_rate(self.desk, self.clock, self.task)


def sit(desk: Desk, clock: HandClock, identity: str = "ann") -> Sitting:
    """Let a worker come in and get a task."""
    return Sitting(desk, clock, desk.queue.next("autumn", come_in(desk, identity)))
