"""Requests for prompts: asked again where an answer does not fit, within the limits of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from storage_schemas.errors import Reason, SetAside
from storage_schemas.judgements import Failure
from tasks.llm.conversation import Asker, DryRunAsker, LiveAsker, Step
from tasks.llm.meter import Meter
from tasks.llm.usage import NotJudged
from tasks.prompt_suite.settings import PromptSuiteSettings
from tasks.scoring.suites.base import not_readable

#: Where nothing can be kept, nothing more is paid for.
_NOT_WRITTEN = (Reason.OUT_OF_SPACE, Reason.READ_ONLY_STORE)


class Stopped(Exception):
    """The run asks nobody any more; the message says why, and what goes on."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(failure, message)
        self.failure, self.message = failure, message


@dataclass(frozen=True)
class RequestUsage:
    """What one request took; no dollars where its model has no price."""

    failure: Failure | None
    message: str
    tokens_in: int
    tokens_out: int
    cost_usd: float | None


@dataclass
class Paying:
    """Asks for one video within the limits; answers that are kept are given out even where these are reached.

    Parameters
    ----------
    usd
        What was paid until now; None where a model has no price.
    """

    asking: LiveAsker
    meter: Meter
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
        held = self.meter.reserve([estimate])
        if held is None:
            stop = self.meter.stopped
            assert stop is not None
            raise Stopped(stop.failure, stop.message)
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
                self.meter.stop(problem.message)
            raise
        finally:
            into, out = (now - then for now, then in zip(self.asking.usage().tokens(), before, strict=True))
            cost = self.meter.prices.cost(estimate.model, into, out)
            self.usd = None if cost is None or self.usd is None else self.usd + cost
            taken = [RequestUsage(failure, message, into, out, cost)]
            if not self.meter.refuses(held, taken):
                self.meter.count(held, taken)
        return answer


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
