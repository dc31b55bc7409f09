"""Checksums of video files, cached between scans."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError, Reason, SetAside
from storage_schemas.ids import digest_file
from storage_schemas.json_checksum import read_checked_json, with_checksum

_log = logging.getLogger(__name__)

#: Name of the file below the cache folder.
CACHE_NAME = "content-hashes.json"

# A file written just now may change again within the clock's resolution, with the same time stamp.
_RACY_NS = 2_000_000_000

# Hashing a terabyte takes hours: save the results this often, in seconds.
_SAVE_EVERY_S = 30.0


class ContentHashes:
    """Computes the SHA-256 of files, reading a file again only if its size, time stamp or inode changed.

    Parameters
    ----------
    folder
        Folder of the cache; ``None`` disables it. A damaged or read-only cache only costs time.
    settle_s
        A file changed less than this many seconds ago counts as still being written; 0 for never.
    """

    def __init__(self, folder: Path | None, settle_s: float = 0.0) -> None:
        self._file = folder / CACHE_NAME if folder is not None else None
        self._settle_s = settle_s
        self._known: dict[str, list[int | str]] = self._load()
        self._unsaved = False
        self._saved_at = time.monotonic()

    def digest(self, path: Path, shown: str) -> str:
        """Return the SHA-256 of a file in hexadecimal; `shown` is its name in messages.

        Raises
        ------
        SetAside
            `video_missing` if it cannot be read, `empty_file` for zero bytes, `still_being_written` if it
            changed while it was read or less than `settle_s` ago.
        """
        try:
            return self._digest(path, shown)
        except OSError as problem:
            raise SetAside(
                Reason.VIDEO_MISSING, f"{shown} cannot be read ({problem.strerror}): check the file"
            ) from problem

    def _digest(self, path: Path, shown: str) -> str:
        before = path.stat()
        if before.st_size == 0:
            raise SetAside(Reason.EMPTY_FILE, f"{shown} has zero bytes: copy it again")
        if self._settle_s > 0 and time.time() - before.st_mtime < self._settle_s:
            raise SetAside(
                Reason.STILL_BEING_WRITTEN,
                f"{shown} changed less than {self._settle_s:g} s ago: build again when it is complete",
            )
        key = str(path.resolve())
        stamp = [before.st_size, before.st_mtime_ns, before.st_ino]
        stored = self._known.get(key)
        if stored is not None and stored[:3] == stamp:
            return str(stored[3])
        digest = digest_file(path)
        after = path.stat()
        if [after.st_size, after.st_mtime_ns, after.st_ino] != stamp:
            raise SetAside(
                Reason.STILL_BEING_WRITTEN,
                f"{shown} changed while it was read: build again when it is complete",
            )
        if time.time_ns() - after.st_mtime_ns > _RACY_NS:
            self._known[key] = [*stamp, digest]
            self._unsaved = True
            if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
                self.save()
        return digest

    def save(self) -> None:
        """Write new checksums to the cache folder."""
        if self._file is None or not self._unsaved:
            return
        try:
            write_atomic(self._file, with_checksum(json.dumps(self._known, sort_keys=True)))
        except (OSError, SetAside) as problem:
            _log.warning("cannot cache checksums in %s: %s", self._file, problem)
        self._unsaved = False
        self._saved_at = time.monotonic()

    def _load(self) -> dict[str, list[int | str]]:
        if self._file is None:
            return {}
        try:
            rows = json.loads(read_checked_json(self._file))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, IntegrityError) as problem:
            _log.warning("cannot read %s, computing checksums again: %s", self._file, problem)
            return {}
        if not isinstance(rows, dict):
            return {}
        return {key: row for key, row in rows.items() if isinstance(row, list) and len(row) == 4}
