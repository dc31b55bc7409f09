"""Checksums of large files, remembered between processes for as long as the files do not change.

They lie in the user's cache folder, one small file for each folder of weights or images: deleting it costs
nothing but time.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from storage_schemas.commit import write_atomic
from storage_schemas.errors import SetAside
from storage_schemas.ids import digest_file, digest_text

log = logging.getLogger(__name__)

#: A file changed less than this before it was read may change again within the clock's grain, unseen.
_SETTLED_NS = 2_000_000_000
#: What this process read: path and state → SHA-256.
_read_here: dict[tuple[Any, ...], str] = {}


def verified_folder() -> Path:
    """Return where checksums are remembered: ``$XDG_CACHE_HOME/slvmeval/verified``."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache or Path.home() / ".cache") / "slvmeval" / "verified"


def remembered_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files in a folder, by name; only what is new or changed is read.

    A file counts as unchanged while its size, inode, time of change and time of its entry's change are
    the same. Where the cache folder cannot be written everything is read each time.

    Parameters
    ----------
    folder
        The folder.
    names
        Paths within it.

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    folder = folder.resolve()
    memory = verified_folder() / f"{digest_text(str(folder))[:32]}.json"
    known = _read(memory)
    found: dict[str, str] = {}
    news: dict[str, list[Any]] = {}
    for name in names:
        state = _state(folder / name)
        kept = known.get(name) or []
        in_process = _read_here.get((folder / name, *state))
        if kept[:-1] == state or in_process is not None:
            found[name] = in_process or str(kept[-1])
            continue
        began = time.time_ns()
        found[name] = digest_file(folder / name)
        if _state(folder / name) == state:
            _read_here[folder / name, *state] = found[name]
            if began - max(state[2:]) > _SETTLED_NS:
                news[name] = [*state, found[name]]
    if news:
        _write(memory, folder, news)
    return found


def _state(path: Path) -> list[int]:
    state = path.stat()
    return [state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns]


def _read(memory: Path) -> dict[str, list[Any]]:
    try:
        files = json.loads(memory.read_bytes())["files"]
        return {name: row for name, row in files.items() if len(row) == 5}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        log.warning("checksums in %s cannot be read (%s): files are read again", memory, problem)
        return {}


def _write(memory: Path, folder: Path, news: dict[str, list[Any]]) -> None:
    # another process may have written meanwhile: what is lost of it is computed again, and equal
    files = {**_read(memory), **news}
    try:
        write_atomic(memory, json.dumps({"folder": str(folder), "files": files}).encode())
    except (OSError, SetAside) as problem:
        log.info("checksums of %s are not remembered: %s", folder, problem)
