"""Haste: workers are compared with themselves, and a break or a new worker means nothing."""

from __future__ import annotations

import pytest

from storage_schemas.rng import keyed_rng
from storage_schemas.votes import Vote
from tasks.votes.haste import MAX_RATIO, MIN_TASKS, haste
from tests.tasks.votes.voting import vote


def timed(worker: str, *seconds: float | None) -> list[Vote]:
    """Return a vote of a worker for each time, a minute after the other."""
    return [
        vote(f"film/{n}", worker, total_s=one, at=f"2026-03-02T09:{n:02}:00+00:00")
        for n, one in enumerate(seconds)
    ]


def steady(worker: str, tasks: int = 12) -> list[float]:
    rng = keyed_rng("steady", worker)
    return [float(100 * rng.uniform(0.8, 1.25)) for _ in range(tasks)]


#: They tell how much times differ.
OTHERS = [one for n in range(8) for one in timed(f"other {n}", *steady(f"other {n}"))]


def test_a_worker_who_becomes_faster_hurries_and_others_do_not() -> None:
    found = haste([*timed("fast", *steady("fast"), 45.0, 50.0), *OTHERS])
    assert found["fast"] == MAX_RATIO
    assert max(found[f"other {n}"] for n in range(8)) < 3
    # the last tasks count, not that the worker has ever been fast
    slower = haste([*timed("fast", *steady("fast"), 45.0, 50.0, *steady("again", 6)), *OTHERS])
    assert slower["fast"] < 1


def test_a_worker_who_was_always_fast_does_not_hurry_and_a_break_is_not_haste() -> None:
    fast = [one / 3 for one in steady("always")]
    away = [*steady("away", 6), 5000.0, *steady("back", 6)]
    found = haste([*timed("always", *fast), *timed("away", *away), *OTHERS])
    assert found["always"] < 2 > found["away"]


def test_few_or_untimed_tasks_say_nothing() -> None:
    few, untimed = timed("few", *[100.0] * MIN_TASKS), timed("untimed", *[None] * 12)
    undated = [one.model_copy(update={"at": ""}) for one in timed("undated", *steady("fast"), 20.0, 20.0)]
    assert haste([*few, *untimed, *undated]) == {}
    assert haste([]) == {}


def test_the_order_of_the_votes_decides_nothing_and_equal_times_are_fine() -> None:
    votes = [*timed("fast", *steady("fast"), 45.0, 50.0), *OTHERS]
    assert haste(votes[::-1]) == pytest.approx(haste(votes))
    assert haste(timed("same", *[100.0] * 12)) == {"same": 0.0}
