"""Requests to Prefect's server that a build does not wait for, and that fail without harm to it."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

import httpx
from prefect.exceptions import PrefectException
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

log = logging.getLogger(__name__)

#: How long the end of a build waits for a server that is away, in seconds.
WAIT_S = 600.0
_RETRY_S = 3.0

#: What a request raises when the server is away or will not have it.
SERVER_ERRORS = (httpx.HTTPError, PrefectException, RuntimeError, OSError)


class RunBoard:
    """Makes requests in a thread of its own, in the order of their slots, until the server has taken them.

    A request that waits is replaced by a later one of its slot: only the latest state is of interest.

    Parameters
    ----------
    wait_s
        How long :meth:`close` waits at most.
    retry_s
        How long it waits before it tries again, in seconds.
    """

    def __init__(self, wait_s: float = WAIT_S, retry_s: float = _RETRY_S) -> None:
        self._wait_s, self._retry_s = wait_s, retry_s
        self._requests: dict[str, Callable[[], object]] = {}
        self._changed = threading.Condition()
        self._until: float | None = None
        self._away = False
        # the thread has to know which run it speaks for
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="board", daemon=True)

    def post(self, slot: str, request: Callable[[], object]) -> None:
        """Let a request be made soon; it replaces one of the same slot that still waits."""
        with self._changed:
            self._requests[slot] = request
            self._changed.notify()

    def close(self, wait_s: float | None = None) -> bool:
        """Wait until all requests are made, or the time is over; return whether all were made."""
        with self._changed:
            self._until = time.monotonic() + (self._wait_s if wait_s is None else wait_s)
            self._changed.notify()
        self._thread.join(self._until - time.monotonic() + self._retry_s)
        return not self._requests and not self._thread.is_alive()

    def __enter__(self) -> RunBoard:
        """Start to take requests."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make what still waits; after an error that is not worth much waiting."""
        if not self.close(None if kind is None else self._retry_s):
            log.warning("Prefect's server was away until the end: its pages do not show all of this build")

    def _work(self) -> None:
        # it tries again itself, and soon
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
                    log.warning("Prefect's server does not take %s: %s", slot, problem)
                elif not self._wait_and_keep(slot, request, problem):
                    return
                continue
            if self._away:
                self._away = False
                log.warning("Prefect's server is back")

    def _wait_and_keep(self, slot: str, request: Callable[[], object], problem: Exception) -> bool:
        """Keep a request that failed, and wait a little; return whether there is time for another try."""
        if not self._away:
            self._away = True
            log.warning("Prefect's server is away (%s); the build goes on without it", problem)
        with self._changed:
            # first in line again, unless there is a later one
            self._requests = {slot: self._requests.pop(slot, request)} | self._requests
            self._changed.wait_for(self._over, self._retry_s)
            return not self._over()

    def _over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until


def _refused(problem: Exception) -> bool:
    """Return whether the server answered that it will not have a request, so that asking again is no use."""
    return isinstance(problem, httpx.HTTPStatusError) and problem.response.status_code < 500
