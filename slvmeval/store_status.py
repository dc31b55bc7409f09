"""The state of a store as plain values: builds, releases, sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from infra.progress import read_runs
from storage_schemas.gc import kind_sizes
from storage_schemas.release import Release, release_names, release_versions
from storage_schemas.store import Store


def run_states(store: Store) -> list[dict[str, Any]]:
    """Return the known builds of a store and what else runs in it: running ones first, each newest first.

    A build recorded as running whose process on this machine is gone has ``died``.
    """
    runs = [run for run in read_runs(store.cache) if run["what"] == "build" or run["status"] == "running"]
    return sorted(runs, key=lambda run: run["status"] != "running")


def status_values(store: Store) -> dict[str, Any]:
    """Return a store's status as JSON-serialisable values."""
    runs = run_states(store)
    return {
        "store": str(store.root),
        "run": runs[0] if runs else None,
        "runs": runs,
        "releases": [{"name": name, "versions": _versions(store, name)} for name in release_names(store)],
        "sizes": {size.kind: {"count": size.count, "bytes": size.bytes} for size in kind_sizes(store)},
        "bytes_free": store.free_bytes(),
    }


def _versions(store: Store, name: str) -> list[dict[str, Any]]:
    versions = []
    for version in release_versions(store, name):
        release = Release.open(store, name, version)
        versions.append(
            {
                "version": version,
                "pairs": release.manifest.content["pairs"],
                "sources": release.manifest.content["sources"],
                "recipe": release.info["recipe"],
                "created_at": release.info["created_at"],
                "extends": release.info["extends"],
                "content_checksum": release.manifest.content_checksum,
                "damaged": dict(Counter(row.damage for row in release.sources() if row.damage)),
                "set_aside": dict(Counter(row.reason.value for row in release.set_aside())),
            }
        )
    return versions
