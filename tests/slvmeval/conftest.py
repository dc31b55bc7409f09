"""Commands run in this process, and stores that were built once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from flows.release.options import BuildOptions, SourceRoot
from tasks.recipe import Recipe
from tests.inline import build_inline
from tests.once import Once
from tests.slvmeval.cli.running import Printed, Run
from tests.tasks.publish.conftest import build_small

__all__ = ["build_small"]

#: Gives a folder by name, filled by a maker once in a run.
InPlace = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session", autouse=True)
def _commands_are_made_once() -> Iterator[None]:
    """Keep the command that Typer otherwise makes again, of all our functions, at each call of `main`."""
    import typer.main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs a command, asserts its exit code, and returns what it printed."""
    from slvmeval.cli.main import main

    def run(*words: object, code: int | tuple[int, ...] = 0) -> Printed:
        capsys.readouterr()
        ended = main([str(word) for word in words])
        printed = Printed(*capsys.readouterr())
        assert ended in (code if isinstance(code, tuple) else (code,)), printed
        return printed

    return run


@pytest.fixture
def figures_unsaved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let figures be put together and not saved: a PDF with its fonts takes long."""
    monkeypatch.setattr("tasks.report.figures._saved", lambda *_: b"<svg/>")


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
