"""Bring a store of an older schema version up to date.

======= ======================================================================================
version what is new in it
======= ======================================================================================
1       manifests whose `files` say the size of each payload file and nothing else
2       `files` carry SHA-256 too, and a manifest has a `provenance`
======= ======================================================================================

Ids and payloads stay as they are. Every manifest is replaced atomically and `store.json` last, so that a
migration that was killed goes on where it was, and one that is done does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storage_schemas.commit import MANIFEST_NAME, SCHEMA_VERSION, Manifest, write_atomic
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.ids import digest_file
from storage_schemas.store import Store

Progress = Callable[[int, int], None]


def migrate(store_root: Path, progress: Progress | None = None) -> int:
    """Bring the store at `store_root` to `SCHEMA_VERSION`; no build may run in it meanwhile.

    Checksums are taken of the files as they are now; a file that is missing or whose size is not the one
    that its manifest promises is not given one.

    Parameters
    ----------
    progress
        Called with (manifests looked at, manifests in all).

    Returns
    -------
    int
        How many manifests were rewritten; 0 where there was nothing to do.

    Raises
    ------
    StoreError
        If there is no store, or one of a newer version.
    IntegrityError
        Naming the first artifact that is damaged; what was done before is kept.
    SetAside
        If the store cannot be written (`out_of_space`, `read_only_store`).
    """
    store = Store(store_root)
    version = store.schema_version()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{store.root} has schema version {version}, this program knows up to {SCHEMA_VERSION}: "
            "use a newer slvmeval for this store"
        )
    if version not in _STEPS and version != SCHEMA_VERSION:
        raise StoreError(
            f"{store.root} has schema version {version}, which never was one: restore store.json"
        )
    if version == SCHEMA_VERSION:
        return 0
    paths = sorted(_manifests(store))
    rewritten = 0
    for done, path in enumerate(paths, 1):
        rewritten += _migrate_manifest(path)
        if progress is not None:
            progress(done, len(paths))
    write_atomic(store.root / "store.json", json.dumps({"schema_version": SCHEMA_VERSION}).encode())
    return rewritten


def _manifests(store: Store) -> list[Path]:
    return [
        *store.root.glob(f"artifacts/*/*/*/{MANIFEST_NAME}"),
        *store.root.glob(f"releases/*/versions/*/{MANIFEST_NAME}"),
    ]


def _migrate_manifest(path: Path) -> bool:
    try:
        values: dict[str, Any] = json.loads(path.read_bytes())
        version = int(values["schema_version"])
        if version == SCHEMA_VERSION:
            return False
        while version < SCHEMA_VERSION:
            values = _STEPS[version](values, path.parent)
            version = int(values["schema_version"])
        text = Manifest.model_validate(values).model_dump_json(indent=1)
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as problem:
        raise IntegrityError(
            f"{path} is damaged ({problem}): remove {path.parent} and migrate again; the build makes it anew"
        ) from problem
    write_atomic(path, text.encode())
    return True


def _from_1_to_2(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    files = {}
    for name, size in values["files"].items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            raise IntegrityError(
                f"{file} is missing or not as long as its manifest says ({size} bytes): "
                f"remove {folder} and migrate again; the build makes it anew"
            )
        files[name] = {"bytes": size, "sha256": digest_file(file)}
    return {**values, "schema_version": 2, "files": files, "provenance": {"migrated_from_schema": 1}}


#: By version, what brings a manifest to the next one: its values and its folder in, its values out.
_STEPS: dict[int, Callable[[dict[str, Any], Path], dict[str, Any]]] = {1: _from_1_to_2}
