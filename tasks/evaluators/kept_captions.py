"""Captions that judges had made of videos: one for each video, aspect and captioner, paid for once.

They lie in ``judgements/captions/`` of the store, a line each, in append-only files with one writer each.
What a kill leaves of a last line is ignored.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.model import Frozen

log = logging.getLogger(__name__)


class KeptCaption(Frozen):
    """One caption.

    Parameters
    ----------
    key
        Checksum of all that it was made from.
    text
        The caption.
    model
        The captioner, as its server names it.
    frames, tokens_in, tokens_out, seconds, tries
        What it took.
    """

    key: str
    text: str
    model: str
    frames: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    tries: int = 1


class KeptCaptions:
    """The captions in a folder, shared by the threads of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[str, KeptCaption] | None = None
        self._file: int | None = None

    def get_or_make(self, key: str, make: Callable[[], KeptCaption]) -> tuple[KeptCaption, bool]:
        """Return the caption of a key, and whether it was made now.

        Two threads that want the same one make it once. What `make` raises is raised here.
        """
        with self._lock:
            making = self._making[key]
        with making:
            with self._lock:
                known = self._read()
                if key in known:
                    return known[key], False
            made = make()
            with self._lock:
                self._append(made)
                self._read()[key] = made
            return made, True

    def _read(self) -> dict[str, KeptCaption]:
        if self._known is None:
            self._known = {}
            for path in sorted(self._folder.glob("*.jsonl")):
                for line in path.read_bytes().split(b"\n"):
                    self._take(path, line)
        return self._known

    def _take(self, path: Path, line: bytes) -> None:
        if not line or self._known is None:
            return
        try:
            found = KeptCaption.model_validate(json.loads(line))
        except (ValueError, ValidationError):
            log.warning("%s has a line that is not whole: that caption is made again", path)
            return
        self._known.setdefault(found.key, found)

    def _append(self, made: KeptCaption) -> None:
        with storage_errors(self._folder):
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                path = self._folder / f"{uuid.uuid4().hex}.jsonl"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                sync_path(self._folder)
            rest = memoryview(made.model_dump_json().encode() + b"\n")
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
