"""Write a gallery, unless it shows this very version already."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from slvmeval.commands import shared
from slvmeval.commands.frames import restore_frames
from storage_schemas.commit import write_atomic
from storage_schemas.release import Release

#: Says which release version a gallery shows; lies beside its first page.
STAMP_NAME = "shows.json"


def gallery_once(release: Release, target: Path, quiet: bool = False, private: bool = True) -> Path:
    """Write the gallery of a release version unless `target` shows it already; return the first page."""
    target = target.resolve()
    first, stamp_file = target / "index.html", target / STAMP_NAME
    stamp = _stamp(release, private)
    if first.is_file() and _read_stamp(stamp_file) == stamp:
        return first
    from tasks.publish.gallery.write import write_gallery

    restore_frames(release, quiet=quiet)
    with shared.step_bar("gallery", quiet) as step:
        page = write_gallery(release.store, release, target, private=private, progress=step)
    write_atomic(stamp_file, json.dumps(stamp, indent=1).encode())
    return page


def _stamp(release: Release, private: bool) -> dict[str, Any]:
    try:
        program = version("slvmeval")
    except PackageNotFoundError:
        program = "not installed"
    return {
        "release": release.name,
        "version": release.version,
        "checksum": release.manifest.content_checksum,
        "made_at": release.info["created_at"],
        "private": private,
        "program": program,
    }


def _read_stamp(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        # no stamp, or a damaged one: the gallery is written anew
        return None
