"""How a checkpoint folder gets into a models folder: whole or not at all, by one process at a time."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage_schemas.commit import commit_point, sync_path, sync_tree, write_atomic
from storage_schemas.errors import PrerequisiteError
from tasks.models.mirror import MANIFEST, MirrorManifest


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
