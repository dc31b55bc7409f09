"""Where a store keeps what belongs to its annotation: the database, the key, the videos.

::

    annotation/key                   the installation's key, mode 0600
    annotation/desk.sqlite           the database, where no other is named
    annotation/media/                the videos that workers are shown
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import uuid
from pathlib import Path

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.errors import PrerequisiteError, UserInputError

FOLDER = "annotation"
KEY_VARIABLE = "SLVMEVAL_ANNOTATION_KEY"

#: A key that a person sets has at least so many characters.
LEAST_KEY = 32


def annotation_folder(root: Path) -> Path:
    """Return the folder of a store that belongs to annotation; it may not be there yet."""
    return root / FOLDER


def media_folder(root: Path) -> Path:
    """Return the folder of the videos that workers are shown."""
    return annotation_folder(root) / "media"


def database_url(root: Path, given: str | None = None) -> str:
    """Return the address of the database: `given`, or SQLite in the store."""
    return given or f"sqlite:///{sqlite_file(root)}"


def sqlite_file(root: Path) -> Path:
    """Return the file of the database that is used where no other is named."""
    return annotation_folder(root).absolute() / "desk.sqlite"


def installation_key(root: Path) -> bytes:
    """Return the key of this installation, making it if there is none.

    Workers' ids are hashed with it, and links and cookies signed. ``SLVMEVAL_ANNOTATION_KEY`` goes over the
    file. Who loses it no longer recognises workers who come back.

    Raises
    ------
    UserInputError
        If the variable is set to something too short.
    PrerequisiteError
        If the file is damaged, others may read it, or a database is there whose key is gone.
    """
    said = os.environ.get(KEY_VARIABLE, "")
    if said:
        if len(said) < LEAST_KEY:
            raise UserInputError(f"{KEY_VARIABLE} is too short: set at least {LEAST_KEY} random characters")
        return said.encode()
    path = annotation_folder(root) / "key"
    if not path.exists():
        if sqlite_file(root).exists():
            raise PrerequisiteError(
                f"{path} is gone, and the workers in {sqlite_file(root).name} are known by it only: put the "
                f"file back, or set {KEY_VARIABLE}"
            )
        _make(path)
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise PrerequisiteError(f"others may read {path}, which is secret: chmod 600 {path}")
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if len(text) < LEAST_KEY:
        raise PrerequisiteError(f"{path} is damaged: put the file back from a copy, or set {KEY_VARIABLE}")
    return text.encode()


def derived_key(key: bytes, purpose: str) -> bytes:
    """Return a key for one purpose (32 bytes), so that a signature for one is worth nothing for another."""
    return hmac.new(key, f"slvmeval annotation {purpose}".encode(), hashlib.sha256).digest()


def _make(path: Path) -> None:
    """Write a new key; of several processes that do so at once one wins and the others take its key."""
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".key.{uuid.uuid4().hex}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, f"{secrets.token_hex(32)}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        sync_path(path.parent)
