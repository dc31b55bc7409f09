"""A server that many tests share: each has its own answers, its own folder, and sees its own requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.model import ModelServer
from storage_schemas.store import Store
from tasks.llm.usage import NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo
from tests.tasks.scoring.sides import FrameList, flat
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


def text(body: Mapping[str, Any]) -> str:
    """Return the texts of the user's message."""
    return "\n".join(part["text"] for part in body["messages"][1]["content"] if part["type"] == "text")


def film(frames: int = 8, fps: float = 4.0, luma: int = 100) -> FrameList:
    """A film of frames that grow brighter by one each."""
    made = FrameList([flat(min(235, luma + place)) for place in range(frames)])
    made.fps = fps
    return made


def site(server: Told, name: str) -> Setup:
    """A site with a store in the server's folder, and this server alone."""
    root = server.folder / "store"
    if not root.is_dir():
        Store.create(root)
    return Setup(store_path=str(root), model_servers={name: ModelServer(url=server.url, patience_s=0.1)})
