"""Background requests to Prefect's server, whose failures do not affect a build."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.exceptions import PrefectException
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.declaration import artifact_key

log = logging.getLogger(__name__)

#: Seconds that the end of a build waits for an unavailable server.
WAIT_S = 600.0
_RETRY_S = 3.0
#: Minimum time between two updates of a stage's progress: each is a request.
_SHOW_EVERY_S = 2.0

#: Errors of a request when the server is unavailable or rejects it.
SERVER_ERRORS = (httpx.HTTPError, PrefectException, RuntimeError, OSError)


class RunBoard:
    """Makes requests in its own thread, in the order of their slots, until the server accepts them.

    A waiting request is replaced by a later one of the same slot: only the latest state matters.

    Parameters
    ----------
    wait_s
        Maximum time that :meth:`close` waits, in seconds.
    retry_s
        Pause before another attempt, in seconds.
    """

    def __init__(self, wait_s: float = WAIT_S, retry_s: float = _RETRY_S) -> None:
        self._wait_s, self._retry_s = wait_s, retry_s
        self._requests: dict[str, Callable[[], object]] = {}
        self._changed = threading.Condition()
        self._until: float | None = None
        self._away = False
        # the thread needs the context of the run
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="board", daemon=True)

    def post(self, slot: str, request: Callable[[], object]) -> None:
        """Queue a request; it replaces a waiting one of the same slot."""
        with self._changed:
            self._requests[slot] = request
            self._changed.notify()

    def close(self, wait_s: float | None = None) -> bool:
        """Wait until all requests are made or the time is up; return whether all were made."""
        with self._changed:
            self._until = time.monotonic() + (self._wait_s if wait_s is None else wait_s)
            self._changed.notify()
        self._thread.join(self._until - time.monotonic() + self._retry_s)
        return not self._requests and not self._thread.is_alive()

    def __enter__(self) -> RunBoard:
        """Start accepting requests."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make the waiting requests; after an error, wait only briefly."""
        if not self.close(None if kind is None else self._retry_s):
            log.warning(
                "Prefect's server was unavailable at the end: its pages do not show all of this build"
            )

    def _work(self) -> None:
        # this thread retries itself, and sooner than Prefect's client
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
            self._make_requests()

    def _make_requests(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._until is not None)
                if not self._requests:
                    return
                slot = next(iter(self._requests))
                request = self._requests.pop(slot)
            try:
                request()
            except SERVER_ERRORS as problem:
                if _refused(problem):
                    log.warning("Prefect's server rejected %s: %s", slot, problem)
                elif not self._wait_and_keep(slot, request, problem):
                    return
                continue
            if self._away:
                self._away = False
                log.warning("Prefect's server is available again")

    def _wait_and_keep(self, slot: str, request: Callable[[], object], problem: Exception) -> bool:
        """Keep a failed request and wait; return whether there is time for another attempt."""
        if not self._away:
            self._away = True
            log.warning("Prefect's server is unavailable (%s); the build continues without it", problem)
        with self._changed:
            # first in the queue again, unless replaced by a later one
            self._requests = {slot: self._requests.pop(slot, request)} | self._requests
            self._changed.wait_for(self._over, self._retry_s)
            return not self._over()

    def _over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until


def _refused(problem: Exception) -> bool:
    """Return whether the server rejected a request, so that a retry is useless."""
    return isinstance(problem, httpx.HTTPStatusError) and problem.response.status_code < 500


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
