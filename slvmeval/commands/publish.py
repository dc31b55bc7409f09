"""``slvmeval gallery``, ``materialise`` and ``export``: what leaves the store."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slvmeval.commands import shared

if TYPE_CHECKING:
    from storage_schemas.release import Release

#: Says which release version a gallery shows; lies beside its first page.
STAMP_NAME = "shows.json"


def gallery_once(release: Release, target: Path, quiet: bool = False) -> Path:
    """Write the gallery of a release version unless `target` shows it already; return the first page."""
    from slvmeval.commands.frames import restore_frames
    from storage_schemas.commit import write_atomic
    from tasks.publish.gallery.write import write_gallery

    target = target.resolve()
    stamp = _stamp(release)
    first = target / "index.html"
    if first.is_file() and _read_stamp(target / STAMP_NAME) == stamp:
        return first
    restore_frames(release, quiet=quiet)
    with shared.step_bar("gallery", quiet) as step:
        page = write_gallery(release.store, release, target, progress=step)
    write_atomic(target / STAMP_NAME, json.dumps(stamp, indent=1).encode())
    return page


def _stamp(release: Release) -> dict[str, Any]:
    try:
        program = version("slvmeval")
    except PackageNotFoundError:
        program = "not installed"
    return {
        "release": release.name,
        "version": release.version,
        "checksum": release.manifest.content_checksum,
        "made_at": release.info["created_at"],
        "program": program,
    }


def _read_stamp(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        # no stamp, or a damaged one: the gallery is written anew
        return None
