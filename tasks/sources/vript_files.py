"""The files of Vript as they lie on disk: unpacked, or still in the archives they are handed out in."""

from __future__ import annotations

import lzma
import os
import shutil
import struct
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from storage_schemas.commit import storage_errors
from storage_schemas.errors import Reason, SetAside
from tasks.sources.base import read_bytes, refuse_to_leave
from tasks.sources.clips import MAX_CAPTION_BYTES


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of the data set: at `path`, or the member `member` of the archive at `path`.

    `location` names it relative to the data set's folder, for messages.
    """

    path: Path
    member: str | None
    location: str

    @property
    def name(self) -> str:
        """The last part of its name."""
        return PurePosixPath(self.member or self.path.as_posix()).name

    def read(self, root: Path) -> bytes:
        """Return the content of a caption file.

        Raises
        ------
        SetAside
            `unsafe_path`, `bad_archive`, `captions_missing`, or `captions_malformed` if it is far too big.
        """
        refuse_to_leave(self.path, root, self.location)
        if self.member is None:
            return read_bytes(self.path, self.location)
        self._refuse_unsafe_member()
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                data = file.read(MAX_CAPTION_BYTES + 1)
        except _ARCHIVE_ERRORS as problem:
            raise _bad_archive(self.location, problem) from problem
        if len(data) > MAX_CAPTION_BYTES:
            raise SetAside(
                Reason.CAPTIONS_MALFORMED,
                f"{self.location} is larger than {MAX_CAPTION_BYTES >> 20} MiB: not captions",
            )
        return data

    def unpack(self, root: Path, target: Path) -> Path:
        """Copy an archive's member to `target`, whole or not at all; one that is there stays.

        Raises
        ------
        SetAside
            `bad_archive`, `unsafe_path` (also for an archive that is a link out of `root`), `out_of_space`
            or `read_only_store`.
        """
        if self.member is None:
            return self.path
        refuse_to_leave(self.path, root, self.location)
        self._refuse_unsafe_member()
        try:
            with zipfile.ZipFile(self.path) as archive:
                info = archive.getinfo(self.member)
                # The copy has the archive's time stamp: one from another archive, or half a copy, has not.
                stamp = self.path.stat().st_mtime_ns
                if target.is_file():
                    copy = target.stat()
                    if (copy.st_size, copy.st_mtime_ns) == (info.file_size, stamp):
                        return target
                with storage_errors(target.parent):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    draft = target.with_name(f".{uuid.uuid4().hex}")
                    try:
                        with archive.open(info) as packed, draft.open("wb") as file:
                            shutil.copyfileobj(packed, file, 1 << 20)
                        os.utime(draft, ns=(stamp, stamp))
                        draft.replace(target)
                    finally:
                        draft.unlink(missing_ok=True)
        except _ARCHIVE_ERRORS as problem:
            raise _bad_archive(self.location, problem) from problem
        return target

    def _refuse_unsafe_member(self) -> None:
        parts = PurePosixPath((self.member or "").replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts:
            raise SetAside(
                Reason.UNSAFE_PATH, f"{self.location} names a path outside its archive: do not trust it"
            )


# zipfile raises RuntimeError for an encrypted member and NotImplementedError for an unknown packing; the
# unpackers beneath it have errors of their own, and names that are not UTF-8 are a ValueError.
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    RuntimeError,
    EOFError,
    KeyError,
    ValueError,
)


def _bad_archive(location: str, problem: Exception) -> SetAside:
    return SetAside(Reason.BAD_ARCHIVE, f"{location} cannot be unpacked ({problem}): fetch it again")


def list_files(root: Path, folder: str, endings: tuple[str, ...]) -> Iterator[DataFile]:
    """Yield the files below a folder whose names have one of these endings, unpacked ones first.

    An archive that cannot be opened is yielded itself, so that it can be told of.
    """
    archives = []
    for path in sorted((root / folder).rglob("*")):
        if path.name.endswith(endings):
            yield DataFile(path, None, path.relative_to(root).as_posix())
        elif path.suffix.lower() == ".zip":
            archives.append(path)
    for path in archives:
        location = path.relative_to(root).as_posix()
        try:
            with zipfile.ZipFile(path) as archive:
                members = sorted(name for name in archive.namelist() if name.endswith(endings))
        except (*_ARCHIVE_ERRORS, OSError):
            yield DataFile(path, None, location)
            continue
        for member in members:
            yield DataFile(path, member, f"{location}/{member}")
