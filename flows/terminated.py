"""A run that was told to end says so, whatever else goes wrong while it ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.exceptions import TerminationSignal

log = logging.getLogger(__name__)


@contextmanager
def told_to_end() -> Iterator[None]:
    """Raise the termination again where an error took its place while a cluster or a server was left.

    Prefect says Crashed of a flow that is terminated, and Failed of one that raises: nobody looks into
    a run that somebody ended.
    """
    try:
        yield
    except Exception as problem:
        ended = _termination(problem)
        if ended is None:
            raise
        log.warning("while the run was ended: %s: %s", type(problem).__name__, problem)
        raise ended from problem


def _termination(problem: BaseException) -> TerminationSignal | None:
    """Return the signal during whose handling an error came, if there was one."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [problem]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        if isinstance(error, TerminationSignal):
            return error
        seen.add(id(error))
        waiting += [error.__cause__, error.__context__]
    return None
