from __future__ import annotations

import threading

import pytest

from slvmeval.web.annotation import security
from slvmeval.web.annotation.security import Limiter


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_allowed_and_then_one_after_the_other() -> None:
    clock = Seconds()
    limiter = Limiter(clock)
    assert [limiter.wait_s("worker", "a", 60) for _ in range(60)] == [0.0] * 60
    assert limiter.wait_s("worker", "a", 60) == 1.0
    clock.now += 0.5
    assert limiter.wait_s("worker", "a", 60) == 0.5
    clock.now += 0.5
    assert limiter.wait_s("worker", "a", 60) == 0.0
    assert limiter.wait_s("worker", "a", 60) > 0
    clock.now += 3600
    assert [limiter.wait_s("worker", "a", 60) for _ in range(61)].count(0.0) == 60


def test_others_and_other_kinds_are_counted_by_themselves() -> None:
    limiter = Limiter(Seconds())
    asked = (("worker", "a"), ("worker", "a"), ("worker", "b"), ("address", "a"))
    assert [limiter.wait_s(kind, who, 1) for kind, who in asked] == [0.0, 60.0, 0.0, 0.0]


def test_zero_is_not_a_limit_and_looking_counts_nothing() -> None:
    limiter = Limiter(Seconds())
    assert not any(limiter.wait_s("worker", "a", 0) for _ in range(1000))
    assert not any(limiter.full("attempts", "a", 2) for _ in range(10))
    assert limiter.wait_s("attempts", "a", 2) == limiter.wait_s("attempts", "a", 2) == 0.0
    assert limiter.full("attempts", "a", 2) == 30.0
    assert limiter.full("attempts", "a", 0) == 0.0


def test_memory_ends_somewhere_and_who_is_at_the_limit_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "_MAX_COUNTERS", 500)
    clock = Seconds()
    limiter = Limiter(clock)
    for _ in range(2):
        limiter.wait_s("address", "attacker", 1)
    for number in range(security._MAX_COUNTERS + 10):
        clock.now += 1e-6
        limiter.wait_s("address", f"{number}", 1000)
        if number % 100 == 0:
            limiter.wait_s("address", "attacker", 1)
    assert len(limiter._left) <= security._MAX_COUNTERS
    assert limiter.full("address", "attacker", 1) > 0


def test_threads_together_get_no_more_than_one_alone() -> None:
    limiter = Limiter(Seconds())
    allowed: list[bool] = []

    def ask() -> None:
        allowed.extend(limiter.wait_s("worker", "a", 150) == 0.0 for _ in range(100))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 150
