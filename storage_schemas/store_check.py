"""Check every file of a store against its checksum, whether or not a release uses it.

This covers artifacts, release versions, append-only rows and the small caches that a build relies on, but
not files being written (``staging/``), states of runs, or the annotation server's private files.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from storage_schemas.away import is_away
from storage_schemas.commit import Manifest
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.frames import FrameReader
from storage_schemas.ids import artifact_id, digest_frames
from storage_schemas.json_checksum import read_checked_json, without_checksum
from storage_schemas.json_lines import owner_alive
from storage_schemas.regular_files import entries, leads_nowhere, read_regular
from storage_schemas.release import CLIP_FILE, FRAMES_FOLDER, RELEASE
from storage_schemas.row_store import is_sound
from storage_schemas.source import read_timeline
from storage_schemas.store import (
    DEGRADED_CLIP,
    FRAMES,
    KINDS,
    TIMELINE,
    Store,
    file_problems,
    read_manifest,
)

#: Files named after their content, below the store's folder.
_PARTS = (
    "failures/*.parquet",
    "judgements/parts/*.parquet",
    "suites/parts/*.parquet",
    "annotation/votes/*/*.parquet",
    "annotation/decisions/*/*.parquet",
    "annotation/erased/*/*.json",
    "cache/features/*/*/*.parquet",
)
#: Files of lines that each end with a checksum; those in `running` have an owner in their name.
_LINES = (
    "partial/captions/*/*.jsonl",
    "judgements/running/*.jsonl",
    "judgements/captions/*.jsonl",
    "judgements/answers/*.jsonl",
    "suites/running/*.jsonl",
    "suites/answers/*.jsonl",
    "annotation/translations/*.jsonl",
)
#: JSON files that end with a checksum. Without those in the cache, a build only takes longer.
_JSON = (
    "annotation/rules/*.json",
    "cache/reports/*.json",
    "cache/content-hashes.json",
    "cache/build-request-*.json",
)

#: Errors that mean that something is missing or not a file: see ``regular_files.py``.
_WRONG_KIND = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP)
#: Files that a build recreates after :attr:`FileDamage.path` was removed.
_REMAKEABLE = ("failures", "cache")


@dataclass(frozen=True)
class FileDamage:
    """A damaged, missing or unknown file, or one artifact's; `path` is relative to the store's folder.

    `artifact` is (kind, id) if the damage is in an artifact. `removable` says that the path may be removed,
    because the next build recreates it.
    """

    path: str
    problem: str
    artifact: tuple[str, str] | None = None
    removable: bool = False


def checked_paths(store: Store) -> list[str]:
    """Return the arguments with which :func:`check_path` checks the whole store, in a fixed order."""
    patterns = ("artifacts/*/*", "releases/*/versions/*", *_PARTS, *_LINES, *_JSON)
    found = [path for pattern in patterns for path in _found(store.root, pattern.split("/"))]
    # a dangling link on the path of several patterns is found by each
    return list(dict.fromkeys(str(path.relative_to(store.root)) for path in found))


def _found(folder: Path, pattern: list[str]) -> Iterator[Path]:
    """Yield the matches of a pattern below a folder, and dangling links on the way."""
    for entry in entries(folder):
        path = Path(entry.path)
        if entry.name.startswith(".") or not fnmatchcase(entry.name, pattern[0]):
            continue
        if len(pattern) == 1 or (entry.is_symlink() and leads_nowhere(path)):
            yield path
        else:
            yield from _found(path, pattern[1:])


def check_path(store: Store, entry: str) -> list[FileDamage]:
    """Return the damage of a folder of artifacts, a release version, or a file; see :func:`checked_paths`.

    A file that cannot be read because its file system does not answer must not be removed.
    """
    try:
        return _damage_of(store, entry)
    except OSError as problem:
        return [FileDamage(entry, unanswered(problem))]


def unanswered(problem: OSError) -> str:
    """Return a message for a file that could not be read because its file system does not answer."""
    return f"{problem.filename or 'a file'} cannot be read ({problem.strerror}): check its file system"


def _damage_of(store: Store, entry: str) -> list[FileDamage]:
    path = store.root / entry
    if leads_nowhere(path):
        return [FileDamage(entry, f"{path} is a dangling link: restore its target, or remove it")]
    match entry.split("/"):
        case ["artifacts", kind, _]:
            return list(_check_artifacts(store, path, kind))
        case ["releases", name, _, number]:
            return [FileDamage(entry, problem) for problem in _version_problems(path, f"{name}/{number}")]
        case _:
            return _check_file(path, entry)


def _check_artifacts(store: Store, folder: Path, kind: str) -> Iterator[FileDamage]:
    for entry in entries(folder):
        path, id_ = Path(entry.path), entry.name
        damaged = str(path.relative_to(store.root))
        if kind not in KINDS or path != store.artifact_path(kind, id_) or not path.is_dir():
            yield FileDamage(damaged, f"{path} is not an artifact: inspect it and remove it by hand")
            continue
        for problem in artifact_problems(store, kind, id_):
            # an artifact may be removed while the store is read
            if path.is_dir():
                yield FileDamage(damaged, problem, artifact=(kind, id_))


def artifact_problems(store: Store, kind: str, id_: str) -> list[str]:
    """Return what is wrong with an artifact: its id, its files, or frames that do not match the manifest.

    Raises
    ------
    OSError
        If it cannot be read now: its file system does not answer, or too many files are open.
    """
    path = store.artifact_path(kind, id_)
    try:
        manifest = read_manifest(path)
        if (manifest.kind, manifest.id) != (kind, id_) or artifact_id(kind, manifest.consumes) != id_:
            return [f"{path} has an id that does not match its inputs"]
        # intact files may have been written wrongly
        return file_problems(path) or _content_problems(store, manifest)
    except (StoreError, OSError) as problem:
        # other system errors say nothing about the stored data
        if is_away(problem) or (isinstance(problem, OSError) and problem.errno not in _WRONG_KIND):
            raise
        return [str(problem)]


def _content_problems(store: Store, manifest: Manifest) -> list[str]:
    """Return what is wrong with the frames of an artifact whose files match its manifest."""
    path = store.artifact_path(manifest.kind, manifest.id)
    if manifest.kind == TIMELINE:
        checksum = digest_frames(read_timeline(store, manifest.id).digests)
    elif manifest.kind in (FRAMES, DEGRADED_CLIP):
        reader = FrameReader(path / (FRAMES_FOLDER if manifest.kind == FRAMES else CLIP_FILE))
        if wrong := reader.check():
            return [f"{path}: {len(wrong)} of {reader.count} frames are damaged"]
        checksum = digest_frames(reader.digests.tolist())
    else:
        return []
    return (
        [] if checksum == manifest.content_checksum else [f"{path} has frames that differ from its manifest"]
    )


def _version_problems(path: Path, id_: str) -> list[str]:
    try:
        manifest = read_manifest(path)
        if (manifest.kind, manifest.id) != (RELEASE, id_):
            return [f"{path} has the manifest of {manifest.kind} {manifest.id}"]
        return file_problems(path)
    except (StoreError, OSError) as problem:
        if is_away(problem):
            raise
        return [str(problem)]


def _check_file(path: Path, entry: str) -> list[FileDamage]:
    problem = ""
    try:
        if path.suffix == ".jsonl":
            problem = _lines_problem(path)
        elif any(path.match(pattern) for pattern in _JSON):
            read_checked_json(path)
        elif not is_sound(path):
            problem = f"{path} does not match the checksum in its name"
    except FileNotFoundError:
        # has been packed or merged meanwhile
        return []
    except (IntegrityError, OSError) as damage:
        if is_away(damage):
            raise
        problem = str(damage)
    if not problem:
        return []
    removable = entry.startswith(_REMAKEABLE)
    remedy = "it is recreated" if removable else "restore it from a copy"
    return [FileDamage(entry, f"{problem}: {remedy}", removable=removable)]


def _lines_problem(path: Path) -> str:
    """Return what is wrong with a file of lines; a killed writer's incomplete last line is not damage."""
    *lines, rest = read_regular(path).split(b"\n")
    wrong = [number for number, line in enumerate(lines, 1) if without_checksum(line) is None]
    # a complete line is not followed by a line end
    torn = rest and without_checksum(rest) is None
    if torn and without_checksum(rest[:-1]) is not None:
        wrong.append(len(lines) + 1)
    if wrong and path.parent.name == "running" and owner_alive(path):
        wrong = [number for number in wrong if number <= len(lines)]
    return f"{path} is damaged in line {', '.join(map(str, wrong))}" if wrong else ""
