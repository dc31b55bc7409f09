"""A request whose answer has to fit: one that does not is kept too, and the model is told what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tasks.evaluators.base import NotJudged
from tasks.suites.locot2v.asking import Asker
from tasks.suites.locot2v.prompt_suite.settings import PromptSuiteSettings
from tasks.suites.locot2v.roles import Step

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
        asked = replace(step, check=lambda value: value, what={**step.what, **again})
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
