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
from tests.slvmeval.web.annotation.pages.films import filmed_pair, films
from tests.slvmeval.web.annotation.pages.visitor import Visitor
from tests.slvmeval.web.annotation.pieces import put_up, running


@pytest.fixture(scope="session")
def filmed(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Both sides of a pair."""
    return films(ffmpeg, tmp_path_factory.mktemp("films"))


class Served:
    """A campaign on real videos that is being served; its clock can be advanced."""

    def __init__(self, root: Path, filmed: tuple[Path, Path], stack: ExitStack) -> None:
        self.root = root
        self.filmed = filmed
        self.later = timedelta()
        self._stack = stack

    def clock(self) -> datetime:
        return utc() + self.later

    def pair(self, number: int = 1, aspect: str = "aesthetics", **values: Any) -> PairTask:
        return filmed_pair(number, *self.filmed, aspect, **values)

    def begin(self, *pairs: PairTask, links: int = 2, **settings: Any) -> None:
        """Publish and serve; the maximum speed is 4, so that tests are fast."""
        folder = media_folder(self.root)
        chosen = list(pairs) or [self.pair()]
        given = {"most_speed": 4, "look_share": 0.05, "contact": "people@example.org", **settings}
        self.serving, self.tokens = put_up(self.root, chosen, links, **given)
        for video in self.filmed:
            shutil.copy(video, folder / video.name)
        self.address = self._stack.enter_context(running(self.serving, self.clock))


@pytest.fixture
def served(tmp_path: Path, filmed: tuple[Path, Path]) -> Iterator[Served]:
    """A campaign that is not published yet."""
    with ExitStack() as stack:
        yield Served(tmp_path / "store", filmed, stack)


@pytest.fixture
def visit(chromium: Any, served: Served) -> Iterator[Callable[..., Visitor]]:
    """Yield a function that opens a separate browser; at the end no page may have reported a problem."""
    visitors: list[Visitor] = []

    def come(link: int = 0, **how: Any) -> Visitor:
        visitors.append(Visitor(chromium, served.address, served.tokens[link], **how))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.close()
    assert [problem for visitor in visitors for problem in visitor.problems] == []
