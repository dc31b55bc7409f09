"""A build whose scheduler strangers flood with idle connections, as anybody on the network can."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from infra.slurm.run_folder import read_run_file
from tasks.recipe import Recipe
from tests.flows.prefect_servers import PrefectServer
from tests.slurm.building import Building
from tests.slurm.conftest import Slurm

STRANGERS, FILES = 1500, 700


@pytest.fixture
def files() -> Iterator[None]:
    """This process may open as many files as the strangers need."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("files")
def test_a_build_ends_beside_many_idle_connections(
    slurm: Slurm, add_film: Callable[[Path, int], Path], small_recipe: Recipe, tmp_path: Path
) -> None:
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    (tmp_path / "recipe.json").write_text(small_recipe.model_dump_json())
    with PrefectServer(tmp_path / "prefect") as server, ExitStack() as open_:
        building = Building(slurm, tmp_path, server.api)
        driver = psutil.Process(building.start().pid)
        building.wait(lambda: list(building.store.glob("cache/slurm/*/run.json")))
        driver.rlimit(psutil.RLIMIT_NOFILE, (FILES, FILES))
        (run,) = building.store.glob("cache/slurm/*")
        known = read_run_file(building.store, run.name)
        assert known is not None
        place = urlsplit(known.scheduler)
        for _ in range(STRANGERS):
            open_.enter_context(socket.create_connection((place.hostname, place.port), timeout=60))
        assert building.end() == 0, building.said()
        said = (tmp_path / "build.log").read_text()
        assert said.count("Too many open files") <= 1
        assert said.count("handshake failed") <= 2
