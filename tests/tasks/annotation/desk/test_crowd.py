"""Many concurrent workers, and a process that is killed while they vote: no acknowledged vote is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage_schemas.votes import Vote
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.refusals import DeskRefusal
from tests.tasks.annotation.example_desk import (
    HandClock,
    come_in,
    confirm_all,
    example_campaign,
    example_tasks,
    open_desk,
    watch_all,
)

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("workers", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_many_workers_at_once_lose_no_vote(desk: Desk, clock: HandClock, workers: int) -> None:
    tasks = [
        task.model_copy(update={"must_see": task.must_see[:1]})
        for task in example_tasks(workers // 10, ("color", "style"))
    ]
    desk.organiser.publish(example_campaign(workers_per_pair=5), tasks)
    together = threading.Barrier(workers, timeout=120)
    read: list[list[int]] = []
    done = threading.Event()

    def work(name: str) -> Vote:
        worker = come_in(desk, name)
        assignment = desk.queue.next("autumn", worker)
        together.wait()
        assignment = watch_all(desk, clock, assignment)
        assignment = desk.answers.prefer("autumn", worker, assignment.id, "left")
        confirm_all(desk, watch_all(desk, clock, assignment))
        together.wait()
        return desk.answers.rate("autumn", worker, assignment.id, "A")

    def follow() -> None:
        """Read new votes repeatedly."""
        last, ended = 0, False
        while not ended:
            ended = done.wait(0.02)
            read.append([number for number, _ in desk.votes.read("autumn", after=last)])
            last = max([last, *read[-1]])

    with ThreadPoolExecutor(workers + 1) as pool:
        follower = pool.submit(follow)
        try:
            acknowledged = list(pool.map(work, [f"worker-{n}" for n in range(workers)]))
        finally:
            done.set()
        follower.result(60)
    stored = desk.votes.read("autumn")
    assert [number for number, _ in stored] == list(range(1, workers + 1))
    assert sorted(vote.vote_id for _, vote in stored) == sorted(vote.vote_id for vote in acknowledged)
    # who follows the numbers misses none
    assert [number for part in read for number in part] == list(range(1, workers + 1))
    assert Counter(vote.pair_id for vote in acknowledged) == {
        task.pair_id: 5 for task in desk.campaigns.tasks("autumn")
    }, "as many places as workers: each pair has exactly its five"
    events = desk.events.read("autumn")
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert Counter(event.kind.value for event in events)["rated"] == workers


def test_one_worker_in_many_tabs_gets_one_task_and_gives_one_vote(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(5))
    worker = come_in(desk, "ann")
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: desk.queue.next("autumn", worker), range(8)))
        assert len({one.id for one in opened}) == 1
        watched = watch_all(desk, clock, opened[0])
        desk.answers.prefer("autumn", worker, watched.id, "left")
        confirm_all(desk, watch_all(desk, clock, watched))

        def answer(rating: str) -> str:
            try:
                return desk.answers.rate("autumn", worker, watched.id, rating).rating
            except DeskRefusal as refusal:
                return refusal.reason.value

        counts = Counter(pool.map(answer, "AABBCCAA"))
    ((_, vote),) = desk.votes.read("autumn")
    assert counts[vote.rating] == {"A": 4, "B": 2, "C": 2}[vote.rating]
    assert counts["other_answer"] == 8 - counts[vote.rating]


@pytest.mark.slow
def test_killed_process_loses_no_acknowledged_vote(desk_url: str, tmp_path: Path, clock: HandClock) -> None:
    with open_desk(tmp_path, clock, desk_url) as desk:
        desk.organiser.publish(example_campaign(workers_per_pair=4), example_tasks(200))
    acknowledged: list[str] = []
    for first in (0, 0):  # the second time they come back
        command = [sys.executable, "-m", "tests.tasks.annotation.desk.voting_process", desk_url, str(first)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(12):
                line = process.stdout.readline()
                assert line.endswith("\n"), "the process ended by itself"
                acknowledged.append(line.strip())
            process.send_signal(signal.SIGKILL)
            # the last line may be incomplete; a complete one was acknowledged
            acknowledged += process.stdout.read().split("\n")[:-1]
            assert process.wait(60) == -signal.SIGKILL
    with open_desk(tmp_path, clock, desk_url) as desk:
        stored = desk.votes.read("autumn")
        ids = {vote.vote_id for _, vote in stored}
        assert set(acknowledged) <= ids
        assert len(acknowledged) >= 24
        assert len(ids) <= len(acknowledged) + 2 * 4, "at most one a worker was stored and not yet said"
        assert [number for number, _ in stored] == list(range(1, len(stored) + 1))
        counted = Counter(vote.pair_id for _, vote in stored)
        assert {row.pair_id: row.votes for row in desk.organiser.progress("autumn") if row.votes} == counted
        rated = [event.assignment for event in desk.events.read("autumn") if event.kind.value == "rated"]
        assert sorted(rated) == sorted(ids), "vote and record are one transaction"
