"""Add a checkpoint folder, your own or downloaded elsewhere, as a model."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Literal

from storage_schemas.commit import storage_errors, write_atomic
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.regular_files import check_regular, open_regular, why_unread
from tasks.models.loaders import check_kind
from tasks.models.mirror import (
    MANIFEST,
    PICKLED,
    FileProgress,
    MirrorFile,
    MirrorManifest,
    assumed_memory,
    check_spec,
    files_below,
    place_folder,
    placing,
)
from tasks.models.registry import MODEL_SPECS, ModelSpec, Wheel, check_model_name

#: ``copy`` copies the files, ``link`` creates hard links, ``in-place`` leaves them where they are.
How = Literal["copy", "link", "in-place"]

_BLOCK = 1 << 22


def add_model(
    name: str,
    folder: Path,
    model_folder: Path,
    *,
    kind: str | None = None,
    licence: str | None = None,
    repository: str | None = None,
    revision: str | None = None,
    memory_bytes: int | None = None,
    how: How = "copy",
    pickled: bool = False,
    progress: FileProgress | None = None,
) -> Path:
    """Add a checkpoint folder to a model folder; checksums are computed, nothing is loaded.

    Parameters
    ----------
    name
        The model's name in recipes. Under a built-in name the files must be those of the built-in model.
    folder
        The checkpoint, as ``from_pretrained`` expects it; hidden files are ignored.
    model_folder
        The model folder.
        kind, licence
        How it is loaded, and its licence; a built-in model has its own.
    repository, revision
        Its origin, if known; part of the ids of artifacts made with it.
    memory_bytes
        Memory needed on the device; by default 1.25 times its size.
    how
        How the files are placed; ``in-place`` makes a symbolic link where the folder lies elsewhere.
    pickled
        Whether to accept pickled weights, which can run code when they are loaded.
    progress
        Called before each file is read.

    Returns
    -------
    Path
        ``model_folder / name``.

    Raises
    ------
    UserInputError
        For an invalid name, kind or folder.
    PrerequisiteError
        If the model already exists, or another process is adding it.
    IntegrityError
        If the files differ from those of the built-in model of that name.
    """
    check_model_name(name)
    spec = MODEL_SPECS.get(name)
    folder, target = folder.expanduser().resolve(), model_folder.expanduser().absolute() / name
    paths = _check_given(name, folder, spec, kind, pickled)
    if target.resolve() == folder and how != "in-place":
        raise UserInputError(f"{folder} is already in the model folder: use --set files=in-place")
    if (target / MANIFEST).exists() or (target.exists() and target.resolve() != folder):
        raise PrerequisiteError(f"{target} already exists: remove it first, or choose another name")

    def manifest(files: tuple[MirrorFile, ...]) -> MirrorManifest:
        size = sum(file.size for file in files)
        given = MirrorManifest(
            name=name,
            kind=kind or (spec.kind if spec is not None else ""),
            repository=repository,
            revision=revision,
            licence=licence or (spec.licence if spec is not None else "unknown"),
            memory_bytes=assumed_memory(size) if memory_bytes is None else memory_bytes,
            files=files,
        )
        if spec is None:
            return given
        source = {"repository": repository or spec.repository, "revision": revision or spec.revision}
        made = given.model_copy(update={**source, "memory_bytes": spec.memory_bytes})
        check_spec(target, made, spec)
        return made

    with storage_errors(model_folder), placing(name, target.parent, "add") as staging:
        if how == "in-place":
            done = manifest(tuple(_taken(folder, paths, None, how, progress)))
            write_atomic(folder / MANIFEST, done.to_bytes())
            if target.resolve() != folder:
                target.symlink_to(folder, target_is_directory=True)
            shutil.rmtree(staging)
            return target
        # files of a killed process are not reused: copying again needs no network
        shutil.rmtree(staging)
        staging.mkdir()
        try:
            done = manifest(tuple(_taken(folder, paths, staging, how, progress)))
            place_folder(staging, target, done)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return target


def _check_given(
    name: str, folder: Path, spec: ModelSpec | None, kind: str | None, pickled: bool
) -> list[str]:
    """Check the arguments; return the paths of the files to add."""
    if spec is not None and isinstance(spec.source, Wheel):
        raise UserInputError(
            f"{name} is the single file {spec.files[0].path}: put it into the model folder, or add a model "
            "of your own under another name"
        )
    if spec is None and kind is None:
        raise UserInputError(f"say how {name} is loaded: --kind KIND")
    if kind is not None:
        check_kind(kind)
    if not folder.is_dir():
        raise UserInputError(f"{folder} is not a folder: give the folder that holds the checkpoint")
    paths = files_below(folder)
    if not paths:
        raise UserInputError(f"{folder} contains no files")
    for path in paths:
        try:
            check_regular(folder / path)
        except OSError as problem:
            raise UserInputError(
                f"{folder / path} cannot be added ({why_unread(problem)}): remove it, or put the file there"
            ) from problem
    named = {file.path for file in spec.files} if spec is not None else set()
    refused = [path for path in paths if PurePosixPath(path).suffix in PICKLED and path not in named]
    if refused and not pickled:
        raise UserInputError(
            f"{folder / refused[0]} holds pickled weights, which can run code when loaded: remove it if "
            "there are safetensors, convert it, or accept it with --set pickled=true if you trust it"
        )
    return paths


def _taken(
    folder: Path, paths: list[str], staging: Path | None, how: How, progress: FileProgress | None
) -> Iterator[MirrorFile]:
    """Yield each file's size and checksum, after copying or linking it to `staging` if requested."""
    total = sum((folder / path).stat().st_size for path in paths)
    done = 0
    for path in paths:
        if progress is not None:
            progress(done, total, path)
        source = (folder / path).resolve()
        if staging is not None:
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
        if staging is not None and how == "link":
            _link(source, staging / path)
        size, sha256 = _read(source, staging / path if staging is not None and how == "copy" else None)
        done += size
        yield MirrorFile(path=path, size=size, sha256=sha256)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as problem:
        raise UserInputError(
            f"{source} cannot be linked to {target.parent} ({problem.strerror}): both must be on one file "
            "system; copy the files, or use --set files=in-place"
        ) from problem


def _read(source: Path, copy: Path | None) -> tuple[int, str]:
    """Return a file's size and SHA-256 and copy it in one pass, so that the checksum is the copy's."""
    state, size = hashlib.sha256(), 0
    with open_regular(source) as file:
        sink = copy.open("wb") if copy is not None else None
        try:
            while block := file.read(_BLOCK):
                state.update(block)
                size += len(block)
                if sink is not None:
                    sink.write(block)
        finally:
            if sink is not None:
                sink.close()
    return size, state.hexdigest()
