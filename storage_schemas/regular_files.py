"""Read files and folders.

Only regular files are read from users' paths: a pipe blocks, a device may never end. If a file system does
not answer, reading is retried; nothing counts as absent or empty because of that.

Incident: a named pipe without a writer among the sources made a scan wait forever.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from storage_schemas.away import ask_again

#: Errors that mean that nothing is there: a loop of links is treated like a dangling link.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_KINDS = (
    (stat.S_ISFIFO, "it is a named pipe, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
    (stat.S_ISDIR, "it is a folder, not a file"),
)


def check_regular(path: Path) -> None:
    """Raise OSError unless there is a file that :func:`open_regular` can open, for readers that open it."""
    _refuse_special(path, path.stat().st_mode)


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, and nothing else.

    Raises
    ------
    OSError
        If it cannot be opened, or is not a regular file; `strerror` says what it is.
    """
    return ask_again(lambda: _open_regular(path))


def _open_regular(path: Path) -> BinaryIO:
    check_regular(path)
    # the file may have been replaced meanwhile: do not wait for a pipe's other end when opening it
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_special(path, os.fstat(handle).st_mode)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """Return the content of a file; see :func:`open_regular`."""

    def read() -> bytes:
        with _open_regular(path) as file:
            return file.read()

    return ask_again(read)


def read_regular_text(path: Path, encoding: str = "utf-8-sig") -> str:
    """Return the text of a file, without a byte order mark and with plain line ends."""
    with io.TextIOWrapper(io.BytesIO(read_regular(path)), encoding=encoding) as file:
        return file.read()


def is_there(path: str | Path) -> bool:
    """Return whether a path exists; OSError if its file system does not answer."""
    try:
        ask_again(partial(os.stat, path))
    except OSError as problem:
        if problem.errno not in _ABSENT:
            raise
        return False
    return True


def in_either_form(path: Path) -> Path:
    """Return a path, with its name in the other Unicode form if only that one exists."""
    others = (path.with_name(unicodedata.normalize(form, path.name)) for form in ("NFC", "NFD"))
    if path.name.isascii() or os.path.lexists(path):
        return path
    return next((other for other in others if os.path.lexists(other)), path)


def leads_nowhere(path: Path) -> bool:
    """Return whether a link is dangling or circular."""
    return path.is_symlink() and not is_there(path)


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the content of a folder, sorted by name; empty if there is no such folder.

    ``Path.glob`` and ``os.walk`` ignore a folder that cannot be read; this raises OSError.
    """

    def read() -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError as problem:
            if problem.errno not in _ABSENT:
                raise
            return []

    return ask_again(read)


def files_below(folder: Path) -> Iterator[Path]:
    """Yield every file at any depth below a folder; links to folders are not followed."""
    for entry in entries(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(Path(entry.path))
        else:
            yield Path(entry.path)


def folders_below(folder: Path) -> Iterator[Path]:
    """Yield every folder at any depth below a folder, the deepest first; links are not followed."""
    for entry in entries(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from folders_below(Path(entry.path))
            yield Path(entry.path)


def why_unread(problem: OSError | UnicodeDecodeError) -> str:
    """Describe why a file could not be read as text."""
    if isinstance(problem, OSError):
        return problem.strerror or str(problem) or "it cannot be opened"
    return f"it is not UTF-8 at byte {problem.start}"


def path_problem(problem: Exception) -> str:
    """Return a message for an error caused by a path that the user chose; empty for any other error.

    The path is a file instead of a folder, or the reverse, it may not be read or written, or its disk is
    full.
    """
    if not isinstance(problem, OSError):
        return ""
    named = problem.filename2 or problem.filename
    if not isinstance(named, str | bytes | os.PathLike):
        return ""
    path = Path(os.fsdecode(named)).absolute()
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space is left for {path}: free some, and run the same command again"
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        # Path.exists raises an error if the parent folder may not be read
        existing = next(one for one in (path, *path.parents) if os.path.exists(one))  # noqa: PTH110
        done, able = ("written", "writable") if os.access(existing, os.R_OK) else ("read", "readable")
        return f"{existing} cannot be {done} ({problem.strerror}): make it {able}, or choose another path"
    if not isinstance(problem, FileExistsError | NotADirectoryError | IsADirectoryError):
        return ""
    if isinstance(problem, IsADirectoryError):
        return f"{path} is a folder, not a file: name a file"
    blocked = next(
        (one for one in (*reversed(path.parents), path) if one.exists() and not one.is_dir()), None
    )
    if blocked is None:
        return ""
    return f"{blocked} is a file, but a folder is needed there: choose another path"


def _refuse_special(path: Path, mode: int) -> None:
    for is_kind, what in _KINDS:
        if is_kind(mode):
            raise OSError(errno.EINVAL, what, str(path))
