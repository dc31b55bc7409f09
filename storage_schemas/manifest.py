"""The manifest of an artifact: the one truth that its work is done."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from storage_schemas.model import Frozen

#: Version of everything under a store's folder; see ``storage_schemas/migrations.py``.
SCHEMA_VERSION = 2

MANIFEST_NAME = "manifest.json"


class StoredFile(Frozen):
    """Size in bytes and SHA-256 of one payload file."""

    bytes: int
    sha256: str


class Manifest(Frozen):
    """What made an artifact and what it holds.

    `consumes` is what the id is made of; `content_checksum` depends on the content only, not on how
    it is coded; `provenance` says with what and where it was made and is in no id.
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
        """Bytes of all payload files."""
        return sum(file.bytes for file in self.files.values())
