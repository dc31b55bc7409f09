from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flows.build.options import BuildOptions, SourceRoot
from tasks.recipe import Recipe
from tests.inline import build_inline


@pytest.fixture(scope="package")
def _judged_store(
    tmp_path_factory: pytest.TempPathFactory, add_film: Callable[[Path, int], Path], small_recipe: Recipe
) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    for number in (1, 2):
        add_film(folder / "videos", number)
    wanted = ("aesthetics", "comprehensiveness", "dynamics_degree")
    recipe = small_recipe.model_copy(
        update={"aspects": {name: small_recipe.aspects[name] for name in wanted}}
    )
    sources = (SourceRoot(path=str(folder / "videos")),)
    build_inline(BuildOptions(store=str(folder / "store"), sources=sources, recipe=recipe))
    return folder / "store"


@pytest.fixture
def judged_store(_judged_store: Path, tmp_path: Path) -> Path:
    """A store with a release of three aspects of two films, six pairs."""
    import shutil

    shutil.copytree(_judged_store, tmp_path / "store")
    return tmp_path / "store"
