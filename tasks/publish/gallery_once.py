"""Write a gallery, unless it shows this very version already."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from storage_schemas.commit import write_atomic
from storage_schemas.release import Release
from tasks.publish.frames import needs_frames, restore_frames

log = logging.getLogger(__name__)

#: Says which release version a gallery shows; lies beside its first page.
STAMP_NAME = "shows.json"


def gallery_once(
    release: Release,
    target: Path,
    *,
    private: bool = True,
    tell: Callable[[str], None] = log.info,
    warn: Callable[[str], None] = log.warning,
    progress: Callable[[int, int, str], None] | None = None,
) -> Path:
    """Write the gallery of a release version unless `target` shows it already; return the first page.

    A source whose frames are gone and cannot be made again is shown without videos. That is said, and the
    gallery is written anew when it is asked for next.

    Parameters
    ----------
    private
        Show also what may not be passed on.
    tell, warn
        Called with a line on each source whose frames are made again, or cannot be.
    progress
        Called with (steps done, all steps, what was done).
    """
    target = target.resolve()
    first, stamp_file = target / "index.html", target / STAMP_NAME
    stamp = _stamp(release, private)
    if first.is_file() and _read_stamp(stamp_file) == stamp:
        return first
    from tasks.publish.gallery.write import write_gallery

    problems = restore_frames(release, _sources_to_restore(release, target, private), tell)
    for problem in problems.values():
        warn(f"shown without its videos: {problem}")
    page = write_gallery(release.store, release, target, private=private, progress=progress)
    if problems:
        stamp_file.unlink(missing_ok=True)
    else:
        write_atomic(stamp_file, json.dumps(stamp, indent=1).encode())
    return page


def _sources_to_restore(release: Release, target: Path, private: bool) -> Iterator[str]:
    """Yield the sources that are shown and of which something is missing that is made of frames."""
    from tasks.publish.gallery_data import pair_slug, source_folder

    for row in release.sources():
        folder = source_folder(release, row, private)
        records = release.pairs(source_id=row.source_id)
        media = target / folder.media
        pictures = [media / "clips.jpg", *(media / f"{pair_slug(record)}.jpg" for record in records)]
        low = [record for record in records if not (media / f"{pair_slug(record)}.mp4").exists()]
        if not folder.hidden and needs_frames(release, row.source_id, low, pictures):
            yield row.source_id


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
