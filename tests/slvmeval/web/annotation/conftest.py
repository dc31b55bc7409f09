from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tasks.annotation.pair_task import PairTask
from tests.slvmeval.web.annotation.pieces import Browser, Hands, pair, put_up, running


class Study:
    """A campaign that is being served, the clock of its server, and workers."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root = root
        self.clock = Hands()
        self._stack = stack

    def begin(
        self,
        pairs: int | list[PairTask] = 2,
        links: int = 3,
        serving: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Publish and serve."""
        self.pairs = [pair(number) for number in range(pairs)] if isinstance(pairs, int) else pairs
        made, self.tokens = put_up(self.root, self.pairs, links, **settings)
        self.serving = made.at(**(serving or {}))
        self.address = self._stack.enter_context(running(self.serving, self.clock))

    def browser(self, link: int = 0) -> Browser:
        """Return a worker with one of the links."""
        return self._stack.enter_context(Browser(self.address, self.tokens[link]))

    def stranger(self) -> Browser:
        """Return a browser without a link."""
        return self._stack.enter_context(Browser(self.address))

    def worker(self, link: int = 0, language: str = "en") -> Browser:
        """Return a worker who has agreed and whose task page is open."""
        browser = self.browser(link)
        page = browser.enter(language)
        assert page.url.path.endswith("/task"), page.text
        browser.task()
        return browser


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """A campaign that is not published yet."""
    with ExitStack() as stack:
        yield Study(tmp_path / "store", stack)
