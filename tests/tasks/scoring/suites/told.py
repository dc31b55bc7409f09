"""A server that many tests share: each has its own answers, its own folder, and sees its own requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import ScoredVideo
from tests.tiny_models.faulty_server import FaultyServer, Plan


class Told(FaultyServer):
    """A server that is told what to say; `folder` is that of the test at work."""

    folder = Path()

    def __init__(self) -> None:
        super().__init__(lambda number, body: self._say(number, body))

    def say(self, plan: Plan, models: Sequence[str] | None = None) -> None:
        """Begin again with other answers, and maybe other models."""
        self._say, self.models, self.seen = plan, models or self.models, []


def scored(found: ScoredVideo | NotJudged) -> ScoredVideo:
    """Return a score that has to be there."""
    assert isinstance(found, ScoredVideo), found
    return found


def failure(found: ScoredVideo | NotJudged) -> NotJudged:
    """Return a failure that has to be there."""
    assert isinstance(found, NotJudged), found
    return found
