"""Checkpoint folders in a model folder: their manifests, and how they are placed.

A checkpoint folder lists its files in a manifest; it is placed completely or not at all, by one process at a
time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from storage_schemas.checksum_cache import remembered_digests
from storage_schemas.commit import commit_point, sync_path, sync_tree, write_atomic
from storage_schemas.errors import IntegrityError, PrerequisiteError
from storage_schemas.ids import digest_file, digest_value
from storage_schemas.locks import holder, only_one
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular
from storage_schemas.value_problems import first_error
from tasks.models.registry import ModelSpec, Wheel, folder_name

#: The file that makes a folder a model.
MANIFEST = "slvmeval-model.json"
#: Weights that can run code when they are loaded.
PICKLED = frozenset({".bin", ".ckpt", ".pkl", ".pickle", ".pt", ".pth"})

#: Suffixes of weights; the registry names all weights of a built-in model.
_WEIGHTS = PICKLED | {".safetensors", ".onnx", ".gguf", ".h5", ".msgpack"}

#: Called before each file is read: bytes of the folder read so far, bytes in total, the file's path.
FileProgress = Callable[[int, int, str], None]


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    plain = bool(parts) and "/".join(parts) == path and "\\" not in path and "\0" not in path
    if not plain or path.startswith("/") or ".." in parts or path == MANIFEST:
        raise ValueError(f"{path!r} is not a path within the folder")
    return path


class MirrorFile(Frozen):
    """One file of a checkpoint folder; `path` is relative to the folder, with ``/``."""

    path: Annotated[str, AfterValidator(_inside)]
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class MirrorManifest(Frozen):
    """Content of ``slvmeval-model.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Literal[1] = Field(default=1, alias="schema")
    name: str
    kind: str
    repository: str | None = None
    revision: str | None = None
    licence: str
    memory_bytes: int = Field(ge=0)
    #: Whether every file was compared with the hub's list for that commit, or with checksums known here;
    #: False for added models.
    compared_with_hub: bool = False
    files: tuple[MirrorFile, ...] = Field(min_length=1)

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def digest(self) -> str:
        """One checksum for all files, from their sorted paths and checksums."""
        return digest_value(sorted([file.path, file.sha256] for file in self.files))

    @property
    def identity(self) -> dict[str, str | None]:
        """The model's part of the ids of artifacts made with it."""
        return {"repository": self.repository, "revision": self.revision, "digest": self.digest}

    @property
    def source_name(self) -> str:
        """The name that fetches the model again.

        It is the repository if the folder is named after that, else the model's name.
        """
        return self.repository if self.repository and folder_name(self.repository) == self.name else self.name

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        return (json.dumps(self.model_dump(mode="json", by_alias=True), indent=1) + "\n").encode()


def assumed_memory(size: int) -> int:
    """Return the memory that a model of this size is assumed to need: a quarter more than its files take."""
    return size + size // 4


def read_manifest(folder: Path) -> MirrorManifest:
    """Return a checkpoint folder's manifest.

    Raises
    ------
    IntegrityError
        If its ``slvmeval-model.json`` cannot be read, with the first problem.
    """
    path = folder / MANIFEST
    try:
        return MirrorManifest.model_validate_json(read_regular(path))
    except ValidationError as problem:
        detail = first_error(problem)
    except OSError as problem:
        detail = str(problem.strerror)
    raise IntegrityError(f"{path} is damaged ({detail}): remove the folder and fetch or add the model again")


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files of a checkpoint folder, except hidden ones and its manifest."""
    paths = []
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(root, name).relative_to(folder).as_posix() for name in names if name[0] != "."]
    return sorted(path for path in paths if path != MANIFEST)


def check_sizes(folder: Path, manifest: MirrorManifest) -> None:
    """Compare a folder's files and their sizes with its manifest.

    Raises
    ------
    IntegrityError
        For the first file that is missing, too short, too long or unlisted.
    """
    for file in manifest.files:
        path = folder / file.path
        if not path.is_file():
            raise IntegrityError(f"{path} is missing: {_remedy(manifest, folder)}")
        size = path.stat().st_size
        if size != file.size:
            how = "truncated" if size < file.size else "too long"
            raise IntegrityError(
                f"{path} is {how} ({size:,} bytes, expected {file.size:,}): {_remedy(manifest, folder)}"
            )
    # a loader might prefer a file without a checksum over one that has one
    strange = sorted(set(files_below(folder)) - {file.path for file in manifest.files})
    if strange:
        raise IntegrityError(
            f"{folder} holds {strange[0]}, which {MANIFEST} does not list: move it elsewhere, or remove "
            f"{MANIFEST} and add the folder again with `slvmeval models add`"
        )


def check_sums(
    folder: Path, manifest: MirrorManifest, *, again: bool = False, progress: FileProgress | None = None
) -> None:
    """Compare every file's SHA-256; files unchanged since they were last read are not read again.

    Call :func:`check_sizes` first: it is cheap and detects unlisted files.

    Parameters
    ----------
    again
        Read all files, including unchanged ones.

    Raises
    ------
    IntegrityError
        For the first file whose content differs.
    """
    done = 0
    for file in manifest.files:
        if progress is not None:
            progress(done, manifest.size, file.path)
        sha256 = (
            digest_file(folder / file.path) if again else remembered_digests(folder, [file.path])[file.path]
        )
        if sha256 != file.sha256:
            raise IntegrityError(
                f"{folder / file.path} is not the expected file (SHA-256 {sha256[:16]}…, expected "
                f"{file.sha256[:16]}…): {_remedy(manifest, folder)}"
            )
        done += file.size


def check_spec(where: Path, manifest: MirrorManifest, spec: ModelSpec | None) -> None:
    """Compare a folder's manifest with the built-in model of that name.

    Raises
    ------
    IntegrityError
        If the folder holds another model, or another version than the built-in one of that name.
    """
    if manifest.name != where.name:
        raise IntegrityError(
            f"{where} holds model {manifest.name!r}: a folder must have its model's name; rename it, or "
            "remove it and fetch or add the model again"
        )
    if spec is None:
        return
    if isinstance(spec.source, Wheel):
        raise IntegrityError(
            f"{spec.name} is the single file {spec.files[0].path}, but {where} is a folder of that name: "
            "give your model another name"
        )
    own_name = "; your own model needs another name (`slvmeval models add NAME`): remove the folder"
    if (manifest.repository, manifest.revision) != (spec.repository, spec.revision):
        raise IntegrityError(
            f"{where} is {manifest.repository} @ {manifest.revision}, but {spec.name} is {spec.repository} @ "
            f"{spec.revision}{own_name}"
        )
    if manifest.kind != spec.kind:
        raise IntegrityError(
            f"{where} has the kind {manifest.kind!r}, but {spec.name} is a {spec.kind!r}{own_name}"
        )
    check_known(spec, str(where), {file.path: (file.size, file.sha256) for file in manifest.files})
    known = {file.path for file in spec.files}
    if not known:
        # no second source confirms these files: they were compared with the hub's list when fetched
        return
    # a loader might prefer other weights over the known ones
    others = [file.path for file in manifest.files if PurePosixPath(file.path).suffix in _WEIGHTS]
    strange = sorted(set(others) - known)
    if strange:
        raise IntegrityError(
            f"{where} has the weights {strange[0]} in addition to those of {spec.name}: remove them, or give "
            "your model another name (`slvmeval models add NAME`)"
        )


def check_known(spec: ModelSpec, where: str, stated: Mapping[str, tuple[int, str | None]]) -> None:
    """Compare listed sizes and checksums of files with those known of a model.

    Parameters
    ----------
    where
        Where the files are listed, for messages.
    stated
        Size in bytes and SHA-256 (None: not listed) by path.

    Raises
    ------
    IntegrityError
        For the first file that is missing or differs.
    """
    for known in spec.files:
        if known.path not in stated:
            raise IntegrityError(f"{where} has no {known.path}, which {spec.name} has")
        size, sha256 = stated[known.path]
        if size != known.size or (None not in (known.sha256, sha256) and sha256 != known.sha256):
            raise IntegrityError(
                f"{known.path} of {where} ({size:,} bytes, SHA-256 {sha256}) is not that of {spec.name} "
                f"({known.size:,} bytes, SHA-256 {known.sha256 or 'unknown'})"
            )


def _remedy(manifest: MirrorManifest, folder: Path) -> str:
    return f"remove {folder}, and fetch or add the model again (slvmeval models add {manifest.source_name})"


@contextmanager
def placing(name: str, model_folder: Path, step: str) -> Iterator[Path]:
    """Yield the staging folder of a model; it remains until the model is placed, even after an error.

    Parameters
    ----------
    name
        The model.
    model_folder
        The model folder.
    step
        The step, part of the folder's name: ``fetch``, which can resume, or ``add``.

    Raises
    ------
    PrerequisiteError
        If another process is fetching or adding the model.
    """
    model_folder.mkdir(parents=True, exist_ok=True)
    staging = model_folder / f".{step}-{name}"
    lock = model_folder / f".{name}.lock"
    with only_one(lock) as mine:
        if not mine:
            raise PrerequisiteError(
                f"{holder(lock)} is fetching or adding {name} in {model_folder}: wait until it has finished"
            )
        staging.mkdir(exist_ok=True)
        yield staging


def check_free(target: Path) -> None:
    """Raise if `target` already exists.

    Raises
    ------
    PrerequisiteError
        With the path.
    """
    if target.exists():
        raise PrerequisiteError(f"{target} already exists: remove it first")


def place_folder(staging: Path, target: Path, manifest: MirrorManifest) -> None:
    """Write the manifest, last, and rename the folder to its final path.

    Raises
    ------
    PrerequisiteError
        If `target` already exists.
    """
    check_free(target)
    for left in staging.glob(".*"):
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    sync_tree(staging)
    commit_point("model", "payload_synced")
    write_atomic(staging / MANIFEST, manifest.to_bytes())
    commit_point("model", "manifest_written")
    staging.rename(target)
    sync_path(target.parent)
    commit_point("model", "renamed")
