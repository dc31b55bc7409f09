from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tasks.annotation.desk.database import utc
from tasks.annotation.installation import media_folder
from tasks.annotation.pair_task import PairTask
from tests.once import Once
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pages.films import filmed_pair, films
from tests.slvmeval.web.annotation.pages.visitor import Visitor
from tests.slvmeval.web.annotation.pieces import Hands


class Ahead(Hands):
    """The real time, and what tests add to it."""

    added = timedelta()

    def __call__(self) -> datetime:
        return utc() + self.added

    def on(self, seconds: float) -> None:
        self.added += timedelta(seconds=seconds)


class Served(Study):
    """A campaign on real videos; the maximum speed is 4, so that tests are fast."""

    def __init__(self, root: Path, filmed: tuple[Path, Path], stack: ExitStack) -> None:
        super().__init__(root, stack)
        self.filmed, self.clock = filmed, Ahead()

    def pair(self, number: int = 1, aspect: str = "aesthetics", **values: Any) -> PairTask:
        return filmed_pair(number, *self.filmed, aspect, **values)

    def open(self, *pairs: PairTask, links: int = 2, **settings: Any) -> None:
        """Publish and serve."""
        fixed = {"most_speed": 4, "look_share": 0.05, "contact": "people@example.org"}
        self.publish(list(pairs) or [self.pair()], links, **{**fixed, **settings})
        for video in self.filmed:
            shutil.copy(video, media_folder(self.root) / video.name)
        self.serve()


@pytest.fixture(scope="session")
def filmed(ffmpeg: str, once: Once) -> tuple[Path, Path]:
    """Both sides of a pair."""
    folder = once("films of a pair", lambda draft: films(ffmpeg, draft))
    return folder / "a.mp4", folder / "b.mp4"


@pytest.fixture(scope="session")
def served(filmed: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A campaign that is being served, for tests that leave it as it is."""
    with ExitStack() as stack:
        made = Served(tmp_path_factory.mktemp("served") / "store", filmed, stack)
        made.open(*(made.pair(number) for number in range(20)), links=60)
        yield made


@pytest.fixture
def own(tmp_path: Path, filmed: tuple[Path, Path]) -> Iterator[Served]:
    """A campaign that is not published yet."""
    with ExitStack() as stack:
        yield Served(tmp_path / "store", filmed, stack)


@pytest.fixture
def visit(chromium: Any, served: Served, own: Served) -> Iterator[Callable[..., Visitor]]:
    """Yield a function that opens a separate browser; at the end no page may have reported a problem.

    It needs `own` so that it ends first: a page that still plays would ask a server that is gone.
    """
    visitors: list[Visitor] = []

    def come(study: Study = served, token: str | None = None, **how: Any) -> Visitor:
        visitors.append(Visitor(chromium, study.address, token or study.link(), **how))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.context.close()
    assert [problem for visitor in visitors for problem in visitor.problems] == []
