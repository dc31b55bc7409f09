"""A file's tests share a model server, its clients, and the films."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.extras.prompt_suite.videos import SourceVideo, load_videos
from tests.once import Once
from tests.tasks.extras.prompt_suite.author import Author, Writing
from tests.tasks.llm.open_clients import closed_in_the_end
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer


@pytest.fixture(scope="module", autouse=True)
def closed_clients() -> Iterator[None]:
    with closed_in_the_end():
        yield


@pytest.fixture(scope="module")
def shared_server() -> Iterator[tuple[FaultyServer, list[Author]]]:
    """A server that answers as the one author in the list does."""
    authors = [Author()]
    with FaultyServer(lambda number, body: authors[0](number, body)) as server:
        yield server, authors


@pytest.fixture
def writing(tmp_path: Path, shared_server: tuple[FaultyServer, list[Author]]) -> Writing:
    """A new author at a server that has seen nothing yet."""
    server, authors = shared_server
    server.seen.clear()
    authors[0] = Author()
    return Writing(tmp_path, authors[0], server)


@pytest.fixture(scope="session")
def film_folder(ffmpeg: str, once: Once) -> Path:
    """A film of two seconds and one of a second, by theme."""

    def make(folder: Path) -> None:
        short_film(ffmpeg, folder / "food" / "one cake.mp4", 2.0)
        short_film(ffmpeg, folder / "sea.mp4", 1.0, 90)

    return once("prompt-suite-films", make)


@pytest.fixture
def two(film_folder: Path) -> tuple[SourceVideo, ...]:
    return load_videos(film_folder).videos


@pytest.fixture
def video(two: tuple[SourceVideo, ...]) -> SourceVideo:
    return two[0]
