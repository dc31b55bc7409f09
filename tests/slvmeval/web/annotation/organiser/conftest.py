from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.slvmeval.web.annotation.conftest import Study, copied
from tests.slvmeval.web.annotation.organising import Organiser


@pytest.fixture
def organiser(busy: Study) -> Iterator[Organiser]:
    """An organiser who is not logged in yet, and a running campaign of 20 workers."""
    busy.serve()
    with Organiser(busy) as somebody:
        yield somebody


@pytest.fixture(scope="session")
def quiet(week: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A running campaign of 20 workers, for tests that change nothing in it."""
    with ExitStack() as stack:
        study = copied(week, tmp_path_factory.mktemp("quiet") / "store", stack)
        study.serve()
        yield study


@pytest.fixture
def reader(quiet: Study) -> Iterator[Organiser]:
    """An organiser who is logged in and changes nothing."""
    with Organiser(quiet) as somebody:
        assert somebody.log_in().status_code == 303
        yield somebody
