"""The accounting of paid requests: reserve the estimate, wait for the rate, count, and stop by rule.

One :class:`Meter` serves every kind of request: judgements, suites' scores, and the prompts of a suite.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from storage_schemas.errors import SetAside
from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from tasks.llm.limits import Counted, RateLimit, Spending
from tasks.llm.usage import Estimate, Prices

log = logging.getLogger(__name__)

#: Number of consecutive transient failures that stop the requests of a name.
MAX_IN_A_ROW = 20
#: Number of rejections for the same reason, without any answer, that stop the requests of a name.
MAX_EQUAL_REJECTIONS = 10
#: What differs between messages with the same reason: ids and sizes.
_NUMBER = re.compile(r"\b[0-9a-f-]{8,}\b|\d+")
#: Interval at which a process checks whether another one stopped the requests, in seconds.
_LOOK_EVERY_S = 1.0
_NO_PRICE = "the limit in dollars cannot be enforced: {} has no price; add it with --set prices=…"


@dataclass(frozen=True)
class Stop:
    """Why no more requests are made."""

    failure: Failure
    message: str


@dataclass(frozen=True)
class Reservation:
    """What is reserved for a request: dollars, tokens, and names of shared work that it pays for."""

    usd: float = 0.0
    tokens: int = 0
    once: frozenset[str] = frozenset()


class CountedRow(Counted, Protocol):
    """A row with the cost of a request and, if it has no answer, the reason."""

    @property
    def message(self) -> str:
        """Why there is no answer."""


class Meter:
    """Keeps the requests of one name within the limits of a run; thread-safe.

    Parameters
    ----------
    name
        Name under which the run counts: an evaluator's label, a dimension, or ``prompts``.
    spending
        The run's counts, which its processes share.
    prices
        Prices of tokens.
    rate
        Requests and tokens per minute; None for no limit.
    """

    def __init__(self, name: str, spending: Spending, prices: Prices, rate: RateLimit | None = None) -> None:
        self.name, self.spending, self.prices, self.rate = name, spending, prices, rate
        self._lock = threading.Lock()
        self._once: set[str] = set()
        self._in_a_row = 0
        self._answered, self._rejections = False, Counter[str]()
        self._stop: Stop | None = None
        self._looked = time.monotonic()

    @property
    def limited(self) -> bool:
        """Whether a limit needs estimates, which cost time."""
        return self.spending.limited or (self.rate is not None and self.rate.limited)

    @property
    def stopped(self) -> Stop | None:
        """Why requests were stopped, here or by another process; None if they were not."""
        if self._stop is None and time.monotonic() - self._looked > _LOOK_EVERY_S:
            self._looked = time.monotonic()
            if elsewhere := self.spending.stopped(self.name):
                self._stop = Stop(Failure.INTERNAL_ERROR, elsewhere)
        return self._stop

    def stop(self, message: str, failure: Failure = Failure.INTERNAL_ERROR) -> None:
        """Stop the requests; the first reason is kept."""
        with self._lock:
            if self._stop is not None:
                return
            self._stop = Stop(failure, message)
        log.info("%s: no more requests: %s", self.name, message)
        try:
            self.spending.stop(self.name, message)
        except SetAside as problem:
            # other processes cannot write there either, so each stops on its own
            log.warning("%s: the stop cannot be written: %s", self.name, problem.message)

    def reserve(self, estimates: Sequence[Estimate]) -> Reservation | None:
        """Reserve the estimated cost of a request, and wait until the rate allows it.

        Parameters
        ----------
        estimates
            Estimated cost of the request; shared work (``once``) that an earlier request pays for is left
            out.

        Returns
        -------
        Reservation | None
            None if requests were stopped; :attr:`stopped` has the reason.
        """
        with self._lock:
            new = [one for one in estimates if not one.once or one.once not in self._once]
            once = frozenset(one.once for one in new if one.once)
            self._once |= once
        usd, tokens = self.prices.of(new), sum(one.tokens_in + one.tokens_out for one in new)
        if usd is None and self.spending.limits.usd is not None:
            priceless = (one.model for one in new if self.prices.of([one]) is None)
            self.stop(_NO_PRICE.format(f"model {next(priceless)!r}"), Failure.PREREQUISITE_MISSING)
        if self.stopped is not None:
            return None
        reservation = Reservation(usd or 0.0, tokens, once)
        if not self.spending.reserve(self.name, reservation.usd, tokens):
            self.stop(self.spending.stopped(self.name), Failure.LIMIT_REACHED)
            return None
        if self.rate is not None and not self.rate.wait(tokens, lambda: self.stopped is not None):
            self.release(reservation)
            return None
        return reservation

    def release(self, reservation: Reservation) -> None:
        """Release the reservation of a request that was not made."""
        self._forget_once(reservation)
        self.spending.release(self.name, reservation.usd, reservation.tokens)

    def refuses(self, reservation: Reservation, rows: Sequence[CountedRow]) -> bool:
        """Return whether the model's own limit refused a request, which then has no row.

        If so, its reservation is released and requests are stopped.
        """
        for row in rows:
            if row.failure is Failure.LIMIT_REACHED:
                self.release(reservation)
                self.stop(row.message or "a limit is reached", Failure.LIMIT_REACHED)
                return True
        return False

    def count(self, reservation: Reservation, rows: Sequence[CountedRow]) -> None:
        """Count a request that was made, with all its rows.

        Raises
        ------
        SetAside
            If the count cannot be written; requests are stopped then.
        """
        try:
            for index, row in enumerate(rows):
                usd, tokens = (0.0, 0) if index else (reservation.usd, reservation.tokens)
                self.spending.count(self.name, row, usd, tokens)
        except SetAside as problem:
            self.stop(problem.message)
            raise
        if self.rate is not None:
            self.rate.correct(reservation.tokens, sum(_tokens_of(row) for row in rows))
        transient = [row for row in rows if row.failure in TRANSIENT_FAILURES]
        if transient:
            self._forget_once(reservation)
        with self._lock:
            stopping = self._equal_rejections(rows)
            self._in_a_row = self._in_a_row + 1 if transient else 0
            many = self._in_a_row >= MAX_IN_A_ROW
        if stopping:
            self.stop(stopping, Failure.REFUSED)
        for row in rows:
            if row.failure in (Failure.NOT_ALLOWED, Failure.QUOTA_USED_UP):
                self.stop(row.message, row.failure)
            elif self.spending.limits.usd is not None and row.cost_usd is None and row.estimated is None:
                self.stop(_NO_PRICE.format("the model of an answer"), Failure.PREREQUISITE_MISSING)
        if many:
            last = transient[-1]
            self.stop(
                f"{MAX_IN_A_ROW} requests in a row failed, the last with: {last.message}; "
                "correct the cause, then run the same command again to continue",
                last.failure or Failure.INTERNAL_ERROR,
            )

    def _equal_rejections(self, rows: Sequence[CountedRow]) -> str:
        """Return why to stop if all requests were rejected for one reason: no single request is the cause."""
        for row in rows:
            if row.failure is not Failure.REFUSED:
                self._answered = self._answered or row.failure is None
                continue
            reason = _NUMBER.sub("#", row.message)
            self._rejections[reason] += 1
            if not self._answered and self._rejections[reason] == MAX_EQUAL_REJECTIONS:
                return (
                    f"the server rejected {MAX_EQUAL_REJECTIONS} requests for the same reason, and answered "
                    f"none: {row.message}; correct the cause, then run the same command again with "
                    "`--retry refused`"
                )
        return ""

    def _forget_once(self, reservation: Reservation) -> None:
        """Let the next request reserve shared work again, since it may not have been done."""
        with self._lock:
            self._once -= reservation.once


def _tokens_of(row: CountedRow) -> int:
    """Return the tokens of a row, estimated where its server did not count them."""
    one = row.estimated or row
    return one.tokens_in + one.tokens_out
