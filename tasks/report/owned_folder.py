"""A folder that is rewritten: it keeps a list of its own files, and never removes any other."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.secrets import strike_out

_TEXTS = (".html", ".svg", ".md", ".csv", ".json", ".jsonl", ".txt", ".tex")


class OwnedFolder:
    """A target folder: new, empty, or written by this program before.

    Parameters
    ----------
    path
        The folder; created with the first file.
    list_name
        Name of the file in it that lists the owned files.

    Raises
    ------
    UserInputError
        If the folder holds something else, or its list is damaged.
    """

    def __init__(self, path: Path, list_name: str) -> None:
        self.path = path
        self._list = path / list_name
        self._before = self._listed()
        self._announced = set(self._before)
        self._kept: set[str] = set()

    def announce(self, names: Iterable[str]) -> None:
        """List files before they are written, so that an interrupted run leaves no unlisted file."""
        wanted = set(names)
        if not wanted <= self._announced:
            self._announced |= wanted
            self._write(self._announced)

    def keep(self, names: Iterable[str]) -> None:
        """Mark files as part of the current content."""
        self._kept |= set(names)

    def write(self, name: str, content: bytes) -> None:
        """Write one file atomically; a text without secrets."""
        self.announce([name])
        if Path(name).suffix in _TEXTS:
            content = strike_out(content.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        write_atomic(self.path / name, content)
        self.keep([name])

    def settle(self) -> None:
        """Remove owned files of earlier runs that are no longer part of the content."""
        root = self.path.resolve()
        for name in sorted(self._before - self._kept):
            path = (root / name).resolve()
            if path.is_relative_to(root) and path != root:
                path.unlink(missing_ok=True)
                self._remove_empty(path.parent, root)
        self._write(self._kept)
        self._before = set(self._kept)

    def _remove_empty(self, folder: Path, root: Path) -> None:
        while folder != root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent

    def _write(self, names: set[str]) -> None:
        write_atomic(self._list, json.dumps({"files": sorted(names)}, indent=0).encode())

    def _listed(self) -> set[str]:
        if self._list.is_file():
            try:
                return {str(name) for name in json.loads(self._list.read_text(encoding="utf-8"))["files"]}
            except (ValueError, KeyError, TypeError) as problem:
                raise UserInputError(
                    f"{self._list} is damaged ({problem}): remove the folder {self.path}"
                ) from problem
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UserInputError(
                f"{self.path} has other content than was written here before: choose an empty or new folder"
            )
        return set()


def owned_files(path: Path, list_name: str) -> list[str]:
    """Return the files of a folder that this program wrote, with the list of them."""
    names = json.loads((path / list_name).read_text(encoding="utf-8"))["files"]
    return sorted({*names, list_name})
