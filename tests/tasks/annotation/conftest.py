"""A desk for each test: on SQLite, and as a slow test on a real PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tasks.annotation.desk.desk import Desk
from tests.flows.postgres import postgres_programs, running_postgres
from tests.tasks.annotation.example_desk import HandClock, example_campaign, example_tasks, open_desk
from tests.tasks.publish.conftest import build_small

__all__ = ["build_small"]

PROGRAMS = postgres_programs()
ON_POSTGRES = pytest.param(
    "postgresql",
    marks=[
        pytest.mark.slow,
        pytest.mark.xdist_group("annotation-postgres"),
        pytest.mark.skipif(
            PROGRAMS is None, reason="PostgreSQL is not installed (Debian: apt-get install postgresql)"
        ),
    ],
)
_numbers = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[int]:
    """The port of a server with the user `desk`."""
    assert PROGRAMS is not None
    with running_postgres(PROGRAMS, "desk", "p w:/@", "desk") as port:
        yield port


@pytest.fixture(params=["sqlite", ON_POSTGRES])
def desk_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a separate database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'desk.sqlite'}"
    port = request.getfixturevalue("postgres")
    where = f"postgresql://desk:p%20w%3A%2F%40@127.0.0.1:{port}"
    name = f"desk{next(_numbers)}"
    with psycopg.connect(f"{where}/desk", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{where}/{name}"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(scope="session")
def new_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a new desk on SQLite: to copy it takes less than to make its tables."""
    folder = tmp_path_factory.mktemp("new")
    open_desk(folder, HandClock()).close()
    return folder / "desk.sqlite"


@pytest.fixture
def desk(desk_url: str, clock: HandClock, tmp_path: Path, new_file: Path) -> Iterator[Desk]:
    if desk_url.startswith("sqlite"):
        shutil.copy(new_file, tmp_path)
    with open_desk(tmp_path, clock, desk_url) as opened:
        yield opened


@pytest.fixture
def lite(tmp_path: Path, new_file: Path) -> Iterator[Desk]:
    """A desk on SQLite whose campaign has three pairs."""
    shutil.copy(new_file, tmp_path)
    with open_desk(tmp_path, HandClock()) as desk:
        desk.organiser.publish(example_campaign(), example_tasks(3))
        yield desk
