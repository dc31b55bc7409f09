"""The complexity of prompts that come from elsewhere, rated by a language model, and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tasks.evaluators.base import NotJudged
from tasks.evaluators.meta_sets.base import LeftOut
from tasks.evaluators.setup import Setup
from tasks.suites.base import SuitePrompt
from tasks.suites.locot2v.asking import Asking
from tasks.suites.locot2v.prompt_suite.attempts import Attempts
from tasks.suites.locot2v.prompt_suite.complexity_table import complexity_in
from tasks.suites.locot2v.prompt_suite.finishing import complexity_of
from tasks.suites.locot2v.prompt_suite.settings import PromptSuiteSettings
from tasks.suites.locot2v.roles import roles_of

_AT_ONCE = 8


def rated(
    setup: Setup,
    settings: PromptSuiteSettings,
    prompts: Sequence[SuitePrompt],
    step: Callable[[int, int, str], None] = lambda done, total, note: None,
) -> tuple[list[SuitePrompt], list[LeftOut]]:
    """Return the prompts with their complexity, and those that could not be rated.

    Parameters
    ----------
    step
        Called with (done, all, which) after each.

    Raises
    ------
    PrerequisiteError
        If the model's server is not in the profile.
    """
    roles = roles_of(setup, settings.of_suite())
    roles.calls("language")

    def rate(prompt: SuitePrompt) -> SuitePrompt | LeftOut:
        if complexity_in(prompt) is not None:
            return prompt
        try:
            found = complexity_of(Attempts(Asking(roles), settings), prompt.text)
        except NotJudged as problem:
            return LeftOut(prompt.prompt_id, problem.failure.value, problem.message)
        return prompt.model_copy(update={"details": {**prompt.details, "complexity": found}})

    made: list[SuitePrompt] = []
    failed: list[LeftOut] = []
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as threads:
        for number, (prompt, found) in enumerate(zip(prompts, threads.map(rate, prompts), strict=True), 1):
            if isinstance(found, LeftOut):
                # it still counts for lengths
                made.append(prompt)
                failed.append(found)
            else:
                made.append(found)
            step(number, len(prompts), prompt.prompt_id)
    return made, failed
