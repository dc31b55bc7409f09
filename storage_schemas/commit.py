"""Atomic commits: a result is either complete or absent, even after ``kill -9`` or a full disk.

The manifest is written last: an artifact that has one is complete.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import Field

from storage_schemas.away import AWAY_ERRNOS
from storage_schemas.errors import Reason, SetAside, StoreError, UserInputError
from storage_schemas.ids import digest_file
from storage_schemas.json_checksum import with_checksum
from storage_schemas.model import Frozen
from storage_schemas.regular_files import check_regular, entries, files_below, folders_below

#: Version of everything under a store's folder; stores of other versions are rejected.
SCHEMA_VERSION = 1

MANIFEST_NAME = "manifest.json"


class StoredFile(Frozen):
    """Size in bytes and SHA-256 of one payload file."""

    bytes: int
    sha256: str


class Manifest(Frozen):
    """Inputs, content and provenance of an artifact.

    `consumes` are the inputs that determine the id. `content_checksum` depends on the content only, not on
    its encoding. `provenance` records software and machine and is not part of any id.
    """

    schema_version: int = SCHEMA_VERSION
    kind: str
    id: str
    consumes: dict[str, Any]
    content_checksum: str
    content: dict[str, Any] = Field(default_factory=dict)
    files: dict[str, StoredFile] = Field(default_factory=dict)
    provenance: dict[str, Any] = Field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Total bytes of the payload files."""
        return sum(file.bytes for file in self.files.values())


#: The steps of a commit, in order; a hook sees them as ``kind:step``.
COMMIT_POINTS = ("staged", "payload_written", "payload_synced", "manifest_written", "renamed")

_hook: Callable[[str], None] | None = None


def set_commit_hook(hook: Callable[[str], None] | None) -> None:
    """Call `hook` with ``kind:step`` at every commit point of this process; ``None`` removes it."""
    global _hook
    _hook = hook


def commit_point(kind: str, step: str) -> None:
    """Call the hook, if set, after this step of a commit."""
    if _hook is not None:
        _hook(f"{kind}:{step}")


@contextmanager
def storage_errors(where: Path) -> Iterator[None]:
    """Convert the operating system's "no space", "read-only" and "away" errors into reasons."""
    where = where.absolute()
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SetAside(
                Reason.OUT_OF_SPACE,
                f"no space left below {where}: free some (slvmeval gc frames removes recreatable files) "
                "and run the build again",
            ) from problem
        if problem.errno == errno.EROFS or (
            problem.errno in (errno.EACCES, errno.EPERM, *AWAY_ERRNOS) and _concerns(problem, where)
        ):
            raise SetAside(
                Reason.READ_ONLY_STORE,
                f"{where} cannot be written ({problem.strerror}): make it writable or choose another --store "
                "or --out",
            ) from problem
        raise


def _concerns(problem: OSError, where: Path) -> bool:
    """Return whether an error may concern `where`, unlike, for example, an unreadable video elsewhere."""
    if not isinstance(problem.filename, str | bytes | os.PathLike) or problem.filename2 is not None:
        return True
    path = Path(os.fsdecode(problem.filename)).absolute()
    return path.is_relative_to(where) or where.is_relative_to(path)


def sync_path(path: Path) -> None:
    """Flush one file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush every file and folder below `folder`, then `folder` itself."""
    for path in (*files_below(folder), *folders_below(folder)):
        sync_path(path)
    sync_path(folder)


def refuse_special_target(path: Path) -> None:
    """Raise UserInputError if a rename to `path` would replace something other than a file.

    A rename would replace a device or a pipe like a file, and also a link to one, or to an open file of a
    process (``/dev/stdout``).
    """
    try:
        if path.is_symlink() and path.readlink().is_relative_to("/proc"):
            raise OSError(errno.EINVAL, "it leads to an open file of a process")
        check_regular(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        # an obstacle is reported where the folder is created
        return
    except OSError as problem:
        raise UserInputError(
            f"{path} cannot be written: {problem.strerror}; name a file, or a path that does not exist"
        ) from problem


def write_atomic(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace the file at `path` with `data`, so that a reader sees either the old or the new content.

    A given `mode` applies from the start.

    Raises
    ------
    UserInputError
        If something other than a file is there.
    """
    refuse_special_target(path)
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with draft.open("wb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        sync_path(path.parent)


def private_modes(store: Path) -> tuple[int, int]:
    """Return the modes of a folder and of a file with secrets in a store.

    Only this user may read them; in a store shared by a group (``chmod g+ws``), so may the group.
    """
    group = stat.S_ISGID | stat.S_IWGRP
    return (0o2770, 0o640) if store.stat().st_mode & group == group else (0o700, 0o600)


def private_folder(folder: Path, store: Path) -> None:
    """Create a folder with secrets in a store, with the mode of `private_modes`, unless it exists."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(0o700)
        folder.chmod(private_modes(store)[0])


def payload_files(folder: Path) -> dict[str, StoredFile]:
    """Return size and checksum of every file below `folder` except the manifest, by relative path."""
    return {
        str(path.relative_to(folder)): StoredFile(bytes=path.stat().st_size, sha256=digest_file(path))
        for path in sorted(files_below(folder))
        if path.name != MANIFEST_NAME
    }


def commit_folder(staged: Path, target: Path, manifest: Manifest) -> bool:
    """Write the manifest of a staged folder and rename the folder to `target`.

    Returns
    -------
    bool
        False if a complete `target` existed. The staged folder is then discarded: equal ids mean equal
        content.
    """
    with storage_errors(target.parent):
        sync_tree(staged)
        commit_point(manifest.kind, "payload_synced")
        (staged / MANIFEST_NAME).write_bytes(with_checksum(manifest.model_dump_json(indent=1)))
        sync_path(staged / MANIFEST_NAME)
        sync_path(staged)
        commit_point(manifest.kind, "manifest_written")
        target.parent.mkdir(parents=True, exist_ok=True)
        while not _renamed(staged, target):
            if (target / MANIFEST_NAME).is_file():
                return False
            # a folder without a manifest is not an artifact
            with suppress(FileNotFoundError):
                retire_folder(staged.parent, manifest.kind, target)
        sync_path(target.parent)
        commit_point(manifest.kind, "renamed")
        return True


def _renamed(staged: Path, target: Path) -> bool:
    try:
        staged.rename(target)
    except OSError as problem:
        if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


@contextmanager
def staging_folder(staging: Path, kind: str) -> Iterator[Path]:
    """Create a folder below `staging` that is removed at exit unless it was renamed.

    Its name identifies the owning process and machine, which distinguishes abandoned folders from those being
    written.
    """
    folder = staging / _staging_name(kind)
    with storage_errors(staging):
        folder.mkdir(parents=True)
        commit_point(kind, "staged")
        try:
            yield folder
        finally:
            if folder.exists():
                shutil.rmtree(folder, ignore_errors=True)


def retire_folder(staging: Path, kind: str, folder: Path) -> None:
    """Remove a folder atomically for readers: move it to `staging`, then delete it.

    If the process is killed meanwhile, the rest is removed like other abandoned work.
    """
    with storage_errors(staging):
        staging.mkdir(parents=True, exist_ok=True)
        gone = staging / _staging_name(kind)
        folder.rename(gone)
        shutil.rmtree(gone)


def _staging_name(kind: str) -> str:
    return f"{kind}.{_host()}.{os.getpid()}.{uuid.uuid4().hex}"


def abandoned(staging: Path) -> list[Path]:
    """Return the folders below `staging` whose process ran on this machine and has ended."""
    left = []
    for folder in (Path(entry.path) for entry in entries(staging)):
        parts = folder.name.split(".")
        if len(parts) != 4 or not parts[2].isdigit():
            raise StoreError(f"{folder} was not created by slvmeval: inspect it and remove it by hand")
        if parts[1] == _host() and not process_alive(int(parts[2])):
            left.append(folder)
    return left


def _host() -> str:
    return socket.gethostname().replace(".", "_")


def process_alive(pid: int) -> bool:
    """Return whether a process of this machine exists, including other users' processes."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
