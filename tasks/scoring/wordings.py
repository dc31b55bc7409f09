"""Wordings of a judge: the same judge with other words for the same request, as evaluators of their own.

A published accuracy was measured with one wording. How far accuracies with other wordings lie apart says how
much of a gap to it the words alone can make.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path

from storage_schemas.errors import UserInputError
from storage_schemas.names import is_name
from tasks.llm.prompt_files import require_prompts
from tasks.scoring.registry import EvaluatorChoice, factory
from tasks.scoring.suites.registry import suites

#: A label joins it with an evaluator's name.
_MAX_NAME = 50


def wordings_in(folder: str | Path | None) -> dict[str, str]:
    """Return the folders of prompts in a folder of several, in full, by name; none if it is one of prompts.

    Raises
    ------
    UserInputError
        If one of them cannot be used.
    """
    root = Path(folder or "")
    # prompts are AREA/NAME.txt, and wordings have these a folder deeper
    if not folder or not root.is_dir() or any(root.glob("*/*.txt")) or not any(root.glob("*/*/*.txt")):
        return {}
    found = {}
    for path in sorted(path for path in root.iterdir() if path.is_dir() and path.name[0] != "."):
        if not is_name(path.name) or len(path.name) > _MAX_NAME:
            raise UserInputError(f"{path}: the name of a wording is letters, digits, '.', '_' and '-'")
        require_prompts(path)
        found[path.name] = str(path.resolve())
    return found


def in_wordings(
    choices: Iterable[EvaluatorChoice], wordings: Mapping[str, str]
) -> tuple[EvaluatorChoice, ...]:
    """Return evaluators also in other wordings, each after the unmodified evaluator.

    An evaluator that has no setting `prompts` sends none, or none that can be exchanged, and stays alone.

    Raises
    ------
    UserInputError
        If that holds for all of them.
    """
    every = tuple(choices)
    made = [
        choice.model_copy(update={"settings": {**choice.settings, "prompts": folder}, "wording": name})
        for choice in every
        if choice.use in suites() or "prompts" in inspect.signature(factory(choice.use)).parameters
        for name, folder in wordings.items()
    ]
    if not made:
        names = ", ".join(choice.use for choice in every)
        raise UserInputError(
            f"several wordings need an evaluator that sends prompts; {names} has none to exchange"
        )
    return (*every, *made)
