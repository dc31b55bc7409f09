"""Limits that all processes of a run share: dollars, tokens, and requests and tokens per minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from storage_schemas.ids import digest_text
from storage_schemas.judgements import EstimatedTokens, Failure
from storage_schemas.model import Frozen
from tasks.llm.shared_state import SharedState

#: How often counts are written if there is no limit, in seconds.
_FLUSH_EVERY_S = 0.5


class Counted(Protocol):
    """The cost of a request: of a judgement, a suite's score, or another answer."""

    @property
    def failure(self) -> Failure | None:
        """Why there is no answer."""

    @property
    def cost_usd(self) -> float | None:
        """Dollars; None if unknown."""

    @property
    def tokens_in(self) -> int:
        """Tokens of the request."""

    @property
    def tokens_out(self) -> int:
        """Tokens of the answer."""

    @property
    def estimated(self) -> EstimatedTokens | None:
        """Estimated usage if the server did not count the tokens; None if it did."""


class Limits(Frozen):
    """Maximum dollars and tokens of one run, over all evaluators; None for no limit."""

    usd: float | None = None
    tokens: int | None = None


class Spending:
    """Counts the requests of a run by evaluator, and keeps them within the limits.

    The estimated cost of a request is reserved before it is made; its actual cost is counted afterwards. So a
    limit is exceeded only by as much as estimates were too low.

    Parameters
    ----------
    path
        The run's file.
    limits
        The limits.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self._state, self.limits = SharedState(path), limits
        self._lock, self._flushed = threading.Lock(), 0.0
        self._waiting: list[tuple[str, Counted, float, int]] = []

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self.limits.usd is not None or self.limits.tokens is not None

    def reserve(self, name: str, usd: float, tokens: int) -> bool:
        """Reserve the estimated cost of a request; return False if a limit does not allow it.

        An evaluator without estimates is stopped once a limit is reached, if it has spent anything.
        """
        if not self.limited:
            return True
        with self._state.change() as state:
            counts = _counts(state, name)
            everyone = state["evaluators"].values()
            spent_usd = sum(one["usd"] + one["reserved_usd"] for one in everyone)
            spent_tokens = sum(one["tokens"] + one["reserved_tokens"] for one in everyone)
            pays = usd > 0 or tokens > 0 or counts["usd"] > 0 or counts["tokens"] > 0
            over_usd = self.limits.usd is not None and (
                spent_usd + usd > self.limits.usd or spent_usd >= self.limits.usd
            )
            over_tokens = self.limits.tokens is not None and (
                spent_tokens + tokens > self.limits.tokens or spent_tokens >= self.limits.tokens
            )
            if pays and (over_usd or over_tokens):
                limit = f"{self.limits.usd} dollars" if over_usd else f"{self.limits.tokens} tokens"
                why = (
                    self._too_small(usd, tokens)
                    or f"the limit of {limit} is reached: run the same command again to continue"
                )
                counts["stopped"] = counts["stopped"] or why
                return False
            counts["reserved_usd"] += usd
            counts["reserved_tokens"] += tokens
            return True

    def _too_small(self, usd: float, tokens: int) -> str:
        """Return which limit is too small for a single request of this cost; empty if none is."""
        for limit, needed, unit, shown in (
            (self.limits.usd, usd, "dollars", f"{usd:.6f}"),
            (self.limits.tokens, tokens, "tokens", f"{tokens}"),
        ):
            if limit is not None and (needed > limit or not limit):
                return (
                    f"the limit of {limit} {unit} is too small for the next request, which is expected to "
                    f"take {shown}: give a higher one"
                )
        return ""

    def release(self, name: str, usd: float, tokens: int) -> None:
        """Release the reservation of a request that was not made."""
        if self.limited:
            with self._state.change() as state:
                _give_back(_counts(state, name), usd, tokens)

    def count(self, name: str, row: Counted, usd: float, tokens: int) -> None:
        """Count a request that was made, and release its reservation; see :meth:`flush`."""
        with self._lock:
            self._waiting.append((name, row, usd, tokens))
            recent = time.monotonic() - self._flushed < _FLUSH_EVERY_S
        # without a limit, no process needs the count at once
        if self.limited or not recent:
            self.flush()

    def flush(self) -> None:
        """Write the counts."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._flushed = time.monotonic()
        if not waiting:
            return
        with self._state.change() as state:
            for name, row, usd, tokens in waiting:
                counts = _counts(state, name)
                _give_back(counts, usd, tokens)
                counts["asked"] += 1
                counts["failed"] += row.failure is not None
                # a judgement's attempts whose tokens were not counted cost what was expected
                lost = getattr(row, "lost", 0)
                counts["usd"] += (row.cost_usd or 0.0) + lost * usd
                counts["tokens"] += row.tokens_in + row.tokens_out + lost * tokens
                if row.estimated is not None:
                    _count_estimate(counts, row, row.estimated, usd, tokens)
                else:
                    counts["unpriced"] += row.cost_usd is None and row.tokens_in + row.tokens_out > 0

    def stop(self, name: str, message: str) -> None:
        """Stop an evaluator's requests; the first message is kept."""
        with self._state.change() as state:
            counts = _counts(state, name)
            counts["stopped"] = counts["stopped"] or message

    def stopped(self, name: str) -> str:
        """Return why an evaluator's requests were stopped; empty if they were not."""
        return str(self.counts().get(name, {}).get("stopped", ""))

    def counts(self) -> dict[str, dict[str, Any]]:
        """Return by evaluator: asked, failed, usd, tokens, unpriced, estimated, stopped."""
        counts: dict[str, dict[str, Any]] = self._state.read().get("evaluators", {})
        return counts

    def remove(self) -> None:
        """Remove the run's file."""
        self._state.remove()


def _counts(state: dict[str, Any], name: str) -> dict[str, Any]:
    counts: dict[str, Any] = state.setdefault("evaluators", {}).setdefault(
        name,
        {
            "asked": 0,
            "failed": 0,
            "usd": 0.0,
            "tokens": 0,
            "unpriced": 0,
            "estimated": 0,
            "reserved_usd": 0.0,
            "reserved_tokens": 0,
            "stopped": "",
        },
    )
    return counts


def _count_estimate(
    counts: dict[str, Any], row: Counted, estimated: EstimatedTokens, usd: float, tokens: int
) -> None:
    """Count an uncounted answer by the larger of its reservation and its own estimate."""
    counted = row.tokens_in + row.tokens_out
    counts["tokens"] += max(tokens, estimated.tokens_in + estimated.tokens_out) - counted
    counts["usd"] += max(usd, estimated.usd or 0.0)
    counts["estimated"] += 1
    counts["unpriced"] += estimated.usd is None and not usd


def _give_back(counts: dict[str, Any], usd: float, tokens: int) -> None:
    counts["reserved_usd"] = max(0.0, counts["reserved_usd"] - usd)
    counts["reserved_tokens"] = max(0, counts["reserved_tokens"] - tokens)


#: Capacity of a bucket, in seconds of its rate.
_BURST_S = 5.0
_MINUTE = 60.0


class RateLimit:
    """Maximum requests and tokens per minute, as token buckets in a shared file.

    Parameters
    ----------
    folder
        Folder of the bucket's file.
    name
        Name of what is limited.
    requests_per_minute, tokens_per_minute
        None for no limit.
    clock, sleep
        Wall clock in seconds, equal on all machines within about a second; and the function that waits.
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
        """Whether there is any limit."""
        return any(self._rates.values())

    def wait(self, tokens: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Wait until a request of about `tokens` tokens may be made; return False if the wait was stopped.

        Parameters
        ----------
        stopped
            Called periodically; True ends the wait.
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
        """Correct the bucket for a request whose tokens differ from the estimate."""
        if self._rates["tokens"] and expected != taken:
            with self._state.change() as bucket:
                self._flow_in(bucket)
                self._take(bucket, 0, taken - expected)

    def _flow_in(self, bucket: dict[str, Any]) -> float:
        """Refill the bucket up to now; return how long a request must wait, in seconds."""
        now = self._clock()
        # clocks of two machines may differ; time must not run backwards here
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
