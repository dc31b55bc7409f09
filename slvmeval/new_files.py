"""Write the initial files of a package or project: all or none, never overwriting."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from storage_schemas.errors import UserInputError


def write_new_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder, creating it if necessary.

    Parameters
    ----------
    folder
        The folder; its other content is left unchanged.
    files
        Contents by path relative to it; a script with a first line ``#!`` can be executed.

    Raises
    ------
    UserInputError
        If one of them exists, or the folder cannot be written.
    """
    # resolve links, because a link cannot be replaced by a folder
    folder = folder.resolve()
    existing = sorted(name for name in files if os.path.lexists(folder / name))
    if existing:
        raise UserInputError(
            f"{folder} already contains {existing[0]}, which is not overwritten: name another folder"
        )
    try:
        is_there = folder.exists()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder if is_there else folder.parent, prefix=".new-"
        ) as unfinished:
            draft = Path(unfinished) / "files"
            for name, text in files.items():
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                (draft / name).write_text(text, encoding="utf-8")
                if text.startswith("#!"):
                    (draft / name).chmod(0o755)
            if not is_there:
                draft.replace(folder)
                return
            # keep the folder itself: it may be a mount, or a shell's working directory
            for name in files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                # fails if a file has appeared meanwhile
                os.link(draft / name, folder / name)
    except OSError as problem:
        raise UserInputError(
            f"{folder} cannot be written ({problem.strerror}): name another folder"
        ) from problem
