"""Remove what a store does not need: caches, unreferenced artifacts, and remains of killed processes.

Do not run this while a build writes to the store, because its pairs do not belong to a release yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage_schemas.commit import Manifest, abandoned, retire_folder
from storage_schemas.ids import artifact_id
from storage_schemas.regular_files import entries, files_below
from storage_schemas.release import Release, release_names, release_versions
from storage_schemas.store import (
    ANALYSIS,
    DEGRADED_CLIP,
    ENCODED,
    FRAMES,
    PAIR,
    TIMELINE,
    VERIFIED,
    Store,
)


@dataclass(frozen=True)
class Freed:
    """Number and size of the artifacts of a kind that were, or would be, removed."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True)
class UsedIds:
    """Ids referenced by any version of any release."""

    pairs: frozenset[str]
    degraded_clips: frozenset[str]
    frames: frozenset[str]


def used_ids(store: Store) -> UsedIds:
    """Return the ids referenced by all versions of all releases of a store.

    Raises
    ------
    StoreError
        If a version cannot be read: what it references is then unknown, so nothing may be removed.
    """
    pairs: set[str] = set()
    clips: set[str] = set()
    frames: set[str] = set()
    for name in release_names(store):
        for version in release_versions(store, name):
            release = Release.open(store, name, version)
            frames.update(row.frames_id for row in release.sources())
            for record in release.pairs():
                pairs.add(record.pair_id)
                frames.add(record.frames_id)
                clips.update(s.degraded_clip for s in record.segments if s.degraded_clip is not None)
    return UsedIds(frozenset(pairs), frozenset(clips), frozenset(frames))


def evict(store: Store, kind: str, dry_run: bool = False) -> Freed:
    """Remove every artifact of a cache kind (:data:`storage_schemas.store.CACHE_KINDS`)."""
    return _drop(store, kind, [manifest.id for manifest in store.manifests(kind)], dry_run)


def drop_unreferenced(store: Store, dry_run: bool = False) -> list[Freed]:
    """Remove artifacts that no release version references: verifications, then pairs, then clips.

    Caption analyses are kept: they are small, and their id does not identify their source.
    """
    used = used_ids(store)
    freed = []
    for kind in (VERIFIED, PAIR, DEGRADED_CLIP, ENCODED, FRAMES, TIMELINE):
        ids = [manifest.id for manifest in store.manifests(kind) if not _is_used(manifest, used)]
        freed.append(_drop(store, kind, ids, dry_run))
    return freed


def _is_used(manifest: Manifest, used: UsedIds) -> bool:
    if manifest.kind == PAIR:
        return manifest.id in used.pairs
    if manifest.kind == VERIFIED:
        return manifest.consumes["pair"] in used.pairs
    if manifest.kind == DEGRADED_CLIP:
        return manifest.id in used.degraded_clips
    if manifest.kind == ENCODED:
        return manifest.consumes["frames"] in used.frames
    # a timeline has the same inputs as the frames
    return artifact_id(FRAMES, manifest.consumes) in used.frames


def drop_features(store: Store, dry_run: bool = False) -> Freed:
    """Remove frame features computed by evaluators; the next evaluation computes them again."""
    files = list(files_below(store.features))
    size = sum(file.stat().st_size for file in files)
    if not dry_run and store.features.is_dir():
        retire_folder(store.staging, "features", store.features)
    return Freed("features", len(files), size)


def drop_partial_analyses(store: Store, every: bool, dry_run: bool = False) -> Freed:
    """Remove stored caption answers that are part of an artifact, or all of them if `every`.

    The next build with the same recipe continues with the others.
    """
    root = store.partial_analyses
    removable = [
        folder
        for folder in (Path(entry.path) for entry in entries(root))
        if every or store.has(ANALYSIS, folder.name)
    ]
    size = sum(file.stat().st_size for folder in removable for file in files_below(folder))
    if not dry_run:
        for folder in removable:
            retire_folder(store.staging, "partial", folder)
    return Freed("partial", len(removable), size)


def clear_staging(store: Store, dry_run: bool = False) -> Freed:
    """Remove files that killed processes of this machine left in staging."""
    left = abandoned(store.staging)
    size = sum(file.stat().st_size for folder in left for file in files_below(folder))
    if not dry_run:
        store.clear_abandoned()
    return Freed("staging", len(left), size)


def kind_sizes(store: Store) -> Iterator[Freed]:
    """Yield number and size of the artifacts of each kind in the store."""
    for kind in (entry.name for entry in entries(store.root / "artifacts")):
        manifests = list(store.manifests(kind))
        yield Freed(kind, len(manifests), sum(manifest.bytes for manifest in manifests))


def _drop(store: Store, kind: str, ids: list[str], dry_run: bool) -> Freed:
    size = 0
    for id_ in ids:
        size += store.manifest(kind, id_).bytes if dry_run else store.remove(kind, id_)
    return Freed(kind, len(ids), size)
