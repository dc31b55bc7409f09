"""What several test files of the evaluators look at is made once a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.pairs.view import Side
from tests.once import Once
from tests.tasks.pairs.synthetic import Made, make_source
from tests.tasks.scoring.sides import VideoSide, film


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A source with the pairs of all aspects that need no model; nobody changes it."""
    source = make_source(tmp_path_factory.mktemp("built") / "store")
    assert not source.degrade().set_aside
    return source


@pytest.fixture(scope="session")
def film_path(ffmpeg: str, once: Once) -> Path:
    """A film of moving pictures with hard cuts and a fade."""
    return once("scoring-film", lambda folder: film(ffmpeg, folder / "film.mp4")) / "film.mp4"


@pytest.fixture(scope="session")
def seen(film_path: Path) -> Side:
    """That film as an evaluator sees it."""
    return VideoSide(film_path, long_side=96)
