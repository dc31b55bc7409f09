"""The store: one folder that holds artifacts, releases and the failures of earlier builds.

::

    store.json                       schema version
    staging/                         artifacts being written
    artifacts/<kind>/<2>/<id>/       payload and manifest.json
    releases/<name>/versions/<N>/    Parquet index, recipe.json, manifest.json
    failures/                        append-only rows, one file per batch
    judgements/                      answers of evaluators, append-only
    suites/                          scores of suites and answers of their models, append-only
    annotation/                      votes and decisions, append-only; the desk's database, key and videos
    partial/captions/<id>/           answers of an incomplete caption analysis
    speeds/                          seconds per frame measured on the site, one file per check
    cache/                           files that can be recreated
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storage_schemas.commit import (
    MANIFEST_NAME,
    SCHEMA_VERSION,
    Manifest,
    abandoned,
    commit_folder,
    commit_point,
    payload_files,
    retire_folder,
    staging_folder,
    storage_errors,
    write_atomic,
)
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.ids import artifact_id, digest_file
from storage_schemas.json_checksum import without_checksum
from storage_schemas.regular_files import entries, files_below, is_there, read_regular
from storage_schemas.value_problems import first_error

log = logging.getLogger(__name__)

#: Kinds of artifact. Frames and encoded segments are caches, recreated from the source when needed; the
#: timeline (frames of a source with their checksums) is kept.
TIMELINE = "timeline"
FRAMES = "frames"
ANALYSIS = "analysis"
DEGRADED_CLIP = "degraded_clip"
PAIR = "pair"
VERIFIED = "verified"
ENCODED = "encoded"
CACHE_KINDS = (FRAMES, ENCODED)
KINDS = (TIMELINE, FRAMES, ANALYSIS, DEGRADED_CLIP, PAIR, VERIFIED, ENCODED)

_REMEDY = "`slvmeval verify --deep --repair` removes it, and the next build recreates it"


#: Folders of a store that a build creates.
_FOLDERS = frozenset({"artifacts", "releases"})


def _lost(marker: Path, beside: str) -> IntegrityError:
    content = json.dumps({"schema_version": SCHEMA_VERSION})
    return IntegrityError(
        f"{marker} is missing next to {beside}/: restore it from a copy; if this version of "
        f"slvmeval created the store, `echo '{content}' > {shlex.quote(str(marker))}` writes "
        "it"
    )


@dataclass
class StagedArtifact:
    """An artifact being written: put the payload into `path`, then set the content fields."""

    path: Path
    content_checksum: str = ""
    content: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None


class Store:
    """A store's folder; all paths within it are constructed here, from ids that are checksums.

    Parameters
    ----------
    root
        The folder; :meth:`create` creates it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    @classmethod
    def create(cls, root: Path) -> Store:
        """Open the store at `root`, creating it if necessary.

        Raises
        ------
        StoreError
            If the folder contains something else, or a store with another schema version.
        SetAside
            If the folder cannot be written (`out_of_space`, `read_only_store`).
        """
        store = cls(root)
        marker = store.root / "store.json"
        if store.root.exists() and not store.root.is_dir():
            raise StoreError(f"{store.root} is a file: choose an empty or new folder with --store")
        if not marker.exists():
            with storage_errors(store.root):
                store.root.mkdir(parents=True, exist_ok=True)
                strangers = [path.name for path in store.root.iterdir() if not path.name.startswith(".")]
                own_folders = sorted(_FOLDERS.intersection(strangers))
                if own_folders:
                    raise _lost(marker, own_folders[0])
                # another process may have created the store meanwhile
                if strangers and not marker.exists():
                    raise StoreError(
                        f"{store.root} is neither a store nor empty (it contains {sorted(strangers)[0]!r}): "
                        "choose an empty or new folder with --store"
                    )
                write_atomic(marker, json.dumps({"schema_version": SCHEMA_VERSION}).encode())
        return cls.open(root)

    @classmethod
    def open(cls, root: Path) -> Store:
        """Open the store at `root`.

        Raises
        ------
        StoreError
            If there is no store, or it has another schema version.
        IntegrityError
            If the file with the version is damaged.
        """
        store = cls(root)
        version = store.schema_version()
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{store.root} has schema version {version}, this program reads {SCHEMA_VERSION}: "
                "use the slvmeval version that created it, or choose another folder with --store"
            )
        return store

    def schema_version(self) -> int:
        """Return the schema version recorded in the store's folder; see :meth:`open`."""
        marker = self.root / "store.json"
        try:
            return int(json.loads(read_regular(marker))["schema_version"])
        except (FileNotFoundError, NotADirectoryError) as problem:
            own_folders = sorted(_FOLDERS.intersection(entry.name for entry in entries(self.root)))
            if own_folders:
                raise _lost(marker, own_folders[0]) from problem
            raise StoreError(
                f"no store at {self.root}: `slvmeval build` or `slvmeval pull` creates one"
            ) from problem
        except OSError as problem:
            raise StoreError(
                f"{marker} cannot be read ({problem.strerror}): make it readable or choose another --store"
            ) from problem
        except (ValueError, KeyError, TypeError) as problem:
            raise IntegrityError(
                f"{marker} is damaged (it names no schema version): restore it from a copy"
            ) from problem

    @property
    def staging(self) -> Path:
        """Folder of artifacts being written."""
        return self.root / "staging"

    @property
    def failures(self) -> Path:
        """Folder of the append-only failure rows."""
        return self.root / "failures"

    @property
    def partial_analyses(self) -> Path:
        """Folder of the answers of incomplete analyses, with a folder for each id."""
        return self.root / "partial" / "captions"

    @property
    def cache(self) -> Path:
        """Folder of small files that can be recreated."""
        return self.cache_of(self.root)

    @staticmethod
    def cache_of(root: Path) -> Path:
        """Return the folder of small files of a store in this folder, which need not exist."""
        return root / "cache"

    @property
    def exports(self) -> Path:
        """Folder of exports being uploaded to a hub, which can be recreated."""
        return self.cache / "exports"

    @property
    def pulled(self) -> Path:
        """Folder of files downloaded from a hub, until they are unpacked."""
        return self.cache / "pulled"

    @property
    def features(self) -> Path:
        """Folder of frame features computed by evaluators; it can be recreated."""
        return self.cache / "features"

    def artifact_path(self, kind: str, id_: str) -> Path:
        """Return the folder of an artifact, whether it exists or not."""
        return self.root / "artifacts" / kind / id_[:2] / id_

    def versions(self, release: str) -> Path:
        """Return the folder of a release's versions."""
        return self.root / "releases" / release / "versions"

    def has(self, kind: str, id_: str) -> bool:
        """Return whether the complete artifact exists."""
        # a large build calls this tens of thousands of times: avoid the cost of a Path
        return is_there(f"{self.root}/artifacts/{kind}/{id_[:2]}/{id_}/{MANIFEST_NAME}")

    def manifest(self, kind: str, id_: str) -> Manifest:
        """Return the manifest of an artifact.

        Raises
        ------
        StoreError
            If the artifact does not exist.
            IntegrityError
            If its manifest cannot be read.
        """
        return read_manifest(self.artifact_path(kind, id_))

    def read(self, kind: str, id_: str, name: str) -> bytes:
        """Return the content of one payload file of an artifact, checked against its manifest.

        Raises
        ------
        StoreError
            If the artifact does not exist.
        IntegrityError
            If the file or the manifest is damaged.
        """
        folder = self.artifact_path(kind, id_)
        stored = read_manifest(folder).files.get(name)
        try:
            data = read_regular(folder / name)
        except FileNotFoundError as problem:
            raise IntegrityError(f"{folder / name} is missing: {_REMEDY}") from problem
        if stored is None or hashlib.sha256(data).hexdigest() != stored.sha256:
            raise IntegrityError(f"{folder / name} does not match its manifest: {_REMEDY}")
        return data

    def discard(self, kind: str, id_: str, problem: IntegrityError) -> None:
        """Remove an artifact that a build found damaged and is about to recreate."""
        log.warning("%s; it is removed and recreated", problem)
        # another process may have found and removed it too
        with suppress(StoreError, FileNotFoundError):
            self.remove(kind, id_)

    def manifests(self, kind: str) -> Iterator[Manifest]:
        """Yield the manifest of every complete artifact of a kind, sorted by id."""
        for id_ in self.ids(kind):
            if self.has(kind, id_):
                yield self.manifest(kind, id_)

    def ids(self, kind: str) -> Iterator[str]:
        """Yield the names of all folders of a kind of artifact, complete or not, sorted."""
        for group in entries(self.root / "artifacts" / kind):
            yield from (entry.name for entry in entries(Path(group.path)))

    @contextmanager
    def stage(self, kind: str, consumes: Mapping[str, Any]) -> Iterator[StagedArtifact]:
        """Stage an artifact; it is committed when the block ends without an error.

        Examples
        --------
        >>> with store.stage("pair", consumes) as staged:  # doctest: +SKIP
        ...     (staged.path / "pair.json").write_text(text)
        ...     staged.content_checksum = digest
        """
        id_ = artifact_id(kind, consumes)
        with staging_folder(self.staging, kind) as folder:
            staged = StagedArtifact(folder)
            yield staged
            commit_point(kind, "payload_written")
            manifest = Manifest(
                kind=kind,
                id=id_,
                consumes=dict(consumes),
                content_checksum=staged.content_checksum,
                content=staged.content or {},
                files=payload_files(folder),
                provenance=staged.provenance or {},
            )
            commit_folder(folder, self.artifact_path(kind, id_), manifest)

    def remove(self, kind: str, id_: str) -> int:
        """Remove an artifact atomically; return its size in bytes.

        Raises
        ------
        StoreError
            If it does not exist.
        """
        path = self.artifact_path(kind, id_)
        if not path.is_dir():
            raise StoreError(f"no {kind} {id_} in {self.root}")
        size = sum(file.stat().st_size for file in files_below(path))
        retire_folder(self.staging, kind, path)
        return size

    def clear_abandoned(self) -> int:
        """Remove folders that killed processes of this machine left in staging; return their number."""
        left = abandoned(self.staging)
        for folder in left:
            # another build may remove it at the same time
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
        return len(left)

    def free_bytes(self) -> int:
        """Return the free bytes of the store's file system."""
        return shutil.disk_usage(self.root).free


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the artifact or release version in `folder`, checked against its own checksum.

    Raises
    ------
    StoreError
        If there is none.
    IntegrityError
        If it cannot be read.
    """
    path = folder / MANIFEST_NAME
    try:
        text = without_checksum(read_regular(path))
        if text is None:
            raise IntegrityError(f"{path} does not match its own checksum: {_REMEDY}")
        return Manifest.model_validate_json(text)
    except FileNotFoundError as problem:
        raise StoreError(f"no complete artifact in {folder}: run the build again") from problem
    except ValidationError as problem:
        raise IntegrityError(f"{path} is damaged ({first_error(problem)}): {_REMEDY}") from problem


def file_problems(folder: Path) -> list[str]:
    """Return the damaged, missing and unexpected files of an artifact or release version.

    Raises
    ------
    StoreError
        If there is no manifest, or it cannot be read.
    """
    files = read_manifest(folder).files
    problems = []
    for name, stored in files.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{path} is missing: {_REMEDY}")
        elif path.stat().st_size != stored.bytes or digest_file(path) != stored.sha256:
            problems.append(f"{path} does not match its manifest: {_REMEDY}")
    existing = {str(path.relative_to(folder)) for path in files_below(folder)}
    extra = sorted(existing - {*files, MANIFEST_NAME})
    return problems + [f"{folder / name} is not in the manifest: remove it" for name in extra]


def check_files(folder: Path) -> None:
    """Check every file of an artifact or release version against its manifest.

    Raises
    ------
    StoreError
        If there is no manifest.
    IntegrityError
        The message names every file that is missing, differs or is not in the manifest.
    """
    problems = file_problems(folder)
    if problems:
        raise IntegrityError("; ".join(problems))
