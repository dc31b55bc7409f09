from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from slvmeval.web.annotation import app
from slvmeval.web.annotation.security import Limiter
from storage_schemas.votes import Vote
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import installation_key
from tasks.annotation.pair_task import PairTask
from tests.once import Once
from tests.slvmeval.web.annotation.pieces import NAME, Browser, Hands, pair, put_up, running, serving_of


class Study:
    """A campaign that is being served, the clock of its server, and workers, each with a link of its own."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root, self._stack, self.clock, self._given = root, stack, Hands(), 0

    def publish(self, pairs: int | list[PairTask] = 2, links: int = 3, **settings: Any) -> None:
        self.pairs = [pair(number) for number in range(pairs)] if isinstance(pairs, int) else pairs
        self.serving, self.tokens = put_up(self.root, self.pairs, links, **settings)

    def serve(self, **serving: Any) -> None:
        self.serving = self.serving.at(**serving)
        self.address = self._stack.enter_context(running(self.serving, self.clock))

    def begin(
        self, pairs: int | list[PairTask] = 2, serving: dict[str, Any] | None = None, **more: Any
    ) -> None:
        """Publish and serve."""
        self.publish(pairs, **more)
        self.serve(**(serving or {}))

    def desk(self) -> AbstractContextManager[Desk]:
        """Open the desk of the campaign."""
        return Desk.open(self.serving.database, installation_key(self.root), self.clock)

    def id_of(self, token: str) -> str:
        """Return the name that the desk gives to a worker who came by a link."""
        with self.desk() as desk:
            return desk.workers.name_of("link", token)

    def votes(self, token: str) -> list[Vote]:
        """Return the stored votes of a worker who came by a link."""
        worker = self.id_of(token)
        with self.desk() as desk:
            return [vote for _, vote in desk.votes.read(NAME) if vote.worker == worker]

    def link(self) -> str:
        """Return the token of the next link."""
        self._given += 1
        return self.tokens[self._given - 1]

    def browser(self) -> Browser:
        """Return a worker with the next link."""
        return self._stack.enter_context(Browser(self.address, self.link()))

    def stranger(self) -> Browser:
        """Return a browser without a link."""
        return self._stack.enter_context(Browser(self.address))

    def worker(self, language: str = "en") -> Browser:
        """Return a worker who has agreed and whose task page is open."""
        browser = self.browser()
        page = browser.enter(language)
        assert page.url.path.endswith("/task"), page.text
        browser.task()
        return browser


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """A campaign that is not published yet."""
    with ExitStack() as stack:
        yield Study(tmp_path / "store", stack)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A campaign that is being served, for tests that take links and leave the rest as it is."""
    with ExitStack() as stack:
        study = Study(tmp_path_factory.mktemp("shared") / "store", stack)
        study.begin(40, links=80)
        yield study


@pytest.fixture(scope="session")
def week(once: Once) -> Path:
    """A store with a campaign of 20 workers and 140 votes, and the tokens of three links."""
    from tests.slvmeval.web.annotation.organising import ASPECTS, votes_of_a_week

    def make(folder: Path) -> None:
        with ExitStack() as stack:
            study = Study(folder / "store", stack)
            pairs = [pair(number, aspect=ASPECTS[number % 5]) for number in range(40)]
            study.publish(pairs, pay_per_task=0.5, currency="EUR", rule="paper")
            with study.desk() as desk:
                desk.votes.add(NAME, votes_of_a_week(study, pairs))
            (folder / "tokens.json").write_text(json.dumps(study.tokens))

    return once("week", make)


def copied(week: Path, root: Path, stack: ExitStack) -> Study:
    """Return a study on a copy of a store with a week of votes, not served yet."""
    study = Study(root, stack)
    shutil.copytree(week / "store", root)
    study.serving, study.tokens = serving_of(root), json.loads((week / "tokens.json").read_text())
    with study.desk() as desk:
        study.pairs = desk.campaigns.tasks(NAME)
    return study


@pytest.fixture
def busy(study: Study, week: Path) -> Study:
    """A campaign with a week of votes, not served yet."""
    return copied(week, study.root, study._stack)


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass for what counts requests, however busy the machine is."""
    monkeypatch.setattr(app, "Limiter", lambda: Limiter(lambda: 100.0))
