"""A rate limit that all processes of all runs on a store share: one bucket an evaluator, in a file.

Requests and tokens flow in at the limit's rate. A request waits until there is one request, and no debt of
tokens; what it took is known when the answer is there, and may leave a debt that the next ones wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage_schemas.ids import digest_text
from tasks.evaluators.shared_state import SharedState

#: How much may gather while nothing is asked, in seconds of the rate.
_BURST_S = 5.0
_MINUTE = 60.0


class RateLimit:
    """Most requests and tokens a minute.

    Parameters
    ----------
    folder
        Where the bucket's file lies.
    name
        Whose limit it is.
    requests_per_minute, tokens_per_minute
        None for no limit.
    clock, sleep
        Wall-clock seconds, the same on all machines within about a second; and what waits.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rates = {"requests": requests_per_minute, "tokens": tokens_per_minute}
        self._state = SharedState(folder / f"{digest_text(name)[:24]}.json")
        self._clock, self._sleep = clock, sleep

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return any(self._rates.values())

    def wait(self, tokens: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Wait until a request may be made that takes about so many tokens; return False where it may not.

        Parameters
        ----------
        stopped
            Asked now and then whether waiting has no more sense.
        """
        while self.limited:
            if stopped():
                return False
            with self._state.change() as bucket:
                wait_s = self._flow_in(bucket)
                if wait_s <= 0:
                    self._take(bucket, 1, tokens)
                    return True
            self._sleep(min(wait_s, 1.0))
        return not stopped()

    def correct(self, expected: int, taken: int) -> None:
        """Note that a request took another number of tokens than was expected."""
        if self._rates["tokens"] and expected != taken:
            with self._state.change() as bucket:
                self._flow_in(bucket)
                self._take(bucket, 0, taken - expected)

    def _flow_in(self, bucket: dict[str, Any]) -> float:
        """Fill the bucket up to now; return how long a request has to wait, in seconds."""
        now = self._clock()
        # clocks of two machines may differ: time never runs backwards here
        passed = max(0.0, now - bucket.get("at", now))
        wait_s = 0.0
        for name, per_minute in self._rates.items():
            if not per_minute:
                continue
            most = max(per_minute * _BURST_S / _MINUTE, 1.0)
            level = min(most, bucket.get(name, most) + passed * per_minute / _MINUTE)
            bucket[name] = level
            needed = 1.0 if name == "requests" else 0.0
            wait_s = max(wait_s, (needed - level) * _MINUTE / per_minute)
        bucket["at"] = max(now, bucket.get("at", now))
        return wait_s

    def _take(self, bucket: dict[str, Any], requests: int, tokens: int) -> None:
        for name, count in (("requests", requests), ("tokens", tokens)):
            if self._rates[name]:
                bucket[name] -= count
