"""Progress in Prefect's UI: one artifact per stage."""

from __future__ import annotations

import time
from functools import partial
from typing import cast
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact

from flows.board import RunBoard
from flows.declaration import artifact_key

_SHOW_EVERY_S = 2.0


class StageArtifacts:
    """Listens to a run's progress and shows it in Prefect's UI.

    Parameters
    ----------
    board
        Makes the requests.
    counted
        Noun for what is counted.
    """

    def __init__(self, board: RunBoard, counted: str) -> None:
        self._board, self._counted = board, counted
        self._artifacts: dict[str, UUID] = {}
        self._shown: dict[str, float] = {}
        self._state: dict[str, tuple[int, int]] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the number of completed items of a stage."""
        self._state[stage] = done, total
        # each update is a request: limit them
        soon = time.monotonic() - self._shown.get(stage, -_SHOW_EVERY_S) < _SHOW_EVERY_S
        if soon and done < total:
            return
        self._shown[stage] = time.monotonic()
        self._board.post(f"progress of {stage}", partial(self._request, stage))

    def _request(self, stage: str) -> None:
        done, total = self._state[stage]
        share = 100.0 * done / max(total, 1)
        text = f"{stage}: {done} of {total} {self._counted}"
        if stage in self._artifacts:
            update_progress_artifact(self._artifacts[stage], progress=share, description=text)
        else:
            artifact_id = create_progress_artifact(
                progress=share, key=f"progress-{artifact_key(stage)}", description=text
            )
            self._artifacts[stage] = cast(UUID, artifact_id)
