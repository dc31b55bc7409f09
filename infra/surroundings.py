"""What each of our processes prepares before it imports libraries: proxies and a writable home folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infra.scratch import ScratchFolder
from storage_schemas.errors import PrerequisiteError
from storage_schemas.proxies import repair_proxies
from storage_schemas.user import TEMPORARY_HOME, can_write, home_folder

#: Where Linux shows its processes.
PROCESSES = Path("/proc")
#: The folders of this process, removed when it ends.
_folders: list[ScratchFolder] = []


def prepare_surroundings() -> None:
    """Prepare the environment of this process and its child processes so that libraries work.

    Raises
    ------
    PrerequisiteError
        If a folder for temporary files is needed, and there is no safe one; or if Linux shows no processes.
    """
    if sys.platform == "linux" and not (PROCESSES / "self" / "stat").exists():
        raise PrerequisiteError(
            f"there is no {PROCESSES}, where libraries look up this process: mount it (`mount -t "
            f"proc proc {PROCESSES}`), or let the container mount it"
        )
    repair_proxies(os.environ.get("PREFECT_API_URL", ""))
    _find_home()


def _find_home() -> None:
    """Replace a missing home folder, and keep libraries from writing to a read-only one.

    Prefect, Dask, Matplotlib and the hub's client look there for settings, and create folders.
    """
    # a SLURM job inherits the variable, but not the folder, from the machine that submitted it
    replaced = os.environ.get(TEMPORARY_HOME)
    if replaced and Path(replaced).is_dir():
        return
    home = home_folder()
    if home is None:
        os.environ["HOME"] = os.environ[TEMPORARY_HOME] = str(_new_folder())
        return
    prefect = home / ".prefect"
    if can_write(prefect) and can_write(home / ".config"):
        return
    folder = _new_folder()
    if "PREFECT_HOME" not in os.environ and not can_write(prefect):
        os.environ["PREFECT_HOME"] = str(folder / "prefect")
        if (profiles := prefect / "profiles.toml").is_file():
            os.environ.setdefault("PREFECT_PROFILES_PATH", str(profiles))
    os.environ.setdefault("MPLCONFIGDIR", str(folder / "matplotlib"))


def _new_folder() -> Path:
    folder = ScratchFolder()
    _folders.append(folder)
    return folder.path
