"""Answers of models that are kept: each is paid for once, also where several processes want it.

Those of suites lie in ``suites/answers/`` of the store, descriptions that judges read in
``judgements/captions/``, a line each.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from storage_schemas.commit import storage_errors
from storage_schemas.ids import digest_text
from storage_schemas.json_lines import LinesFolder
from storage_schemas.model import Frozen

#: How often a process looks whether another one has the answer that both want, in seconds.
_LOOK_EVERY_S = 0.1


class StoredAnswer(Frozen):
    """One answer.

    Parameters
    ----------
    key
        Checksum of all that it depends on.
    text
        The answer as it came.
    model
        Who answered, as its server names it.
    asked_by, about
        Checksum of the settings of who asked, and the aspect, where that is noted.
    frames, tokens_in, tokens_out, seconds, tries
        What it took.
    expected_in
        The tokens in that were estimated before it was asked for, where that is noted.
    """

    key: str
    text: str
    model: str
    asked_by: str = ""
    about: str = ""
    frames: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    tries: int = 1
    expected_in: int = 0


#: Threads of this process that want one answer wait for each other, also where they serve several who ask.
_making: dict[tuple[Path, str], threading.Lock] = defaultdict(threading.Lock)


class AnswerStore:
    """The answers in a folder, shared by threads and processes, on one machine or on several."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[str, StoredAnswer] | None = None
        self._lines = LinesFolder(folder, StoredAnswer, "that answer is asked for again")
        self._held: int | None = None

    def get_or_make(self, key: str, make: Callable[[], StoredAnswer]) -> tuple[StoredAnswer, bool]:
        """Return the answer to a key, and whether it was made now.

        Two threads or processes that want the same one make it once. What `make` raises is raised here.
        """
        with self._lock:
            known = self._read().get(key)
        if known is not None:
            return known, False
        with _making[self._folder, key], self._alone(key):
            with self._lock:
                # what another thread or process made meanwhile
                known = self._read_on().get(key)
            if known is not None:
                return known, False
            made = make()
            with self._lock:
                self._lines.append(made)
                self._read()[key] = made
            return made, True

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Hold a key: no other process makes its answer meanwhile; one that dies lets go of it."""
        path = self._folder.with_name(f"{self._folder.name}.lock")
        with self._lock, storage_errors(path.parent):
            if self._held is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                # it stays open: a process that closes it lets go of all that it holds
                self._held = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        held, place = self._held, int(digest_text(key)[:15], 16)
        while True:
            try:
                fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                break
            except OSError as problem:
                if problem.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
            # waiting in the kernel would look like a deadlock to it where two processes hold one each
            time.sleep(_LOOK_EVERY_S)
        try:
            yield
        finally:
            fcntl.lockf(held, fcntl.LOCK_UN, 1, place)

    def find(self, key: str) -> StoredAnswer | None:
        """Return the answer to a key; None where it is not there."""
        with self._lock:
            return self._read().get(key)

    def made_for(self, asked_by: str) -> list[StoredAnswer]:
        """Return the answers that were asked for with some settings."""
        with self._lock:
            return [found for found in self._read().values() if found.asked_by == asked_by]

    def _read(self) -> dict[str, StoredAnswer]:
        return self._read_on() if self._known is None else self._known

    def _read_on(self) -> dict[str, StoredAnswer]:
        """Read what was added since."""
        known = self._known = {} if self._known is None else self._known
        for found in self._lines.new_rows():
            known.setdefault(found.key, found)
        return known


_open: WeakValueDictionary[Path, AnswerStore] = WeakValueDictionary()
_opening = threading.Lock()


def open_answers(folder: Path) -> AnswerStore:
    """Return this process's store of a folder: all who use it hold its answers in memory once."""
    with _opening:
        found = _open.get(folder)
        if found is None:
            found = _open[folder] = AnswerStore(folder)
        return found
