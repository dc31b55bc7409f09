"""Translations of captions that a store has: append-only files of one line each, with one writer each.

What a kill leaves of a last line is ignored, and that caption is asked about again.
"""

from __future__ import annotations

import logging
import os
import uuid
from pathlib import Path

from pydantic import ValidationError

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.model import Frozen
from tasks.annotation.places import annotation_folder

log = logging.getLogger(__name__)


class Translation(Frozen):
    """One translated caption.

    Parameters
    ----------
    caption
        SHA-256 of the caption.
    language
        Into which it was translated.
    settings
        Checksum of the model, the prompt and all else that it was asked with.
    text
        The translation.
    model
        What the server calls the model that answered.
    tokens_in, tokens_out, seconds, tries
        What it took.
    at
        When the answer came, UTC.
    """

    caption: str
    language: str
    settings: str
    text: str
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    tries: int = 1
    at: str = ""


class KeptTranslations:
    """The translations of a store.

    Parameters
    ----------
    root
        Folder of the store.
    """

    def __init__(self, root: Path) -> None:
        self._folder = annotation_folder(root) / "translations"
        self._file: int | None = None

    def __enter__(self) -> KeptTranslations:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def read(self, language: str, settings: str | None = None) -> dict[str, Translation]:
        """Return the translations into a language by the checksum of their caption.

        Parameters
        ----------
        settings
            Only those that were asked so; by default the newest of each caption, whoever gave it.
        """
        found: dict[str, Translation] = {}
        for path in sorted(self._folder.glob("*.jsonl")):
            for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
                row = _row(path, number, line) if line else None
                if row is None or row.language != language or settings not in (None, row.settings):
                    continue
                before = found.get(row.caption)
                if before is None or before.at <= row.at:
                    found[row.caption] = row
        return found

    def append(self, row: Translation) -> None:
        """Keep a translation; it is on the disk when this returns.

        Raises
        ------
        SetAside
            If the store is full or cannot be written.
        """
        with storage_errors(self._folder):
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                path = self._folder / f"{uuid.uuid4().hex}.jsonl"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                sync_path(self._folder)
            rest = memoryview(row.model_dump_json().encode() + b"\n")
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)


def _row(path: Path, number: int, line: bytes) -> Translation | None:
    try:
        return Translation.model_validate_json(line)
    except ValidationError:
        log.warning("%s: line %d is not whole, that caption is asked about again", path, number)
        return None
