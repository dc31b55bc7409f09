"""Checks before a build starts: the weights of its models, and the caption server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from storage_schemas.sizes import size_text
from storage_schemas.source import Source
from storage_schemas.store import Store
from tasks.captions.stage import make_analyser
from tasks.llm.servers import Servers
from tasks.models.hub import ModelCheck
from tasks.models.small import fetch_small
from tasks.pairs.facts import captions_analysed
from tasks.recipe import Recipe, check_recipe


def check_server(store: Store, sources: Iterable[Source], recipe: Recipe, servers: Servers) -> None:
    """Check the caption analyser's server; none is needed if all captions are analysed.

    Parameters
    ----------
    sources
        The sources to be inspected.

    Raises
    ------
    PrerequisiteError
        If captions must be analysed and the server is unavailable or lacks the model.
    """
    if any(not captions_analysed(store, source, recipe) for source in sources):
        make_analyser(recipe.caption_analysis, servers).check_server()


#: Smaller models are read without showing progress.
_WORTH_A_LINE = 1_000_000_000


def check_models(recipe: Recipe, folders: Sequence[str], say: Callable[[str], None]) -> None:
    """Find and verify all models of a recipe, reporting all problems together; fetch small ones.

    Checksums of large files are remembered while the files do not change.

    Raises
    ------
    PrerequisiteError, IntegrityError, UserInputError
        With each model's problem and the command that fetches it.
    """

    def reading(done: int, total: int, path: str) -> None:
        if total >= _WORTH_A_LINE:
            say(f"checking weights, {size_text(done)} of {size_text(total)}: {path}")

    paths = [Path(folder) for folder in folders]
    check = ModelCheck(paths, progress=reading)
    check_recipe(recipe, check)
    if fetch_small((name for name, problem in check.problems.items() if problem is not None), paths, say):
        check = ModelCheck(paths, progress=reading)
        check_recipe(recipe, check)
    check.raise_problems()
