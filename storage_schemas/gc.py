"""What a store can drop: caches, what no release uses, and what killed processes left behind.

Nothing here may run while a build writes into the store: its pairs belong to no release yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from storage_schemas.commit import Manifest, abandoned, retire_folder
from storage_schemas.ids import artifact_id
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
    """How many artifacts of a kind were, or would be, removed, and their bytes."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True)
class UsedIds:
    """The ids that some version of some release refers to."""

    pairs: frozenset[str]
    degraded_clips: frozenset[str]
    frames: frozenset[str]


def used_ids(store: Store) -> UsedIds:
    """Return what all versions of all releases of a store refer to.

    Raises
    ------
    StoreError
        If a version cannot be read: it is not known then what it uses, and nothing may be dropped.
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
    """Remove every artifact of a kind of cache (:data:`storage_schemas.store.CACHE_KINDS`)."""
    return _drop(store, kind, [manifest.id for manifest in store.manifests(kind)], dry_run)


def drop_unreferenced(store: Store, dry_run: bool = False) -> list[Freed]:
    """Remove the artifacts that no version of a release uses, verifications first, pairs, then their clips.

    Caption analyses stay: they are small, and which source they belong to is not in their id.
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
    # a timeline is made of what the frames are made of
    return artifact_id(FRAMES, manifest.consumes) in used.frames


def drop_features(store: Store, dry_run: bool = False) -> Freed:
    """Remove what evaluators computed of frames; the next evaluation computes it again."""
    files = [file for file in store.features.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    if not dry_run and store.features.is_dir():
        retire_folder(store.staging, "features", store.features)
    return Freed("features", len(files), size)


def drop_partial_analyses(store: Store, every: bool, dry_run: bool = False) -> Freed:
    """Remove answers about captions that are in an artifact already, or `every` one.

    The others are what the next build of the same recipe goes on with.
    """
    root = store.partial_analyses
    folders = [
        folder
        for folder in (sorted(root.iterdir()) if root.is_dir() else [])
        if every or store.has(ANALYSIS, folder.name)
    ]
    size = sum(file.stat().st_size for folder in folders for file in folder.iterdir())
    if not dry_run:
        for folder in folders:
            retire_folder(store.staging, "partial", folder)
    return Freed("partial", len(folders), size)


def clear_staging(store: Store, dry_run: bool = False) -> Freed:
    """Remove what killed processes of this machine left in staging."""
    left = abandoned(store.staging)
    size = sum(file.stat().st_size for folder in left for file in folder.rglob("*") if file.is_file())
    if not dry_run:
        store.clear_abandoned()
    return Freed("staging", len(left), size)


def kind_sizes(store: Store) -> Iterator[Freed]:
    """Yield number and bytes of the artifacts of every kind that the store has."""
    folder = store.root / "artifacts"
    for kind in sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []:
        manifests = list(store.manifests(kind))
        yield Freed(kind, len(manifests), sum(manifest.bytes for manifest in manifests))


def _drop(store: Store, kind: str, ids: list[str], dry_run: bool) -> Freed:
    size = 0
    for id_ in ids:
        size += store.manifest(kind, id_).bytes if dry_run else store.remove(kind, id_)
    return Freed(kind, len(ids), size)
