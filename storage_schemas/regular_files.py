"""Read the files that people name, and nothing else lying there: a pipe blocks, a device may never end."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = (
    (stat.S_ISFIFO, "it is a named pipe, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
    (stat.S_ISDIR, "it is a folder, not a file"),
)


def check_regular(path: Path) -> None:
    """Raise OSError unless a file lies there that :func:`open_regular` can open, for readers that open it."""
    _refuse_special(path, path.stat().st_mode)


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, and nothing else.

    Raises
    ------
    OSError
        If it cannot be opened, or is no regular file; `strerror` says what it is.
    """
    check_regular(path)
    # what lies there may have been exchanged meanwhile: opening it does not wait for a pipe's other end
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_special(path, os.fstat(handle).st_mode)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """Return the content of a file; see :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read()


def read_regular_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a file as ``Path.read_text`` does; see :func:`open_regular`."""
    with io.TextIOWrapper(open_regular(path), encoding=encoding) as file:
        return file.read()


def why_unread(problem: OSError | UnicodeDecodeError) -> str:
    """Return in words why a file could not be read as text."""
    if isinstance(problem, OSError):
        return problem.strerror or str(problem) or "it cannot be opened"
    return f"it is not UTF-8 at byte {problem.start}"


def in_the_way(problem: Exception) -> str:
    """Return a message for an error whose cause is a file where a folder should be, or the reverse.

    Empty for any other error.
    """
    if not isinstance(problem, FileExistsError | NotADirectoryError | IsADirectoryError):
        return ""
    named = problem.filename2 or problem.filename
    if not isinstance(named, str | bytes | os.PathLike):
        return ""
    path = Path(os.fsdecode(named)).absolute()
    if isinstance(problem, IsADirectoryError):
        return f"{path} is a folder, not a file: name a file"
    blocked = next(
        (one for one in (*reversed(path.parents), path) if one.exists() and not one.is_dir()), None
    )
    if blocked is None:
        return ""
    return f"{blocked} is a file, and a folder is needed there: choose another path"


def _refuse_special(path: Path, mode: int) -> None:
    for is_kind, what in _KINDS:
        if is_kind(mode):
            raise OSError(errno.EINVAL, what, str(path))
