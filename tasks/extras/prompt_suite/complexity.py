"""Complexity of prompts, rated by a language model, and tables like the paper's Table 1."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tasks.extras.locot2v.askers import roles_of
from tasks.extras.locot2v.dimensions import CATEGORIES
from tasks.extras.prompt_suite.prompt_completion import COMPLEXITIES, MAX_COMPLEXITY, complexity_of
from tasks.extras.prompt_suite.requests import Attempts
from tasks.extras.prompt_suite.settings import PromptSuiteSettings
from tasks.llm.conversation import LiveAsker
from tasks.llm.usage import NotJudged
from tasks.report.table import Column, Table
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.user_files import UnusedLine

#: The paper's Table 1: samples, mean words, mean complexity, semantic, structural, control.
PAPER: Mapping[str, tuple[int, float, float, float, float, float]] = {
    "EvalCrafter": (700, 12.33, 3.73, 3.88, 3.05, 4.27),
    "VBench-Long": (946, 7.64, 2.54, 2.75, 2.11, 2.76),
    "VBench 2.0, complex plot": (60, 117.15, 8.02, 8.80, 8.30, 6.95),
    "VBench 2.0, complex landscape": (30, 142.10, 8.34, 7.73, 8.80, 8.50),
    "VMBench": (1050, 26.23, 5.24, 5.96, 5.36, 4.39),
    "FilMaster-Complex": (10, 95.70, 8.07, 9.00, 8.00, 7.20),
    "LoCoT2V-Bench": (240, 236.66, 8.75, 9.01, 8.98, 8.25),
}
COLUMNS = (
    Column("suite", "suite"),
    Column("samples", "samples", "count"),
    Column("words", "mean words", "number"),
    Column("complexity", "mean complexity", "number"),
    *(Column(name, name, "number") for name in COMPLEXITIES),
    Column("rated", "rated", "count"),
    Column("with_events", "with events", "count", shown=False),
    Column("with_questions", "with questions", "count", shown=False),
)
_NOTE = (
    "Words are separated by white space. Complexity is rated from 0 to 10 by a language model; the mean is "
    "over the three kinds, for rated prompts."
)


def words_in(text: str) -> int:
    """Return the number of words of a text.

    Examples
    --------
    >>> words_in("A man, who waves –  twice.")
    6
    """
    return len(text.split())


def statistics_row(name: str, prompts: Sequence[SuitePrompt]) -> dict[str, Any]:
    """Return the row of one suite; without ratings, complexity is missing rather than zero."""
    rated = [scores for prompt in prompts if (scores := complexity_in(prompt)) is not None]
    kinds = {kind: mean_of([one[kind] for one in rated]) for kind in COMPLEXITIES}
    return {
        "suite": name,
        "samples": len(prompts),
        "words": mean_of([words_in(prompt.text) for prompt in prompts]),
        "complexity": mean_of([value for value in kinds.values() if value is not None]),
        **kinds,
        "rated": len(rated),
        "with_events": sum(bool(prompt.details.get("events")) for prompt in prompts),
        "with_questions": sum(bool(prompt.details.get("questions")) for prompt in prompts),
    }


def complexity_in(prompt: SuitePrompt) -> dict[str, float] | None:
    """Return the three scores in a prompt's details; None unless all are present and 0 to 10."""
    given = prompt.details.get("complexity")
    if not isinstance(given, Mapping):
        return None
    scores = {}
    for kind in COMPLEXITIES:
        value = given.get(kind)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_COMPLEXITY:
            return None
        scores[kind] = float(value)
    return scores


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return math.fsum(values) / len(values) if values else None


def statistics_tables(suites: Mapping[str, Sequence[SuitePrompt]], paper: bool = False) -> list[Table]:
    """Return the table of suites, one by theme, and one of the categories of themes.

    Parameters
    ----------
    paper
        Whether to put the paper's rows first.
    """
    rows: list[dict[str, Any]] = []
    if paper:
        keys = ("samples", "words", "complexity", *COMPLEXITIES)
        rows = [
            {"suite": f"{name} (paper)", **dict(zip(keys, row, strict=True)), "rated": row[0]}
            for name, row in PAPER.items()
        ]
    rows += [statistics_row(name, prompts) for name, prompts in suites.items()]
    by_theme = []
    for name, prompts in suites.items():
        for theme in sorted({prompt.theme for prompt in prompts if prompt.theme}):
            own = [prompt for prompt in prompts if prompt.theme == theme]
            by_theme.append({"theme": theme, **statistics_row(name, own)})
    by_category: list[dict[str, Any]] = []
    if paper:
        name = "LoCoT2V-Bench (paper)"
        by_category = [{"category": one, "suite": name, "samples": n} for one, n in CATEGORIES.items()]
    for name, prompts in suites.items():
        counts = Counter(prompt.category for prompt in prompts if prompt.category)
        for category, count in sorted(counts.items()):
            of_category = {prompt.theme for prompt in prompts if prompt.category == category and prompt.theme}
            row = {"category": category, "suite": name, "samples": count, "themes": len(of_category)}
            by_category.append(row)
    themes = (Column("theme", "theme"), *COLUMNS)
    empty = "" if by_theme else "No prompt has a theme."
    return [
        Table("prompt-complexity", "Length and complexity of prompts", COLUMNS, tuple(rows), _NOTE, ""),
        Table("prompt-complexity-by-theme", "The same by theme", themes, tuple(by_theme), _NOTE, empty),
        Table(
            "prompt-categories",
            "Categories of themes",
            (
                Column("category", "category"),
                Column("suite", "suite"),
                Column("themes", "themes", "count"),
                Column("samples", "samples", "count"),
            ),
            tuple(by_category),
            "",
            "" if by_category else "No prompt has a category.",
        ),
    ]


_AT_ONCE = 8


def rated(
    setup: Setup,
    settings: PromptSuiteSettings,
    prompts: Sequence[SuitePrompt],
    step: Callable[[int, int, str], None] = lambda done, total, note: None,
) -> tuple[list[SuitePrompt], list[UnusedLine]]:
    """Return the prompts with their complexity, and those that could not be rated.

    Parameters
    ----------
    step
        Called with (done, total, prompt id) after each.

    Raises
    ------
    PrerequisiteError
        If the model's server is not in the profile.
    """
    roles = roles_of(setup, settings.of_suite())
    roles.calls("language")

    def rate(prompt: SuitePrompt) -> SuitePrompt | UnusedLine:
        if complexity_in(prompt) is not None:
            return prompt
        try:
            scores = complexity_of(Attempts(LiveAsker(roles), settings), prompt.text)
        except NotJudged as problem:
            return UnusedLine(prompt.prompt_id, problem.failure.value, problem.message)
        return prompt.model_copy(update={"details": {**prompt.details, "complexity": scores}})

    made: list[SuitePrompt] = []
    failed: list[UnusedLine] = []
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as threads:
        for number, (prompt, result) in enumerate(zip(prompts, threads.map(rate, prompts), strict=True), 1):
            if isinstance(result, UnusedLine):
                # it still counts for lengths
                made.append(prompt)
                failed.append(result)
            else:
                made.append(result)
            step(number, len(prompts), prompt.prompt_id)
    return made, failed
