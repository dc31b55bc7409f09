"""Requests for prompts, repeated if an answer is invalid, within the limits of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from storage_schemas.errors import Reason, SetAside
from storage_schemas.judgements import EstimatedTokens, Failure
from tasks.extras.prompt_suite.settings import PromptSuiteSettings
from tasks.llm.conversation import Asker, DryRunAsker, LiveAsker, Step
from tasks.llm.meter import Meter
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.usage import NotJudged
from tasks.scoring.base import not_readable

#: If answers cannot be stored, nothing more is paid for.
_NOT_WRITTEN = (Reason.OUT_OF_SPACE, Reason.READ_ONLY_STORE)


class Stopped(Exception):
    """The run makes no more requests; the message has the reason."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(failure, message)
        self.failure, self.message = failure, message


@dataclass(frozen=True)
class RequestUsage:
    """Cost of one request; `cost_usd` is None if its model has no price, or the server did not count."""

    failure: Failure | None
    message: str
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    estimated: EstimatedTokens | None = None


@dataclass
class Paying:
    """Makes the requests of one video within the limits; kept answers are available beyond them.

    Parameters
    ----------
    usd
        Dollars paid so far; None if a model has no price.
    """

    asking: LiveAsker
    meter: Meter
    usd: float | None = 0.0

    def ask(self, step: Step) -> Any:
        """Return an answer.

        Raises
        ------
        Stopped
            If there is no kept answer, and the run makes no more requests.
        NotJudged
            As :meth:`LiveAsker.ask`.
        SetAside
            If the video cannot be read, or an answer cannot be stored, which ends the run.
        """
        dry = DryRunAsker(self.asking.roles)
        dry.ask(step)
        if not dry.estimates:
            return self.asking.ask(step)
        (estimate,) = dry.estimates
        reservation = self.meter.reserve([estimate])
        if reservation is None:
            stop = self.meter.stopped
            assert stop is not None
            raise Stopped(stop.failure, stop.message)
        before = self.asking.usage()
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
            after = self.asking.usage()
            tokens_in, tokens_out = (
                after.tokens()[0] - before.tokens()[0],
                after.tokens()[1] - before.tokens()[1],
            )
            cost = self.meter.prices.cost(estimate.model, tokens_in, tokens_out)
            unknown = None
            if after.answers_uncounted() > before.answers_uncounted():
                unknown = EstimatedTokens(
                    tokens_in=estimate.tokens_in,
                    tokens_out=estimate.tokens_out,
                    usd=self.meter.prices.of([estimate]),
                )
                cost = unknown.usd
            self.usd = None if cost is None or self.usd is None else self.usd + cost
            usage = [
                RequestUsage(failure, message, tokens_in, tokens_out, None if unknown else cost, unknown)
            ]
            if not self.meter.refuses(reservation, usage):
                self.meter.count(reservation, usage)
        return answer


Result = TypeVar("Result")


@dataclass(frozen=True)
class Attempts:
    """Repeats requests with an invalid answer, up to the settings' number of attempts."""

    asker: Asker
    settings: PromptSuiteSettings

    def ask(self, step: Step, read: Callable[[Any], Result]) -> Result:
        """Return the result of `read` for a valid answer.

        Answers that `read` rejects are stored like any other, so that the next run does not request them
        again.

        Parameters
        ----------
        step
            The step; its own check is not called.
        read
            Converts the JSON value; raises NotJudged if it is invalid.

        Raises
        ------
        NotJudged
            Of the last attempt.
        """
        again = {"again": self.settings.again} if self.settings.again else {}
        request = replace(step, check=None, what={**step.what, **again})
        number = 1
        while True:
            # errors of the server are not retried here
            value = self.asker.ask(request)
            try:
                return read(value)
            except NotJudged as problem:
                if number >= self.settings.tries:
                    raise NotJudged(problem.failure, f"{step.name}: {problem.message}") from problem
                number += 1
                template = prompt_text("prompt-suite/again", self.settings.prompts)
                text = f"{step.text}\n\n{filled(template, reason=problem.message)}"
                request = replace(request, text=text, what={**step.what, **again, "attempt": number})
