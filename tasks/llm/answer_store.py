"""Stored model answers: each is paid for once, even if several processes request it.

Suites' answers are in ``suites/answers/`` of the store, descriptions that judges read in
``judgements/captions/``, one line each.
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

#: Interval at which a process checks whether another one has made the answer that both need, in seconds.
_LOOK_EVERY_S = 0.1


class StoredAnswer(Frozen):
    """One answer.

    Parameters
    ----------
    key
        Checksum of everything it depends on.
    text
        The raw answer.
    model
        The model that answered, as its server names it.
    asked_by, about
        Checksum of the evaluator's settings, and the aspect, if recorded.
    frames_as
        The form in which the request's frames were sent, if recorded.
    frames, tokens_in, tokens_out, seconds, tries
        Cost of the answer.
    expected_in
        Estimated tokens of the request, if recorded.
    cached_in, written_in
        Of `tokens_in`, those read from and written to the provider's cache.
    paid_by
        Key of the request whose row counts the cost, if that is not the row of the request that made it.
    """

    key: str
    text: str
    model: str
    asked_by: str = ""
    about: str = ""
    frames_as: str = ""
    frames: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    tries: int = 1
    expected_in: int = 0
    cached_in: int = 0
    written_in: int = 0
    paid_by: str = ""


#: Locks for threads of this process that need the same answer, shared by all stores of a folder.
_making: dict[tuple[Path, str], threading.Lock] = defaultdict(threading.Lock)


class AnswerStore:
    """The answers in a folder, shared by threads and processes of one or several machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[str, StoredAnswer] | None = None
        self._lines = LinesFolder(folder, StoredAnswer, "that answer is requested again")
        self._held: int | None = None

    def get_or_make(self, key: str, make: Callable[[], StoredAnswer]) -> tuple[StoredAnswer, bool]:
        """Return the answer of a key, and whether it was made now.

        Threads and processes that need the same answer make it once. Errors of `make` are raised here.
        """
        with self._lock:
            answer = self._read().get(key)
        if answer is not None:
            return answer, False
        with _making[self._folder, key], self._alone(key):
            with self._lock:
                # another thread or process may have made it meanwhile
                answer = self._read_on().get(key)
            if answer is not None:
                return answer, False
            made = make()
            with self._lock:
                self._lines.append(made)
                self._read()[key] = made
            return made, True

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Lock a key, so that no other process makes its answer; the lock of a dead process is released.

        A key is a byte of one file; `storage_schemas.locks` would need a file for each key.
        """
        path = self._folder.with_name(f"{self._folder.name}.lock")
        with self._lock, storage_errors(path.parent):
            if self._held is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                # the file stays open, because closing it would release all locks of this process
                self._held = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        held, digest = self._held, int(digest_text(key)[:15], 16)
        while True:
            try:
                fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, digest)
                break
            except OSError as problem:
                if problem.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
            # not by a blocking lock: the kernel reports a deadlock if two processes hold one key each
            time.sleep(_LOOK_EVERY_S)
        try:
            yield
        finally:
            fcntl.lockf(held, fcntl.LOCK_UN, 1, digest)

    def find(self, key: str) -> StoredAnswer | None:
        """Return the answer of a key, or None."""
        with self._lock:
            return self._read().get(key)

    @property
    def folder(self) -> Path:
        """The folder of the answers."""
        return self._folder

    def stored_keys(self) -> list[str]:
        """Return the keys of all answers."""
        with self._lock:
            return list(self._read())

    def read_on(self) -> None:
        """Read what other processes have added, for :meth:`find`."""
        with self._lock:
            self._read_on()

    def made_for(self, asked_by: str) -> list[StoredAnswer]:
        """Return the answers that an evaluator with these settings requested."""
        with self._lock:
            return [answer for answer in self._read().values() if answer.asked_by == asked_by]

    def _read(self) -> dict[str, StoredAnswer]:
        return self._read_on() if self._known is None else self._known

    def _read_on(self) -> dict[str, StoredAnswer]:
        """Read the answers added since the last read."""
        answers = self._known = {} if self._known is None else self._known
        for answer in self._lines.new_rows():
            answers.setdefault(answer.key, answer)
        return answers


_open: WeakValueDictionary[Path, AnswerStore] = WeakValueDictionary()
_opening = threading.Lock()


def open_answers(folder: Path) -> AnswerStore:
    """Return this process's store of a folder, so that its answers are in memory only once."""
    with _opening:
        store = _open.get(folder)
        if store is None:
            store = _open[folder] = AnswerStore(folder)
        return store
