"""JSON objects that end with a checksum of everything before it, so that any changed byte is found.

``{"a": 1}`` is stored as ``{"a": 1, "checksum": "…"}``, with the SHA-256 of the bytes before the last comma.
Manifests, lines of append-only files and the build's small caches are stored this way.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from storage_schemas.errors import IntegrityError
from storage_schemas.regular_files import read_regular

_END = re.compile(rb', "checksum": "([0-9a-f]{64})"}')
_END_LENGTH = len(b', "checksum": ""}') + 64


def with_checksum(text: str | bytes) -> bytes:
    """Return the JSON text of a non-empty object, with its checksum as the last member."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    body = raw.removesuffix(b"}").rstrip()
    return body + b', "checksum": "%s"}' % hashlib.sha256(body).hexdigest().encode()


def without_checksum(stored: bytes) -> bytes | None:
    """Return the JSON text that was given to :func:`with_checksum`; None if any byte has changed."""
    body, end = stored[:-_END_LENGTH], _END.fullmatch(stored[-_END_LENGTH:])
    if end is None or hashlib.sha256(body).hexdigest().encode() != end[1]:
        return None
    return body + b"}"


def read_checked_json(path: Path) -> bytes:
    """Return the JSON text of a file that ends with its checksum.

    Raises
    ------
    FileNotFoundError
        If it does not exist.
    IntegrityError
        If it is damaged.
    """
    text = without_checksum(read_regular(path))
    if text is None:
        raise IntegrityError(f"{path} is damaged: its content does not match its checksum")
    return text
