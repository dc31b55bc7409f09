"""The server that analyses captions, asked before a build starts."""

from __future__ import annotations

from collections.abc import Iterable

from storage_schemas.source import Source
from storage_schemas.store import Store
from tasks.captions.stage import is_analysed, make_analyser
from tasks.models.servers import Servers
from tasks.recipe import AnalyserRecipe


def check_server(store: Store, sources: Iterable[Source], recipe: AnalyserRecipe, servers: Servers) -> None:
    """Ask the caption analyser's server once; where all captions are analysed none is needed.

    Parameters
    ----------
    sources
        Those that are going to be inspected.

    Raises
    ------
    PrerequisiteError
        If captions are to be analysed and the server is not there, or does not have the model.
    """
    if any(not is_analysed(store, source, recipe) for source in sources):
        make_analyser(recipe, servers).check_server()
