"""Write the gallery of a release: pages, scripts, videos and pictures, unless it is up to date."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from markupsafe import Markup

from storage_schemas.commit import write_atomic
from storage_schemas.errors import StoreError
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import Store
from storage_schemas.written_pages import remember_page
from tasks.media.encode import DEFAULT_SETTINGS, EncoderSettings
from tasks.page_frame import SCRIPT, STYLE, frame_asset, page_templates
from tasks.publish.frame_restore import needs_frames, restore_frames
from tasks.publish.gallery.data import aspects_data, index_data, page_data, script_json, with_videos
from tasks.publish.pair_videos import encode_source, write_high, write_low
from tasks.report.owned_folder import OwnedFolder
from tasks.report.pictures import clip_strip, contact_sheet, jpeg
from tasks.report.public_names import SourceFolder, pair_slug, source_folder

#: The list of the gallery's own files in a folder; no other file is ever removed.
LIST_NAME = "gallery.json"

ASSETS = (
    "base.css",
    "index.css",
    "pair.css",
    "common.js",
    "charts.js",
    "index.js",
    "timeline.js",
    "player.js",
    "pair.js",
)

Progress = Callable[[int, int, str], None]


def write_gallery(
    store: Store,
    release: Release,
    target: Path,
    *,
    private: bool = True,
    settings: EncoderSettings = DEFAULT_SETTINGS,
    progress: Progress | None = None,
) -> Path:
    """Write the gallery of a release into `target` and return the path of its first page.

    Existing videos and pictures are kept; files of an earlier gallery that are no longer needed
    are removed. The first page is written last.

    Parameters
    ----------
    store
        The store that holds the release.
    release
        What to show.
    target
        A folder: new, empty, or of an earlier gallery.
    private
        True for internal pages: everything is shown, and the page says
        so if a source may not be redistributed. False for pages to be served: of a source that may not be
        redistributed no video, picture, caption or title leaves the store.
    settings
        How to encode the videos.
    progress
        Called with (pairs done, all pairs, what was done).

    Raises
    ------
    UserInputError
        If `target` holds something else.
    SetAside
        If it is full or cannot be written.
    """
    owned = OwnedFolder(target, LIST_NAME)
    pairs = {row.source_id: release.pairs(source_id=row.source_id) for row in release.sources()}
    records = {source_id: with_videos(some) for source_id, some in pairs.items()}
    differences = {row.degraded_clip: row.difference for row in release.degraded_clips()}
    folders = {row.source_id: source_folder(release, row, private) for row in release.sources()}
    media = {
        source_id: [] if folder.hidden else list(_media_names(folder, records[source_id]))
        for source_id, folder in folders.items()
    }
    marked = private and any(not row.redistributable for row in release.sources())
    owned.announce(chain(*media.values(), (folder.page for folder in folders.values())))
    done, total = 0, sum(len(records[source_id]) for source_id, names in media.items() if names)
    for source_id, names in media.items():
        folder = folders[source_id]
        if not names:
            continue
        try:
            for what in _write_media(store, release, folder, records[source_id], target, settings):
                done += 1
                if progress is not None:
                    progress(done, total, what)
            owned.keep(names)
        except StoreError as problem:
            why = f"There are no videos: {problem}"
            folders[source_id] = SourceFolder(folder.row, folder.slug, hidden=why)
    for name in (STYLE, SCRIPT):
        owned.write(f"assets/{name}", frame_asset(name).encode())
    for name in ASSETS:
        owned.write(f"assets/{name}", files(__package__).joinpath("assets", name).read_bytes())
    aspects = aspects_data(release)
    for folder in folders.values():
        data = page_data(release, folder, private, differences, aspects)
        owned.write(folder.page, _page("pair.html.j2", data, "../", data["source"]["title"], marked))
    data = index_data(store, release, folders, private)
    owned.write("index.html", _page("index.html.j2", data, "", release.name, marked))
    owned.settle()
    return target / "index.html"


def _media_names(folder: SourceFolder, records: list[PairRecord]) -> Iterator[str]:
    yield f"{folder.media}/high.mp4"
    yield f"{folder.media}/clips.jpg"
    for record in records:
        yield f"{folder.media}/{pair_slug(record)}.mp4"
        yield f"{folder.media}/{pair_slug(record)}.jpg"


def _write_media(
    store: Store,
    release: Release,
    folder: SourceFolder,
    records: list[PairRecord],
    target: Path,
    settings: EncoderSettings,
) -> Iterator[str]:
    row, clips = folder.row, release.clips(folder.row.source_id)
    if not records:
        return
    encoded = encode_source(store, row.frames_id, row.frame_count, clips, records[0].fps, settings)
    write_high(encoded, target / folder.media / "high.mp4")
    strip = target / folder.media / "clips.jpg"
    if not strip.exists():
        write_atomic(strip, jpeg(clip_strip(store, row.frames_id, clips)))
    for record in records:
        write_low(store, record, encoded, target / folder.media / f"{pair_slug(record)}.mp4", settings)
        sheet = target / folder.media / f"{pair_slug(record)}.jpg"
        if not sheet.exists():
            write_atomic(sheet, jpeg(contact_sheet(store, record, clips)))
        yield f"{row.title}: {record.aspect}"


_templates = cache(page_templates)


def _page(template: str, data: dict[str, Any], root: str, title: str, marked: bool) -> bytes:
    """Render a page; `marked` pages say that they must not be published."""
    # the only unescaped string: script_json escapes every "<" in it
    embedded = Markup(script_json(data))
    page = (
        _templates("tasks.publish.gallery")
        .get_template(template)
        .render(data=embedded, root=root, title=title, release=data["release"], marked=marked)
    )
    return page.encode("utf-8", "replace")


log = logging.getLogger(__name__)

#: Records which release version a gallery shows; next to its first page.
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

    A source whose frames were evicted and cannot be restored is shown without videos; a warning says so, and
    the next call writes the gallery again.

    Parameters
    ----------
    private
        Also show sources that may not be redistributed.
    tell, warn
        Called with one line on each source whose frames are made again, or cannot be.
    progress
        Called with (steps done, all steps, what was done).
    """
    target = target.resolve()
    first, stamp_file = target / "index.html", target / STAMP_NAME
    stamp = _stamp(release, private)
    if first.is_file() and _read_stamp(stamp_file) == stamp:
        remember_page(release.store, "gallery", first, _about(release))
        return first

    problems = restore_frames(release, _sources_to_restore(release, target, private), tell)
    for problem in problems.values():
        warn(f"shown without its videos: {problem}")
    page = write_gallery(release.store, release, target, private=private, progress=progress)
    if problems:
        stamp_file.unlink(missing_ok=True)
    else:
        write_atomic(stamp_file, json.dumps(stamp, indent=1).encode())
    remember_page(release.store, "gallery", page, _about(release))
    return page


def _about(release: Release) -> str:
    return f"{release.name}, version {release.version}"


def _sources_to_restore(release: Release, target: Path, private: bool) -> Iterator[str]:
    """Yield the shown sources that lack videos or pictures made from frames."""
    from tasks.report.public_names import pair_slug, source_folder

    for row in release.sources():
        folder = source_folder(release, row, private)
        records = with_videos(release.pairs(source_id=row.source_id))
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
        # no stamp, or a damaged one: write the gallery again
        return None
