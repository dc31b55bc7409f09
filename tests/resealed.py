"""Tampered artifacts whose manifests fit them, so that only checks of the content can find what was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from storage_schemas.commit import MANIFEST_NAME, payload_files
from storage_schemas.json_checksum import with_checksum
from storage_schemas.store import read_manifest


def reseal(folder: Path, **changes: Any) -> None:
    """Write a manifest with changed fields and the checksums of the files that exist now."""
    manifest = read_manifest(folder).model_copy(update={"files": payload_files(folder), **changes})
    (folder / MANIFEST_NAME).write_bytes(with_checksum(manifest.model_dump_json(indent=1)))
