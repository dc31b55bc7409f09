"""The accounting of paid requests: estimate, reserve, wait for the rate, count, and stop when a rule says so.

One :class:`Meter` serves every kind of request: judgements, scores of suites, and the prompts of a suite.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from storage_schemas.errors import SetAside
from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from tasks.llm.limits import Counted, RateLimit, Spending
from tasks.llm.usage import Estimate, Prices

log = logging.getLogger(__name__)

#: So many transient failures in a row stop all further requests under a name.
MOST_IN_A_ROW = 20
#: How long a process may not notice that another one stopped the requests, in seconds.
_LOOK_EVERY_S = 1.0
_NO_PRICE = "the limit in dollars cannot be kept: {} has no price; add it with --prices"


@dataclass(frozen=True)
class Stop:
    """Why no more requests are made."""

    failure: Failure
    message: str


@dataclass(frozen=True)
class Reservation:
    """What was set aside for a request: dollars, tokens, and the names of work that it pays for once."""

    usd: float = 0.0
    tokens: int = 0
    once: frozenset[str] = frozenset()


class CountedRow(Counted, Protocol):
    """A row that says what a request took and, without an answer, why."""

    @property
    def message(self) -> str:
        """What happened, for a person."""


class Meter:
    """Keeps the requests of one name within the limits of a run; threads may share one.

    Parameters
    ----------
    name
        Under which the run counts: an evaluator's label, a dimension, ``prompts``.
    spending
        What the run spends; its processes share it.
    prices
        What tokens cost.
    rate
        Requests and tokens a minute; None for no limit.
    """

    def __init__(self, name: str, spending: Spending, prices: Prices, rate: RateLimit | None = None) -> None:
        self.name, self.spending, self.prices, self.rate = name, spending, prices, rate
        self._lock = threading.Lock()
        self._once: set[str] = set()
        self._in_a_row = 0
        self._stop: Stop | None = None
        self._looked = time.monotonic()

    @property
    def limited(self) -> bool:
        """Whether a limit needs estimates; making them costs time."""
        return self.spending.limited or (self.rate is not None and self.rate.limited)

    @property
    def stopped(self) -> Stop | None:
        """Why no more requests are made, here or by another process; None while they are."""
        if self._stop is None and time.monotonic() - self._looked > _LOOK_EVERY_S:
            self._looked = time.monotonic()
            if elsewhere := self.spending.stopped(self.name):
                self._stop = Stop(Failure.INTERNAL_ERROR, elsewhere)
        return self._stop

    def stop(self, message: str, failure: Failure = Failure.INTERNAL_ERROR) -> None:
        """Let no more requests be made; the first reason stays."""
        with self._lock:
            if self._stop is not None:
                return
            self._stop = Stop(failure, message)
        log.info("%s: no more requests: %s", self.name, message)
        try:
            self.spending.stop(self.name, message)
        except SetAside as problem:
            # other processes cannot write there either, so each finds out for itself
            log.warning("%s: the stop cannot be written: %s", self.name, problem.message)

    def reserve(self, estimates: Sequence[Estimate]) -> Reservation | None:
        """Set aside what a request is expected to take, and wait until the rate allows it.

        Parameters
        ----------
        estimates
            What the request takes; parts that an earlier request pays for (``once``) are left out.

        Returns
        -------
        Reservation | None
            None where no request may be made any more; :attr:`stopped` says why.
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
        held = Reservation(usd or 0.0, tokens, once)
        if not self.spending.reserve(self.name, held.usd, tokens):
            self.stop(self.spending.stopped(self.name), Failure.LIMIT_REACHED)
            return None
        if self.rate is not None and not self.rate.wait(tokens, lambda: self.stopped is not None):
            self.release(held)
            return None
        return held

    def release(self, held: Reservation) -> None:
        """Give back what was set aside for a request that was not made."""
        self._forget_once(held)
        self.spending.release(self.name, held.usd, held.tokens)

    def refuses(self, held: Reservation, rows: Sequence[CountedRow]) -> bool:
        """Tell whether a limit of the model's own refused a request: then it is no answer, and left.

        What was set aside is given back, and no more requests are made.
        """
        for row in rows:
            if row.failure is Failure.LIMIT_REACHED:
                self.release(held)
                self.stop(row.message or "a limit is reached", Failure.LIMIT_REACHED)
                return True
        return False

    def count(self, held: Reservation, rows: Sequence[CountedRow]) -> None:
        """Count a request that was made; it may have given several rows.

        Raises
        ------
        SetAside
            If the count cannot be written; no more requests are made then.
        """
        try:
            for place, row in enumerate(rows):
                usd, tokens = (0.0, 0) if place else (held.usd, held.tokens)
                self.spending.count(self.name, row, usd, tokens)
        except SetAside as problem:
            self.stop(problem.message)
            raise
        if self.rate is not None:
            self.rate.correct(held.tokens, sum(row.tokens_in + row.tokens_out for row in rows))
        transient = [row for row in rows if row.failure in TRANSIENT_FAILURES]
        if transient:
            self._forget_once(held)
        with self._lock:
            self._in_a_row = self._in_a_row + 1 if transient else 0
            many = self._in_a_row >= MOST_IN_A_ROW
        for row in rows:
            if row.failure is Failure.NOT_ALLOWED:
                self.stop(row.message, Failure.NOT_ALLOWED)
            elif self.spending.limits.usd is not None and row.cost_usd is None:
                self.stop(_NO_PRICE.format("the model of an answer"), Failure.PREREQUISITE_MISSING)
        if many:
            last = transient[-1]
            self.stop(
                f"{MOST_IN_A_ROW} requests in a row failed; once that is fixed the same command goes on; "
                f"the last one: {last.message}",
                last.failure or Failure.INTERNAL_ERROR,
            )

    def _forget_once(self, held: Reservation) -> None:
        """Shared work that may not have been done is set aside again by the next request."""
        with self._lock:
            self._once -= held.once
