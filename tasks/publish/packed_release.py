"""A release packed into files, from which another store can restore it.

One tar file has the version's tables, and one for each source its frames, degraded clips and pairs, as the
store keeps them. What tells of the machine that made them stays behind: paths, names of hosts and jobs.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Literal, get_args

from pydantic import Field, StringConstraints, ValidationError

from storage_schemas.commit import (
    MANIFEST_NAME,
    SCHEMA_VERSION,
    Manifest,
    commit_folder,
    payload_files,
    staging_folder,
    storage_errors,
    write_atomic,
)
from storage_schemas.errors import IntegrityError, StoreError, UserInputError
from storage_schemas.first_of_many import first_names
from storage_schemas.ids import artifact_id, digest_file, digest_value
from storage_schemas.json_checksum import with_checksum, without_checksum
from storage_schemas.model import Frozen
from storage_schemas.names import Name
from storage_schemas.provenance import without_machine
from storage_schemas.regular_files import read_regular, why_unread
from storage_schemas.release import RELEASE, Release, release_versions
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import SourceRow
from storage_schemas.store import DEGRADED_CLIP, FRAMES, PAIR, TIMELINE, VERIFIED, Store, read_manifest
from storage_schemas.value_problems import problem_text
from tasks.pairs.verify import verified_consumes
from tasks.publish.release import release_checksum, set_aside_inputs, source_inputs, write_tables
from tasks.report.owned_folder import OwnedFolder

#: Folder of the packed files, and the list of them.
PACKED_FOLDER = "store"
PACKED_LIST = f"{PACKED_FOLDER}/packed.json"
_TABLES_FILE = f"{PACKED_FOLDER}/release.tar"
#: Bytes of a manifest; that of a pair of a day's video has less than a tenth.
_MAX_MANIFEST_BYTES = 64 << 20
_ARTIFACT = re.compile(r"artifacts/([a-z_]+)/([0-9a-f]{2})/([0-9a-f]{64})/(.+)")
_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Kind = Literal["timeline", "frames", "degraded_clip", "pair", "verified"]


class PackedFile(Frozen):
    """One tar file: its path, size and SHA-256, and the artifacts (kind, id) in it."""

    path: Annotated[str, StringConstraints(pattern=rf"^{PACKED_FOLDER}/[0-9a-z]+\.tar$")]
    bytes: int
    sha256: _Digest
    artifacts: tuple[tuple[_Kind, _Digest], ...] = ()


class PackedList(Frozen):
    """The list of a packed release.

    Parameters
    ----------
    content_checksum
        That of the release.
    earlier
        Content checksums of the versions before it, by number.
    """

    format: Literal["slvmeval-packed-release"] = "slvmeval-packed-release"
    schema_version: int = SCHEMA_VERSION
    release: Name
    version: Annotated[int, Field(ge=1)]
    content_checksum: _Digest
    earlier: dict[int, _Digest]
    files: tuple[PackedFile, ...]


def check_may_leave(release: Release) -> None:
    """Raise UserInputError, with their names, if sources of a release may not be redistributed."""
    kept = [row for row in release.sources() if not row.redistributable]
    if kept:
        named = first_names([f"{row.title} ({row.licence})" for row in kept], 10)
        raise UserInputError(
            f"release {release.name} cannot be handed on: the licences of {len(kept)} of its sources do not "
            f"allow it: {named}. Build a release without them, or export only the recipe, with which "
            "anyone who has the sources makes the same pairs (export --recipe-only)"
        )


def pack_release(
    release: Release, owned: OwnedFolder, progress: Callable[[int, int, str], None] | None = None
) -> None:
    """Write the packed files of a release into an exported folder; existing ones are kept.

    Parameters
    ----------
    progress
        Called with (sources done, all sources, title).

    Raises
    ------
    StoreError
        If an artifact is missing, for instance evicted frames.
    SetAside
        If the folder is full or cannot be written.
    """
    store, rows = release.store, release.sources()
    files = []
    for done, row in enumerate(rows):
        if progress is not None:
            progress(done, len(rows), f"packing {row.title}")
        wanted = list(_artifacts(release, row))
        content = [[kind, id_, store.manifest(kind, id_).content_checksum] for kind, id_ in wanted]
        name = f"{PACKED_FOLDER}/{digest_value([row.source_id, content])[:20]}.tar"
        _write_tar(owned, name, lambda wanted=wanted: _artifact_members(store, wanted))  # type: ignore[misc]
        files.append(_packed(owned.path, name, wanted))
    with staging_folder(store.staging, RELEASE) as folder:
        _portable_version(release, folder)
        # of another version, perhaps
        (owned.path / _TABLES_FILE).unlink(missing_ok=True)
        _write_tar(owned, _TABLES_FILE, lambda: _folder_members(folder, "release"))
    files.append(_packed(owned.path, _TABLES_FILE, ()))
    before = [number for number in release_versions(store, release.name) if number < release.version]
    packed = PackedList(
        release=release.name,
        version=release.version,
        content_checksum=release.manifest.content_checksum,
        earlier={
            number: read_manifest(store.versions(release.name) / str(number)).content_checksum
            for number in before
        },
        files=tuple(files),
    )
    owned.announce([PACKED_LIST])
    write_atomic(owned.path / PACKED_LIST, with_checksum(packed.model_dump_json(indent=1)))
    owned.keep([PACKED_LIST])


def _artifacts(release: Release, row: SourceRow) -> Iterator[tuple[str, str]]:
    """Yield kind and id of what a source's pairs need, each once."""
    store = release.store
    found: dict[tuple[str, str], None] = {}
    for frames in dict.fromkeys(
        [row.frames_id, *(record.frames_id for record in release.pairs(source_id=row.source_id))]
    ):
        found[FRAMES, frames] = None
        timeline = artifact_id(TIMELINE, store.manifest(FRAMES, frames).consumes)
        found[TIMELINE, timeline] = None
    for record in release.pairs(source_id=row.source_id):
        for segment in record.segments:
            if segment.degraded_clip is not None:
                found[DEGRADED_CLIP, segment.degraded_clip] = None
        found[PAIR, record.pair_id] = None
        verified = artifact_id(VERIFIED, verified_consumes(record.pair_id))
        if store.has(VERIFIED, verified):
            found[VERIFIED, verified] = None
    yield from sorted(found)


def _portable(manifest: Manifest) -> bytes:
    """Return a manifest, as stored, without details of the machine."""
    portable = manifest.model_copy(update={"provenance": without_machine(manifest.provenance)})
    return with_checksum(portable.model_dump_json(indent=1))


def _artifact_members(store: Store, wanted: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Path | bytes]]:
    for kind, id_ in wanted:
        folder = store.artifact_path(kind, id_)
        below = folder.relative_to(store.root).as_posix()
        manifest = store.manifest(kind, id_)
        for name in sorted(manifest.files):
            yield f"{below}/{name}", folder / name
        yield f"{below}/{MANIFEST_NAME}", _portable(manifest)


def _folder_members(folder: Path, below: str) -> Iterator[tuple[str, Path | bytes]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield f"{below}/{path.relative_to(folder).as_posix()}", path


def _write_tar(
    owned: OwnedFolder, name: str, members: Callable[[], Iterator[tuple[str, Path | bytes]]]
) -> None:
    """Write a tar file that depends on its members only; an existing one is kept."""
    owned.announce([name])
    target = owned.path / name
    if not target.is_file():
        with storage_errors(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            for left in target.parent.glob(f".{target.name}.*"):
                # left by a killed export
                left.unlink()
            draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
            try:
                with tarfile.open(draft, "w", format=tarfile.GNU_FORMAT) as tar:
                    for member, content in members():
                        _add(tar, member, content)
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
    owned.keep([name])


def _add(tar: tarfile.TarFile, member: str, content: Path | bytes) -> None:
    info = tarfile.TarInfo(member)
    info.mode = 0o644
    if isinstance(content, bytes):
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
        return
    with content.open("rb") as file:
        info.size = content.stat().st_size
        tar.addfile(info, file)


def _packed(folder: Path, name: str, artifacts: Sequence[tuple[str, str]]) -> PackedFile:
    path = folder / name
    return PackedFile.model_validate(
        {"path": name, "bytes": path.stat().st_size, "sha256": digest_file(path), "artifacts": artifacts}
    )


def _portable_version(release: Release, folder: Path) -> None:
    """Write a version's files without paths and machines into `folder`, with its manifest."""
    sources = [row.model_copy(update={"video": Path(row.video).name}) for row in release.sources()]
    source_ids = {row.source_id for row in sources}
    # not even the names of other sources leave the store
    set_aside = [
        row.model_copy(update={"location": "", "message": _without_path(row)})
        for row in release.set_aside()
        if row.source_id in source_ids
    ]
    degraded = {
        row.degraded_clip: row.model_copy(update={"provenance": without_machine(row.provenance)})
        for row in release.degraded_clips()
    }
    clips = [clip for row in sources for clip in release.clips(row.source_id)]
    write_tables(folder, release.pairs(), sources, clips, set_aside, degraded.__getitem__)
    for name in sorted(release.manifest.files.keys() - {path.name for path in folder.iterdir()}):
        (folder / name).write_bytes((release.path / name).read_bytes())
    consumes = dict(release.manifest.consumes)
    # a build compares this to see whether anything is new
    consumes |= {"sources": source_inputs(sources)} if "sources" in consumes else {}
    consumes |= {"set_aside": set_aside_inputs(set_aside)} if "set_aside" in consumes else {}
    manifest = release.manifest.model_copy(update={"consumes": consumes, "files": payload_files(folder)})
    (folder / MANIFEST_NAME).write_bytes(_portable(manifest))


def _without_path(row: SetAsideRow) -> str:
    """Return a row's message with the name of its file in place of the path."""
    return (
        row.message.replace(row.location, PurePosixPath(row.location).name) if row.location else row.message
    )


def read_packed_list(path: Path) -> PackedList:
    """Read the list of a packed release.

    Raises
    ------
    UserInputError
        If there is none, or of another version of this program.
    IntegrityError
        If it is damaged.
    """
    try:
        text = without_checksum(read_regular(path))
    except OSError as problem:
        raise UserInputError(
            f"no packed release ({path} {why_unread(problem)}): `slvmeval export --packed` writes one"
        ) from problem
    if text is None:
        raise IntegrityError(f"{path} is damaged: its content does not match its checksum")
    try:
        version = json.loads(text).get("schema_version")
        if version != SCHEMA_VERSION:
            raise UserInputError(
                f"{path} is of schema version {version}, this program reads {SCHEMA_VERSION}: use the "
                "slvmeval that packed it"
            )
        return PackedList.model_validate_json(text)
    except (ValidationError, AttributeError, ValueError) as problem:
        raise IntegrityError(
            f"{path} is not the list of a packed release: {problem_text(problem)}"
        ) from problem


@dataclass(frozen=True)
class Unpacking:
    """A packed release and the store that receives it.

    Parameters
    ----------
    store
        The store.
    packed
        The list.
    origin
        Where it comes from, for messages.
    """

    store: Store
    packed: PackedList
    origin: str

    def refuse_another(self) -> None:
        """Raise UserInputError if the store has another release, or another version, of this name."""
        packed, store = self.packed, self.store
        for number in release_versions(store, packed.release):
            here = read_manifest(store.versions(packed.release) / str(number)).content_checksum
            checksum = {**packed.earlier, packed.version: packed.content_checksum}.get(number)
            if checksum not in (None, here):
                raise UserInputError(
                    f"{store.root} has another version {number} of release {packed.release} (checksum "
                    f"{here[:16]}, that of {self.origin} is {str(checksum)[:16]}): choose another store with "
                    "--store"
                )

    @property
    def is_there(self) -> bool:
        """Whether the store has this version."""
        return self.packed.version in release_versions(self.store, self.packed.release)

    def missing(self) -> list[PackedFile]:
        """Return the files with anything that the store lacks, the one with the tables last."""
        return [
            file
            for file in self.packed.files
            if not all(self.store.has(kind, id_) for kind, id_ in file.artifacts)
            or (file.path == _TABLES_FILE and not self.is_there)
        ]

    def add(self, file: PackedFile, path: Path) -> None:
        """Unpack one file into the store; existing artifacts are kept.

        Raises
        ------
        IntegrityError
            If the file, an artifact or the release is not what the list says.
        SetAside
            If the store is full or cannot be written.
        """
        found = digest_file(path)
        if found != file.sha256:
            raise IntegrityError(
                f"{file.path} of {self.origin} has SHA-256 {found}, its list says {file.sha256}: it was "
                "changed on the way, or after it was packed"
            )
        if file.path == _TABLES_FILE:
            self._add_version(path)
        else:
            self._add_artifacts(file, path)

    def _add_artifacts(self, file: PackedFile, path: Path) -> None:
        wanted = set(file.artifacts)
        for (kind, id_), members, tar in _grouped(path, self._artifact_of):
            if (kind, id_) not in wanted:
                raise IntegrityError(
                    f"{file.path} of {self.origin} holds a {kind} that its list does not name"
                )
            if not self.store.has(kind, id_):
                with staging_folder(self.store.staging, kind) as folder:
                    manifest = self._extracted(tar, members, folder, f"{kind} {id_}")
                    if (manifest.kind, manifest.id) != (kind, id_) or artifact_id(
                        kind, manifest.consumes
                    ) != id_:
                        raise IntegrityError(f"{kind} {id_} of {self.origin} is not what its id says")
                    commit_folder(folder, self.store.artifact_path(kind, id_), manifest)
        lacking = [f"{kind} {id_}" for kind, id_ in file.artifacts if not self.store.has(kind, id_)]
        if lacking:
            raise IntegrityError(f"{file.path} of {self.origin} lacks {lacking[0]}")

    def _add_version(self, path: Path) -> None:
        packed = self.packed
        for _, members, tar in _grouped(path, lambda name: (("release", ""), name.removeprefix("release/"))):
            with staging_folder(self.store.staging, RELEASE) as folder:
                manifest = self._extracted(tar, members, folder, f"release {packed.release}")
                if (manifest.id, manifest.content_checksum) != (
                    f"{packed.release}/{packed.version}",
                    packed.content_checksum,
                ):
                    raise IntegrityError(
                        f"the tables of {self.origin} are those of release {manifest.id} with checksum "
                        f"{manifest.content_checksum}, its list says {packed.release}/{packed.version} and "
                        f"{packed.content_checksum}"
                    )
                self._check_tables(folder, manifest)
                commit_folder(folder, self.store.versions(packed.release) / str(packed.version), manifest)

    def _check_tables(self, folder: Path, manifest: Manifest) -> None:
        """Check that the pairs give the release's checksum, and that the store has all that they need."""
        release = Release(self.store, self.packed.release, self.packed.version, manifest)
        release.path = folder
        checksum = release_checksum(release.pairs())
        if checksum != self.packed.content_checksum:
            raise IntegrityError(
                f"the pairs of {self.origin} have checksum {checksum}, its list says "
                f"{self.packed.content_checksum}"
            )
        for row in release.sources():
            # which timeline is needed stands in the frames' manifest
            needed = chain([(FRAMES, row.frames_id)], _artifacts(release, row))
            lacking = next((item for item in needed if not self.store.has(*item)), None)
            if lacking is not None:
                raise IntegrityError(
                    f"{self.origin} lacks {' '.join(lacking)}, which a pair of {row.title} needs"
                )

    def _artifact_of(self, name: str) -> tuple[tuple[str, str], str]:
        match = _ARTIFACT.fullmatch(name)
        if match is None or match[1] not in get_args(_Kind) or match[3][:2] != match[2]:
            raise IntegrityError(f"{self.origin} holds a file of a strange name: {name!r}")
        return (match[1], match[3]), match[4]

    def _extracted(
        self, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], folder: Path, what: str
    ) -> Manifest:
        """Write members into a folder and return the manifest, which they fit.

        Nothing is written before the members are those that the manifest lists, with their sizes: a file of a
        megabyte can announce terabytes.
        """
        for info in members.values():
            if not info.isreg() or info.issparse():
                raise IntegrityError(f"{self.origin} holds something else than files: {info.name!r}")
        member = members.pop(MANIFEST_NAME, None)
        try:
            if member is None or member.size > _MAX_MANIFEST_BYTES:
                raise ValueError
            manifest = Manifest.model_validate_json(without_checksum(_content(tar, member).read()) or b"")
        except ValueError as problem:
            raise IntegrityError(f"{what} of {self.origin} has no valid manifest") from problem
        announced = {name: file.bytes for name, file in manifest.files.items()}
        if announced != {name: info.size for name, info in members.items()}:
            raise IntegrityError(f"the files of {what} of {self.origin} do not match its manifest")
        for name, info in members.items():
            parts = PurePosixPath(name).parts
            if not parts or ".." in parts or name.startswith("/"):
                raise IntegrityError(f"{self.origin} holds a file of a strange name: {info.name!r}")
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(_content(tar, info), file, 1 << 20)
        if payload_files(folder) != manifest.files:
            raise IntegrityError(f"the files of {what} of {self.origin} do not match its manifest")
        return manifest


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(info)
    assert content is not None
    return content


def _grouped(
    path: Path, key: Callable[[str], tuple[tuple[str, str], str]]
) -> Iterator[tuple[tuple[str, str], dict[str, tarfile.TarInfo], tarfile.TarFile]]:
    """Yield the members of a tar file that belong together, by their name in their folder."""
    try:
        with tarfile.open(path, "r:") as tar:
            groups: dict[tuple[str, str], dict[str, tarfile.TarInfo]] = {}
            for info in tar:
                group, name = key(info.name)
                groups.setdefault(group, {})[name] = info
            for group, members in groups.items():
                yield group, members, tar
    except tarfile.TarError as problem:
        raise IntegrityError(f"{path} is not a tar file: {problem}") from problem


def unpack_folder(
    folder: Path, store: Store, progress: Callable[[int, int, str], None] | None = None
) -> Release:
    """Bring the release of an exported folder into a store, and return it.

    Raises
    ------
    UserInputError
        If the folder has no packed release, or the store another release of its name.
    IntegrityError
        If a file is not what the list says.
    """
    unpacking = Unpacking(store, read_packed_list(folder / PACKED_LIST), str(folder))
    unpacking.refuse_another()
    missing = unpacking.missing()
    for done, file in enumerate(missing):
        if progress is not None:
            progress(done, len(missing), file.path)
        path = folder / file.path
        if not path.is_file():
            raise StoreError(f"{path} is missing: the export is not complete")
        unpacking.add(file, path)
    return Release.open(store, unpacking.packed.release, unpacking.packed.version)
