"""The user's name and folders, which may be missing in containers and batch jobs."""

from __future__ import annotations

import getpass
import os
import pwd
from pathlib import Path

#: Environment variable with the home folder of a process whose user has none; the folder is removed when the
#: process ends.
TEMPORARY_HOME = "SLVMEVAL_TEMPORARY_HOME"


def user_name(uid: int | None = None) -> str:
    """Return the name of a user, by default the one who logged in, or ``uid 1234`` if the system has none."""
    try:
        return getpass.getuser() if uid is None else pwd.getpwuid(uid).pw_name
    except (KeyError, OSError):
        return f"uid {os.getuid() if uid is None else uid}"


def home_folder() -> Path | None:
    """Return the user's home folder, or None if it does not exist."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    temporary = os.environ.get(TEMPORARY_HOME) == str(home)
    return home if home.is_dir() and not temporary else None


def cache_folder() -> Path | None:
    """Return our folder in the user's cache, or None if it does not exist and cannot be created.

    It is ``$XDG_CACHE_HOME/slvmeval``, or ``~/.cache/slvmeval`` if that is not set to an absolute path.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    home = home_folder()
    if given.startswith("/"):
        folder = Path(given, "slvmeval")
    elif home is not None:
        folder = home / ".cache" / "slvmeval"
    else:
        return None
    return folder if folder.is_dir() or can_write(folder) else None


def can_write(folder: Path) -> bool:
    """Return whether this process may create files in a folder, and the folder itself if it is missing."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
