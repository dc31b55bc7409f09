"""The annotation folder of a store (database, key, videos), and the installation's key.

::

    annotation/key                   the installation's key, mode 0600
    annotation/desk.sqlite           the default database
    annotation/media/                the videos that workers see
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import uuid
from pathlib import Path

from storage_schemas.commit import private_folder, storage_errors, sync_path
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.regular_files import read_regular
from storage_schemas.secrets import know, know_address

FOLDER = "annotation"
KEY_VARIABLE = "SLVMEVAL_ANNOTATION_KEY"

#: Minimum length of a key that a person sets, in characters.
MIN_KEY = 32


def annotation_folder(root: Path) -> Path:
    """Return the annotation folder of a store; it may not exist yet."""
    return root / FOLDER


def media_folder(root: Path) -> Path:
    """Return the folder of the videos that workers see."""
    return annotation_folder(root) / "media"


def database_url(root: Path, given: str | None = None) -> str:
    """Return the address of the database: `given`, or SQLite in the store."""
    know_address(given or "", "database password")
    return given or f"sqlite:///{sqlite_file(root)}"


def sqlite_file(root: Path) -> Path:
    """Return the file of the default database."""
    return annotation_folder(root).absolute() / "desk.sqlite"


def installation_key(root: Path) -> bytes:
    """Return the key of this installation; create it if there is none.

    It hashes workers' ids and signs links and cookies. ``SLVMEVAL_ANNOTATION_KEY`` overrides the file. If the
    key is lost, returning workers are no longer recognised.

    Raises
    ------
    UserInputError
        If the variable's value is too short.
    PrerequisiteError
        If the file is damaged, readable by others, or missing although a database exists.
    """
    secret = os.environ.get(KEY_VARIABLE, "")
    if secret:
        if len(secret) < MIN_KEY:
            raise UserInputError(f"{KEY_VARIABLE} is too short: set at least {MIN_KEY} random characters")
        return secret.encode()
    path = annotation_folder(root) / "key"
    if not path.exists():
        if sqlite_file(root).exists():
            raise PrerequisiteError(
                f"{path} is missing, and without it the workers in {sqlite_file(root).name} cannot be "
                "recognised: "
                f"restore the file, or set {KEY_VARIABLE}"
            )
        _make(path)
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise PrerequisiteError(f"other users can read the secret {path}: chmod 600 {path}")
    text = read_regular(path).decode("ascii", "replace").strip()
    if len(text) < MIN_KEY:
        raise PrerequisiteError(f"{path} is damaged: restore it from a backup, or set {KEY_VARIABLE}")
    know(text, "annotation key")
    return text.encode()


def derived_key(key: bytes, purpose: str) -> bytes:
    """Return a key for one purpose (32 bytes); a signature made for one is invalid for another."""
    return hmac.new(key, f"slvmeval annotation {purpose}".encode(), hashlib.sha256).digest()


def _make(path: Path) -> None:
    """Write a new key; if several processes do so at once, one wins and the others use its key."""
    with storage_errors(path.parent):
        private_folder(path.parent, path.parent.parent)
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
