"""A store that was built once, for tests of commands and pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.release.options import BuildOptions, SourceRoot
from tasks.recipe import Recipe
from tests.inline import build_inline
from tests.once import Once

#: Gives a folder by name, filled by a maker once in a run.
InPlace = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def in_place(once: Once, tmp_path_factory: pytest.TempPathFactory) -> InPlace:
    """Give a function like `once` for what cannot be moved: a store has the paths of its videos."""

    def get(name: str, make: Callable[[Path], object]) -> Path:
        def note(folder: Path) -> None:
            made = tmp_path_factory.mktemp(name)
            make(made)
            (folder / "place").write_text(str(made))

        return Path((once(name, note) / "place").read_text())

    return get


@pytest.fixture(scope="session")
def three_aspects(
    in_place: InPlace, add_film: Callable[[Path, int], Path], small_recipe: Recipe
) -> Callable[[int], Path]:
    """Give a store with a release of three aspects of that number of films; it is copied and not changed."""
    wanted = ("aesthetics", "comprehensiveness", "dynamics_degree")
    aspects = {name: small_recipe.aspects[name] for name in wanted}
    recipe = small_recipe.model_copy(update={"aspects": aspects})

    def get(films: int) -> Path:
        def make(folder: Path) -> None:
            for number in range(films):
                add_film(folder / "videos", number)
            sources = (SourceRoot(path=str(folder / "videos")),)
            build_inline(BuildOptions(store=str(folder / "store"), sources=sources, recipe=recipe))

        return in_place(f"three-aspects-{films}", make) / "store"

    return get


@pytest.fixture
def judged_store(three_aspects: Callable[[int], Path], tmp_path: Path) -> Path:
    """A store with a release of three aspects of two films, six pairs."""
    shutil.copytree(three_aspects(2), tmp_path / "store")
    return tmp_path / "store"
