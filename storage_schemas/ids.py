"""Ids and checksums: equal inputs give equal ids on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from storage_schemas.away import ask_again
from storage_schemas.regular_files import open_regular

_BLOCK = 1 << 20


def canonical_json(value: Any) -> str:
    """Return the canonical JSON of `value`: sorted keys, no spaces, UTF-8, no NaN.

    Raises
    ------
    ValueError
        For NaN or infinity, which JSON cannot represent.
    TypeError
        For a type that JSON cannot represent.
    """
    return json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
        default=_plain,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no canonical JSON form")


def digest_text(text: str) -> str:
    """Return the SHA-256 of `text` as UTF-8, in hexadecimal (64 characters)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_value(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`."""
    return digest_text(canonical_json(value))


def artifact_id(kind: str, consumes: Mapping[str, Any]) -> str:
    """Return the id of an artifact: the SHA-256 of its kind and its inputs."""
    return digest_value({"kind": kind, "consumes": dict(consumes)})


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal.

    Raises
    ------
    OSError
        If it cannot be read, or is not a regular file.
    """

    def read() -> str:
        state = hashlib.sha256()
        with open_regular(path) as file:
            while block := file.read(_BLOCK):
                state.update(block)
        return state.hexdigest()

    return ask_again(read)


def digest_frame(planes: NDArray[np.uint8]) -> int:
    """Return a 64-bit checksum of one frame's planes (BLAKE2b, little-endian)."""
    raw = hashlib.blake2b(np.ascontiguousarray(planes).data, digest_size=8).digest()
    return int.from_bytes(raw, "little")


def digest_frames(digests: Iterable[int] | NDArray[np.uint64]) -> str:
    """Return the checksum of a sequence of frames, computed from the frames' checksums in order."""
    return hashlib.sha256(np.asarray(list(digests), dtype="<u8").tobytes()).hexdigest()
