"""Translations of captions that a store has, a line each; they are paid for once."""

from __future__ import annotations

from pathlib import Path

from storage_schemas.json_lines import LinesFolder
from storage_schemas.model import Frozen
from tasks.annotation.places import annotation_folder


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
        folder = annotation_folder(root) / "translations"
        self._lines = LinesFolder(folder, Translation, "that caption is asked about again")

    def __enter__(self) -> KeptTranslations:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def read(self, language: str, settings: str | None = None) -> dict[str, Translation]:
        """Return the translations into a language by the checksum of their caption.

        Parameters
        ----------
        settings
            Only those that were asked so; by default the newest of each caption, whoever gave it.
        """
        found: dict[str, Translation] = {}
        for row in self._lines.rows():
            if row.language == language and settings in (None, row.settings):
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
        self._lines.append(row)
