"""Checkpoint folders below a models folder: what each holds, and how one gets there.

A folder says in a file of its own what it holds; it is placed whole or not at all, by one process at a
time.
"""

from __future__ import annotations

import fcntl
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
from storage_schemas.model import Frozen
from tasks.models.registry import HubRepository, ModelSpec

#: The file that makes a folder a model.
MANIFEST = "slvmeval-model.json"
#: Weights that can run code when they are loaded.
PICKLED = frozenset({".bin", ".ckpt", ".pkl", ".pickle", ".pt", ".pth"})

#: Weights: of a built-in model all are known by name.
_WEIGHTS = PICKLED | {".safetensors", ".onnx", ".gguf", ".h5", ".msgpack"}

#: Called before each file that is read: bytes read of a folder so far, bytes in all, the file's path.
FileProgress = Callable[[int, int, str], None]


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    plain = bool(parts) and "/".join(parts) == path and "\\" not in path and "\0" not in path
    if not plain or path.startswith("/") or ".." in parts or path == MANIFEST:
        raise ValueError(f"{path!r} is no path within the folder")
    return path


class MirrorFile(Frozen):
    """One file of a checkpoint folder; `path` is relative to the folder, with ``/``."""

    path: Annotated[str, AfterValidator(_inside)]
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class MirrorManifest(Frozen):
    """What ``slvmeval-model.json`` says."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Literal[1] = Field(default=1, alias="schema")
    name: str
    kind: str
    repository: str | None = None
    revision: str | None = None
    licence: str
    memory_bytes: int = Field(ge=0)
    #: Whether every file was compared with what the hub states for that commit; not so where it was added.
    compared_with_hub: bool = False
    files: tuple[MirrorFile, ...] = Field(min_length=1)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def digest(self) -> str:
        """One checksum of all files: of their sorted paths and checksums."""
        return digest_value(sorted([file.path, file.sha256] for file in self.files))

    @property
    def identity(self) -> dict[str, str | None]:
        """What stands for the model in the id of what it makes."""
        return {"repository": self.repository, "revision": self.revision, "digest": self.digest}

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        return (json.dumps(self.model_dump(mode="json", by_alias=True), indent=1) + "\n").encode()


def read_manifest(folder: Path) -> MirrorManifest:
    """Return what a checkpoint folder says of itself.

    Raises
    ------
    IntegrityError
        If its ``slvmeval-model.json`` cannot be read, with the first thing that is wrong in it.
    """
    path = folder / MANIFEST
    try:
        return MirrorManifest.model_validate_json(path.read_bytes())
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        detail = f"{where}: {first['msg']}" if where else first["msg"]
    except OSError as problem:
        detail = str(problem.strerror)
    raise IntegrityError(f"{path} is damaged ({detail}): remove the folder and fetch or add the model again")


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files of a checkpoint folder, without hidden ones and its manifest."""
    paths = []
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(root, name).relative_to(folder).as_posix() for name in names if name[0] != "."]
    return sorted(path for path in paths if path != MANIFEST)


def check_sizes(folder: Path, manifest: MirrorManifest) -> None:
    """Compare which files there are, and their sizes, with what the folder says of itself.

    Raises
    ------
    IntegrityError
        For the first file that is missing, too short or too long, or that is not named.
    """
    for file in manifest.files:
        path = folder / file.path
        if not path.is_file():
            raise IntegrityError(f"{path} is missing: {_mend(manifest, folder)}")
        size = path.stat().st_size
        if size != file.size:
            how = "cut off" if size < file.size else "longer than it should be"
            raise IntegrityError(
                f"{path} is {how} ({size:,} bytes, expected {file.size:,}): {_mend(manifest, folder)}"
            )
    # a loader might take a file that no checksum covers in place of one that does
    strange = sorted(set(files_below(folder)) - {file.path for file in manifest.files})
    if strange:
        raise IntegrityError(
            f"{folder} holds {strange[0]}, which {MANIFEST} does not name: move it away, or remove "
            f"{MANIFEST} and add the folder again with `slvmeval models add`"
        )


def check_sums(
    folder: Path, manifest: MirrorManifest, *, again: bool = False, progress: FileProgress | None = None
) -> None:
    """Compare every file's SHA-256; a file that did not change since it was last read is not read again.

    Call :func:`check_sizes` before: it costs nothing, and it finds files that are not named.

    Parameters
    ----------
    again
        Read all files, also those that did not change.

    Raises
    ------
    IntegrityError
        For the first file that has another content.
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
                f"{folder / file.path} is not the file it should be (SHA-256 {sha256[:16]}…, expected "
                f"{file.sha256[:16]}…): {_mend(manifest, folder)}"
            )
        done += file.size


def check_spec(where: Path, manifest: MirrorManifest, spec: ModelSpec | None) -> None:
    """Compare what a folder says it is with what the model of its name must be.

    Raises
    ------
    IntegrityError
        If the folder is another model's, or another version than the built-in one of that name.
    """
    if manifest.name != where.name:
        raise IntegrityError(
            f"{where} says that it is model {manifest.name!r}: a folder is called as its model, rename it, "
            "or remove it and fetch or add the model again"
        )
    if spec is None:
        return
    source = spec.source
    if not isinstance(source, HubRepository):
        raise IntegrityError(
            f"{spec.name} is the single file {spec.files[0].path}, but {where} is a folder of that name: "
            "give your model a name of its own"
        )
    own_name = "; a model of your own needs a name of its own (`slvmeval models add NAME`), remove the folder"
    if (manifest.repository, manifest.revision) != (source.name, source.revision):
        raise IntegrityError(
            f"{where} is {manifest.repository} @ {manifest.revision}, but {spec.name} is {source.name} @ "
            f"{source.revision}{own_name}"
        )
    if manifest.kind != spec.kind:
        raise IntegrityError(
            f"{where} says that its kind is {manifest.kind!r}, but {spec.name} is a {spec.kind!r}{own_name}"
        )
    check_known(spec, str(where), {file.path: (file.size, file.sha256) for file in manifest.files})
    known = {file.path for file in spec.files}
    if not known:
        # nobody confirmed which they are: what the hub stated counted when they were fetched
        return
    # a loader might take others in place of those that are known
    others = [file.path for file in manifest.files if PurePosixPath(file.path).suffix in _WEIGHTS]
    strange = sorted(set(others) - known)
    if strange:
        raise IntegrityError(
            f"{where} has the weights {strange[0]} besides those of {spec.name}: leave them out, or give "
            "your model a name of its own (`slvmeval models add NAME`)"
        )


def check_known(spec: ModelSpec, where: str, stated: Mapping[str, tuple[int, str | None]]) -> None:
    """Compare sizes and checksums that are stated of files with those that are known of a model.

    Parameters
    ----------
    where
        Who states it.
    stated
        Size in bytes and SHA-256 (None: not stated) by path.

    Raises
    ------
    IntegrityError
        For the first file that is missing or another one.
    """
    for known in spec.files:
        if known.path not in stated:
            raise IntegrityError(f"{where} has no {known.path}, which {spec.name} has")
        size, sha256 = stated[known.path]
        if size != known.size or (None not in (known.sha256, sha256) and sha256 != known.sha256):
            raise IntegrityError(
                f"{known.path} of {where} ({size:,} bytes, SHA-256 {sha256}) is not that of {spec.name} "
                f"({known.size:,} bytes, SHA-256 {known.sha256 or 'not known'})"
            )


def _mend(manifest: MirrorManifest, folder: Path) -> str:
    return f"remove {folder}, and fetch or add the model again (slvmeval models fetch {manifest.name})"


@contextmanager
def placing(name: str, into: Path, step: str) -> Iterator[Path]:
    """Give the folder in which a model is put together; it stays, also after an error, until it is placed.

    Parameters
    ----------
    name
        The model.
    into
        The models folder.
    step
        What is done, for the folder's name: ``fetch``, whose next call goes on, or ``add``.

    Raises
    ------
    PrerequisiteError
        If another process does the same now.
    """
    into.mkdir(parents=True, exist_ok=True)
    staging = into / f".{step}-{name}"
    lock = into / f".{name}.lock"
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PrerequisiteError(
                f"another process is fetching or adding {name} in {into}: wait until it has ended"
            ) from None
        staging.mkdir(exist_ok=True)
        yield staging


def check_free(target: Path) -> None:
    """Raise where something is there already.

    Raises
    ------
    PrerequisiteError
        Naming it.
    """
    if target.exists():
        raise PrerequisiteError(f"{target} is there already: remove it first")


def place_folder(staging: Path, target: Path, manifest: MirrorManifest) -> None:
    """Write what a folder holds beside its files, last, and rename it to where it belongs.

    Raises
    ------
    PrerequisiteError
        If something is there already.
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
