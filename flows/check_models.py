"""All weights that a build loads are looked at before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tasks.models.check import ModelCheck, check_recipe
from tasks.recipe import Recipe

#: A model with fewer bytes is read in no time.
_WORTH_A_LINE = 1_000_000_000


def check_models(recipe: Recipe, folders: Sequence[str], say: Callable[[str], None]) -> None:
    """Find and verify all models of a recipe; what is missing or wrong is said at once.

    Large files are read once and then remembered while they do not change.

    Raises
    ------
    PrerequisiteError, IntegrityError, UserInputError
        With what each model lacks, and the command that fetches it.
    """

    def reading(done: int, total: int, path: str) -> None:
        if total >= _WORTH_A_LINE:
            say(f"checking weights, {done / 1e9:.1f} of {total / 1e9:.1f} GB: {path}")

    check = ModelCheck([Path(folder) for folder in folders], progress=reading)
    check_recipe(recipe, check)
    check.raise_problems()
