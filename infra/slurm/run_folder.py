"""The folder of a run in the store, with which workers verify the driver's store and versions."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from infra.profile import Profile
from infra.slurm.worker_checks import versions_of
from storage_schemas.commit import process_alive, write_atomic
from storage_schemas.errors import PrerequisiteError
from storage_schemas.model import Frozen
from storage_schemas.store import Store

#: Packages whose versions must equal the driver's: ours, those that transport work, and those that decode,
#: change and store pixels.
SAME_VERSIONS = (
    *("slvmeval", "dask", "distributed", "cloudpickle", "prefect", "prefect-dask", "pydantic"),
    *(
        "av",
        "numpy",
        "zarr",
        "numcodecs",
        "opencv-contrib-python-headless",
        "pillow",
        "onnxruntime",
        "pyarrow",
    ),
)


class RunFile(Frozen):
    """The file of one run.

    Parameters
    ----------
    scheduler
        Address of the driver's scheduler, unique to the run.
    host, pid
        The driver's machine and process id.
    versions
        The driver's versions of Python and of `SAME_VERSIONS`.
    """

    scheduler: str
    host: str = Field(default_factory=socket.gethostname)
    pid: int = Field(default_factory=os.getpid)
    versions: dict[str, str]


def run_folder(store: Path, run: str) -> Path:
    """Return the folder of a run in the store's cache."""
    return Store(store).cache / "slurm" / run


def log_folder(profile: Profile, store: Path) -> Path:
    """Return the folder of the jobs' logs."""
    return Path(profile.job_logs).resolve() if profile.job_logs else Store(store).cache / "slurm-logs"


def make_log_folder(profile: Profile, store: Path) -> None:
    """Create the folder of the jobs' logs: SLURM does not, and jobs fail silently without it.

    Raises
    ------
    PrerequisiteError
        If it cannot be created.
    """
    folder = log_folder(profile, store)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise PrerequisiteError(
            f"the folder {folder} of the jobs' logs cannot be created ({problem.strerror}): set "
            "another folder as job_logs in the profile"
        ) from problem


def run_file(store: Path, run: str) -> Path:
    """Return the path of the file of a run."""
    return run_folder(store, run) / "run.json"


def write_run_file(store: Path, run: str, scheduler: str) -> None:
    """Write the file of a run, before its first worker looks for it."""
    content = RunFile(scheduler=scheduler, versions=versions())
    write_atomic(run_file(store, run), content.model_dump_json().encode())


def read_run_file(store: Path, run: str) -> RunFile | None:
    """Return the file of a run, or None if it is missing or incomplete."""
    try:
        return RunFile.model_validate(json.loads(run_file(store, run).read_bytes()))
    except (OSError, ValueError):
        return None


def dead_runs(store: Path) -> Iterator[str]:
    """Yield the runs of this machine whose driver ended without removing their folder."""
    for folder in sorted((Store(store).cache / "slurm").glob("*")):
        run = read_run_file(store, folder.name)
        if run is not None and run.host == socket.gethostname() and not process_alive(run.pid):
            yield folder.name


def remove_run_folder(store: Path, run: str) -> None:
    """Remove the folder of a run from the store."""
    shutil.rmtree(run_folder(store, run), ignore_errors=True)


def versions() -> dict[str, str]:
    """Return the versions that must be equal in a worker and its driver."""
    return versions_of(SAME_VERSIONS)
