"""All models that a build needs, checked in one go: what is missing or wrong is said at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage_schemas.errors import IntegrityError, PrerequisiteError, SlvmevalError, UserInputError
from tasks.models.hub import BACKGROUNDS, ModelHub
from tasks.models.mirror import Progress

if TYPE_CHECKING:
    from tasks.recipe import Recipe


class ModelCheck(ModelHub):
    """Checks models without stopping at the first that is missing or wrong.

    Parameters
    ----------
    folders
        The models folders.
    quick
        Whether to look at names and sizes only.
    progress
        As in :meth:`ModelHub.find`.

    Attributes
    ----------
    problems
        What is wrong, by the model's name; None for a model that is as it should be.
    """

    def __init__(
        self, folders: Sequence[Path], *, quick: bool = False, progress: Progress | None = None
    ) -> None:
        super().__init__(folders)
        self.problems: dict[str, SlvmevalError | None] = {}
        self._quick = quick
        self._progress = progress

    def consumed(self, name: str) -> Any:
        """Note what is wrong with a model; return what stands for it, or nothing where it is not there."""
        try:
            identity: Any = self._look(name)
        except (PrerequisiteError, IntegrityError, UserInputError) as problem:
            self.problems[name] = problem
            return ""
        self.problems.setdefault(name, None)
        return identity

    def _look(self, name: str) -> Any:
        if name.startswith(BACKGROUNDS):
            images = self._backgrounds(name.removeprefix(BACKGROUNDS))
            return "" if self._quick else images.checksum
        if self._quick:
            return self.glance(name).identity
        return self.find(name, progress=self._progress).identity

    def raise_problems(self) -> None:
        """Raise what was found.

        Raises
        ------
        PrerequisiteError, IntegrityError, UserInputError
            The one thing, or all of it as one PrerequisiteError.
        """
        found = [problem for problem in self.problems.values() if problem is not None]
        if len(found) == 1:
            raise found[0]
        if found:
            raise PrerequisiteError("\n".join(str(problem) for problem in found))


def check_recipe(recipe: Recipe, check: ModelCheck) -> None:
    """Look at every model that the operations of a recipe load."""
    for name in recipe.aspects:
        for point in recipe.points(name):
            recipe.operation(name).consumed_models(recipe.parameters(name, point.strength), check)
