"""Wait for a store whose file system is temporarily read-only or missing, as during a failover."""

from __future__ import annotations

import errno
import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from storage_schemas.away import AWAY_ERRNOS, is_away
from storage_schemas.errors import AWAY_REASONS, SetAside, SlvmevalError, StoreError
from storage_schemas.model import Frozen
from storage_schemas.regular_files import is_there

log = logging.getLogger(__name__)

#: Seconds between two attempts to write.
LOOK_EVERY_S = 1.0
#: Maximum number of repeated calls while the store seems to be available.
MAX_REPEATS = 3

_AWAY = {*AWAY_ERRNOS, errno.EROFS, errno.ENOENT}

T = TypeVar("T")


def why_away(store: Path) -> str | None:
    """Return why a store cannot be written now, or None if it can.

    A full disk and missing permissions do not resolve themselves: such a store counts as available.
    """
    problem = _problem(store)
    return None if problem is None or problem.errno not in _AWAY else os.strerror(problem.errno)


def _problem(store: Path) -> OSError | None:
    try:
        # an unmounted file system leaves an empty folder, which is writable
        (store / "store.json").stat()
        with tempfile.TemporaryFile(dir=store):
            return None
    except OSError as problem:
        return problem


class StoreWait(Frozen):
    """Repeats work that failed because the store was unavailable.

    Parameters
    ----------
    store
        Folder of the store.
    limit_s
        Maximum time to wait, in seconds; 0 to never repeat.
    """

    store: str
    limit_s: float

    def until_done(self, call: Callable[[], T]) -> T:
        """Return the result of a call; wait and repeat it if the store was unavailable meanwhile.

        Raises
        ------
        StoreError
            If the store is still unavailable after the limit.
        OSError, SlvmevalError
            Errors of the call, if the store is available.
        """
        repeats = 0
        while True:
            try:
                result = call()
            except (OSError, SlvmevalError) as problem:
                if not self.limit_s:
                    raise
                if self.was_away():
                    continue
                # it may have been unavailable only for a moment
                if repeats == MAX_REPEATS or not _due_to_store(problem) or _problem(Path(self.store)):
                    raise
                repeats += 1
                time.sleep(LOOK_EVERY_S)
            else:
                # reading in an unmounted folder finds nothing, without an error
                if not self.limit_s or is_there(Path(self.store, "store.json")) or not self.was_away():
                    return result

    def was_away(self) -> bool:
        """Wait until the store is available; return whether waiting was necessary.

        Raises
        ------
        StoreError
            If it is still away after the limit.
        """
        store, began = Path(self.store), time.monotonic()
        why = why_away(store)
        if why is None:
            return False
        log.warning("the store %s is unavailable (%s): waiting up to %.0f s for it", store, why, self.limit_s)
        while time.monotonic() - began < self.limit_s:
            time.sleep(LOOK_EVERY_S)
            if why_away(store) is None:
                log.warning("the store %s is available again after %.0f s", store, time.monotonic() - began)
                return True
        raise StoreError(
            f"the store {store} was unavailable for {self.limit_s:.0f} s ({why}): check its file "
            "system, then run the same command again to resume; store_wait_s in the profile sets "
            "how long a build waits"
        )


def _due_to_store(problem: OSError | SlvmevalError) -> bool:
    if isinstance(problem, SetAside) and problem.reason in AWAY_REASONS:
        return True
    return is_away(problem) or (isinstance(problem, OSError) and problem.errno == errno.EROFS)
