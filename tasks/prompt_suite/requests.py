"""Requests for prompts: asked again where an answer does not fit, within the limits of a run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from storage_schemas.errors import Reason, SetAside
from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from tasks.llm.conversation import Asker, DryRunAsker, LiveAsker, Step
from tasks.llm.limits import Limits, Spending
from tasks.llm.usage import Estimate, NotJudged, Prices
from tasks.prompt_suite.settings import PromptSuiteSettings
from tasks.scoring.suites.base import not_readable

log = logging.getLogger(__name__)

#: So many requests in a row that fail for a reason that lies with the server end a run, as in a suite.
MOST_IN_A_ROW = 20
#: Where nothing can be kept, nothing more is paid for.
_NOT_WRITTEN = (Reason.OUT_OF_SPACE, Reason.READ_ONLY_STORE)
_NAME = "prompts"
_NO_PRICE = "the limit in dollars cannot be kept: model {!r} has no price; add it with --prices"


class Stopped(Exception):
    """The run asks nobody any more; the message says why, and what goes on."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(failure, message)
        self.failure, self.message = failure, message


@dataclass(frozen=True)
class RequestUsage:
    """What one request took; no dollars where its model has no price."""

    failure: Failure | None
    tokens_in: int
    tokens_out: int
    cost_usd: float | None


@dataclass
class Budget:
    """What all videos of one run may take together, and what ends the run."""

    spending: Spending
    prices: Prices
    _stopped: Stopped | None = None
    _in_a_row: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self, why: str, failure: Failure = Failure.INTERNAL_ERROR) -> None:
        """Let no more requests be made; the first reason stays."""
        with self._lock:
            if self._stopped is None:
                log.info("no more requests: %s", why)
                self._stopped = Stopped(failure, why)

    def set_aside(self, estimate: Estimate) -> tuple[float, int]:
        """Return the dollars and tokens that were set aside for a request.

        Raises
        ------
        Stopped
            If the run has ended, or ends here because the request would pass a limit.
        """
        usd, tokens = self.prices.of([estimate]), estimate.tokens_in + estimate.tokens_out
        if usd is None and self.spending.limits.usd is not None:
            self.stop(_NO_PRICE.format(estimate.model), Failure.PREREQUISITE_MISSING)
        if self._stopped is None and not self.spending.reserve(_NAME, usd or 0.0, tokens):
            # a limit is each run's
            why = too_small(self.spending.limits, usd or 0.0, tokens) or (
                f"{self.spending.stopped(_NAME)}: the same command goes on"
            )
            self.stop(why, Failure.LIMIT_REACHED)
        if self._stopped is not None:
            raise Stopped(self._stopped.failure, self._stopped.message)
        return usd or 0.0, tokens

    def count(self, taken: RequestUsage, usd: float, tokens: int, message: str = "") -> None:
        """Count a request that was made, for which so much was set aside.

        Raises
        ------
        SetAside
            If the count cannot be written; the run ends then.
        """
        try:
            self.spending.count(_NAME, taken, usd, tokens)
        except SetAside as problem:
            self.stop(problem.message)
            raise
        with self._lock:
            self._in_a_row = self._in_a_row + 1 if taken.failure in TRANSIENT_FAILURES else 0
            many = self._in_a_row >= MOST_IN_A_ROW
        if taken.failure is Failure.NOT_ALLOWED:
            self.stop(message, taken.failure)
        elif many and taken.failure is not None:
            self.stop(
                f"{MOST_IN_A_ROW} requests in a row failed; when that is mended the same command goes on; "
                f"the last one: {message}",
                taken.failure,
            )


@dataclass
class Paying:
    """Asks for one video within the budget; answers that are kept are given out even when it is spent.

    Parameters
    ----------
    usd
        What was paid until now; None where a model has no price.
    """

    asking: LiveAsker
    budget: Budget
    usd: float | None = 0.0

    def ask(self, step: Step) -> Any:
        """Return an answer.

        Raises
        ------
        Stopped
            If it is not kept, and nothing more is asked.
        NotJudged
            As :meth:`LiveAsker.ask`.
        SetAside
            If the video cannot be read, or an answer cannot be kept, which ends the run.
        """
        dry = DryRunAsker(self.asking.roles)
        dry.ask(step)
        if not dry.estimates:
            return self.asking.ask(step)
        (estimate,) = dry.estimates
        usd, tokens = self.budget.set_aside(estimate)
        before = self.asking.usage().tokens()
        failure: Failure | None = Failure.INTERNAL_ERROR
        message = ""
        try:
            answer = self.asking.ask(step)
            failure = None
        except NotJudged as problem:
            failure, message = problem.failure, problem.message
            raise
        except SetAside as problem:
            why = not_readable(problem)
            failure, message = why.failure, why.message
            if problem.reason in _NOT_WRITTEN:
                self.budget.stop(problem.message)
            raise
        finally:
            into, out = (now - then for now, then in zip(self.asking.usage().tokens(), before, strict=True))
            cost = self.budget.prices.cost(estimate.model, into, out)
            self.usd = None if cost is None or self.usd is None else self.usd + cost
            self.budget.count(RequestUsage(failure, into, out, cost), usd, tokens, message)
        return answer


def too_small(limits: Limits, usd: float, tokens: int) -> str:
    """Return which limit does not even hold one request of so much; empty where all do."""
    for limit, needed, unit, shown in (
        (limits.usd, usd, "dollars", f"{usd:.6f}"),
        (limits.tokens, tokens, "tokens", f"{tokens}"),
    ):
        if limit is not None and (needed > limit or not limit):
            return (
                f"the limit of {limit} {unit} is too small for the next request, which is expected to take "
                f"{shown}: give a higher one"
            )
    return ""


Found = TypeVar("Found")


@dataclass(frozen=True)
class Attempts:
    """Asks up to so many times as the settings say."""

    asker: Asker
    settings: PromptSuiteSettings

    def ask(self, step: Step, read: Callable[[Any], Found]) -> Found:
        """Return what `read` makes of an answer.

        An answer that `read` refuses is kept like any other: a run that goes on asks the same nobody twice.

        Parameters
        ----------
        step
            Its own check is not called.
        read
            Takes the JSON value; raises NotJudged if it does not fit.

        Raises
        ------
        NotJudged
            Of the last attempt.
        """
        again = {"again": self.settings.again} if self.settings.again else {}
        asked = replace(step, check=None, what={**step.what, **again})
        number = 1
        while True:
            # what the server or the model's own limits refuse goes up at once
            value = self.asker.ask(asked)
            try:
                return read(value)
            except NotJudged as problem:
                if number >= self.settings.tries:
                    raise NotJudged(problem.failure, f"{step.name}: {problem.message}") from problem
                number += 1
                told = (
                    f"{step.text}\n\nAn earlier answer did not fit: {problem.message}. "
                    "Answer anew, so that it does."
                )
                asked = replace(asked, text=told, what={**step.what, **again, "attempt": number})
