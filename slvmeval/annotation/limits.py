"""How many requests somebody may make a minute. Each process counts for itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Whoever was counted is forgotten from so many on, where nothing is held against them.
_MOST_KEPT = 20_000


class Limiter:
    """Buckets that fill evenly: who waits may do as much again.

    Parameters
    ----------
    clock
        Gives seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[tuple[str, str], tuple[float, float, int]] = {}

    def wait_s(self, kind: str, who: str, a_minute: int) -> float:
        """Count one request of `who`; return 0 if it may be, else in how many seconds the next one may be.

        Parameters
        ----------
        kind
            What is counted: the same `who` has a bucket for each.
        who
            A worker or an address.
        a_minute
            Requests a minute, also how many may come at once; 0 is any number.
        """
        if not a_minute:
            return 0.0
        with self._lock:
            now = self._clock()
            left = self._now(now, self._left.get((kind, who)), a_minute)
            allowed = left >= 1
            self._left[kind, who] = (left - allowed, now, a_minute)
            if len(self._left) > _MOST_KEPT:
                self._forget(now)
        return 0.0 if allowed else (1 - left) * 60 / a_minute

    def full(self, kind: str, who: str, a_minute: int) -> float:
        """Return in how many seconds the next request may be, counting none."""
        with self._lock:
            left = self._now(self._clock(), self._left.get((kind, who)), a_minute)
        return 0.0 if not a_minute or left >= 1 else (1 - left) * 60 / a_minute

    @staticmethod
    def _now(now: float, known: tuple[float, float, int] | None, a_minute: int) -> float:
        if known is None:
            return float(a_minute)
        left, then, _ = known
        return min(float(a_minute), left + (now - then) * a_minute / 60)

    def _forget(self, now: float) -> None:
        kept = {key: one for key, one in self._left.items() if self._now(now, one, one[2]) < one[2]}
        # all of them at their limit: the oldest go, so that memory ends somewhere
        newest = sorted(kept.items(), key=lambda item: item[1][1])[-_MOST_KEPT // 2 :]
        self._left = dict(newest)
