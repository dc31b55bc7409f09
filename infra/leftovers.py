"""Find and remove what killed runs left in a store's cache and in SLURM, never what a live run uses."""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from infra.profile import Profile
from infra.progress import read_runs
from infra.slurm.run_folder import dead_runs, read_run_file, run_folder
from storage_schemas.errors import SlvmevalError
from storage_schemas.gc import Freed
from storage_schemas.store import Store

log = logging.getLogger(__name__)

#: Age in seconds from which a file without a known owner counts as left over.
LEFT_AFTER_S = 3600.0
#: The same for hub transfers: an upload may read a file for a long time without changing it.
TRANSFER_LEFT_AFTER_S = 2 * 86400.0

#: Files that are renamed once complete.
_DRAFT = re.compile(r"\.(.+\.)?([0-9a-f]{32}|draft)")
#: Counts of an evaluator or suite run, and their lock.
_COUNTS = re.compile(r"[0-9a-f]{12}\.json(\.lock)?")


def clear_cache(store: Store, dry_run: bool = False) -> Freed:
    """Remove what killed runs of this machine left in the cache: their files, folders and temporary files.

    The file of the newest run is kept: `slvmeval status` shows it, and the next run informs Prefect how it
    ended.
    """
    left = [*_left_runs(store), *_left_folders(store), *_left_files(store)]
    size = sum(_bytes(path) for path in left)
    for path in () if dry_run else left:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return Freed("cache", len(left), size)


def end_left_jobs(store: Store, profile: Profile) -> None:
    """End the jobs that killed runs of this store left in SLURM, if it answers.

    A cluster does so when it starts; a run with nothing to do starts none.
    """
    if not profile.pools or not any(True for _ in dead_runs(store.root)):
        return
    from infra.slurm.cluster import end_jobs_of_dead_runs

    try:
        end_jobs_of_dead_runs(store.root, profile.pools)
    except SlvmevalError as problem:
        log.warning("jobs that a killed run may have left in SLURM cannot be ended: %s", problem)


def _left_runs(store: Store) -> Iterator[Path]:
    for run in read_runs(store.cache)[1:]:
        if run["status"] == "died":
            yield Path(run["file"])


def _left_folders(store: Store) -> Iterator[Path]:
    """Yield the folders of SLURM runs whose driver ended without removing them, and of stale transfers."""
    yield from (run_folder(store.root, run) for run in dead_runs(store.root))
    for folder in sorted((store.cache / "slurm").glob("*")):
        # the driver was killed before writing the file
        if read_run_file(store.root, folder.name) is None and _is_old(folder):
            yield folder
    for folder in (*store.exports.glob("*"), *store.pulled.glob("*")):
        # from a push or pull that was interrupted and not repeated
        if all(_is_old(path, TRANSFER_LEFT_AFTER_S) for path in (folder, *folder.rglob("*"))):
            yield folder


def _left_files(store: Store) -> Iterator[Path]:
    """Yield drafts and counts that no run has touched for a long time; none while a run is active."""
    if any(run["status"] == "running" for run in read_runs(store.cache)):
        return
    counts = {store.cache / "evaluations", store.cache / "suites"}
    for path in sorted(store.cache.rglob("*")):
        left = _DRAFT.fullmatch(path.name) or (path.parent in counts and _COUNTS.fullmatch(path.name))
        if left and path.is_file() and _is_old(path):
            yield path


def _is_old(path: Path, after_s: float | None = None) -> bool:
    # a draft may have its source's modification time
    status = path.stat()
    age_s = time.time() - max(status.st_mtime, status.st_ctime)
    return age_s > (LEFT_AFTER_S if after_s is None else after_s)


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())
