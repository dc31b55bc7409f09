"""Checksums of large files, cached across processes while the files do not change.

The user's cache folder holds one small file for each folder of weights or images; deleting it only costs
time.
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

#: A file changed less than this before it was read may change again within the clock's resolution.
_SETTLED_NS = 2_000_000_000
#: Files read by this process: path and state → SHA-256.
_read_here: dict[tuple[Any, ...], str] = {}


def verified_folder() -> Path:
    """Return the folder of the cache: ``$XDG_CACHE_HOME/slvmeval/verified``."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache or Path.home() / ".cache") / "slvmeval" / "verified"


def remembered_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files in a folder, by name, reading only new and changed files.

    A file counts as unchanged while its size, inode, mtime and ctime are the same. If the cache folder is not
    writable, every file is read each time.

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
    digests: dict[str, str] = {}
    news: dict[str, list[Any]] = {}
    for name in names:
        state = _state(folder / name)
        entry = known.get(name) or []
        in_process = _read_here.get((folder / name, *state))
        if entry[:-1] == state or in_process is not None:
            digests[name] = in_process or str(entry[-1])
            continue
        began = time.time_ns()
        digests[name] = digest_file(folder / name)
        if _state(folder / name) == state:
            _read_here[folder / name, *state] = digests[name]
            if began - max(state[2:]) > _SETTLED_NS:
                news[name] = [*state, digests[name]]
    if news:
        _write(memory, folder, news)
    return digests


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
        log.warning("cannot read cached checksums in %s (%s): files are read again", memory, problem)
        return {}


def _write(memory: Path, folder: Path, news: dict[str, list[Any]]) -> None:
    # another process may have written meanwhile; its lost entries are computed again with equal results
    files = {**_read(memory), **news}
    try:
        write_atomic(memory, json.dumps({"folder": str(folder), "files": files}).encode())
    except (OSError, SetAside) as problem:
        log.info("checksums of %s are not cached: %s", folder, problem)
