"""A file system that temporarily does not answer: this says nothing about the data; reading is retried."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Errors of a file system that does not answer or whose server was replaced.
AWAY_ERRNOS = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.ENODEV,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ETIMEDOUT,
    }
)

#: Seconds before each further attempt to read.
PAUSES_S = (0.1, 0.5, 2.0)


def is_away(problem: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, says that a file system does not answer.

    Libraries wrap it in other errors: Python's ``zipfile`` reports that the file is not a ZIP file.
    """
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno in AWAY_ERRNOS:
            return True
        behind = None if problem.__suppress_context__ else problem.__context__
        problem = problem.__cause__ or behind
    return False


def ask_again(read: Callable[[], T]) -> T:
    """Return the result of `read`, calling it again if the file system does not answer.

    Raises
    ------
    Exception
        The error of the last call. If it :func:`is_away`, it says nothing about the data.
    """
    for pause_s in PAUSES_S:
        try:
            return read()
        except Exception as problem:
            if not is_away(problem):
                raise
        time.sleep(pause_s)
    return read()
