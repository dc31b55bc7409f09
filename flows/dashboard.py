"""What a person sees of a build in Prefect's UI: names, progress, tables, pictures, links, log lines."""

from __future__ import annotations

import logging
import time
from functools import partial
from pathlib import Path
from typing import ClassVar, cast
from uuid import UUID

from prefect.artifacts import (
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client

from flows.board import RunBoard
from infra.progress import BuildProgress

log = logging.getLogger(__name__)

_SHOW_EVERY_S = 2.0


class FlowProgress(BuildProgress):
    """Shows progress in Prefect's UI too, as one artifact a stage.

    Class attributes
    ----------------
    counts
        What is counted, for a person.
    """

    counts: ClassVar[str] = "sources"

    def __init__(self, board: RunBoard, cache: Path | None = None, quiet: bool = False) -> None:
        super().__init__(cache, quiet)
        self._board = board
        self._artifacts: dict[str, UUID] = {}
        self._shown: dict[str, float] = {}

    def expect(self, stage: str, total: int) -> None:
        """Say how many items a stage has, on top of those it had."""
        super().expect(stage, total)
        self._show(stage)

    def done(self, stage: str, label: str, set_aside: int = 0) -> None:
        """Count one item of a stage as done."""
        super().done(stage, label, set_aside)
        self._show(stage)

    def _show(self, stage: str) -> None:
        # an update is a request: not one for every source of thousands
        soon = time.monotonic() - self._shown.get(stage, -_SHOW_EVERY_S) < _SHOW_EVERY_S
        if soon and self._done[stage] < self._total[stage]:
            return
        self._shown[stage] = time.monotonic()
        self._board.post(f"progress of {stage}", partial(self._request, stage))

    def _request(self, stage: str) -> None:
        done, total = self._done[stage], self._total[stage]
        share = 100.0 * done / max(total, 1)
        says = f"{stage}: {done} of {total} {self.counts}"
        if stage in self._artifacts:
            update_progress_artifact(self._artifacts[stage], progress=share, description=says)
        else:
            made = create_progress_artifact(
                progress=share, key=f"progress-{artifact_key(stage)}", description=says
            )
            self._artifacts[stage] = cast(UUID, made)


def post_name(board: RunBoard, run_id: UUID, name: str, tags: list[str]) -> None:
    """Give a flow run a name and tags."""

    def request() -> None:
        with get_client(sync_client=True) as client:
            client.update_flow_run(run_id, name=name, tags=tags)

    board.post("name of the run", request)


def artifact_key(text: str) -> str:
    """Return a name as Prefect wants an artifact's key: lower case letters, digits and dashes."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
