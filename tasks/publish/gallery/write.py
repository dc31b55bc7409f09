"""Write the gallery of a release: pages, scripts, videos and pictures, in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from storage_schemas.commit import write_atomic
from storage_schemas.errors import StoreError, UserInputError
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.media.encode import DEFAULT_SETTINGS, EncoderSettings
from tasks.publish.gallery_data import (
    SourceFolder,
    index_data,
    page_data,
    pair_slug,
    script_json,
    source_folder,
)
from tasks.publish.materialise import encode_source, write_high, write_low
from tasks.publish.pictures import clip_strip, contact_sheet, jpeg

#: The file that says which files of a folder are the gallery's own; nothing else is ever removed.
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

    Videos and pictures that are there already are kept; files of an earlier gallery that do not
    belong to this one are removed. The first page is written last.

    Parameters
    ----------
    store
        The store that holds the release.
    release
        What to show.
    target
        A folder: new, empty, or of an earlier gallery.
    private
        True for pages that stay with whoever has the sources: everything is shown, and the page says
        so. False for pages to be served: of a source that may not be redistributed no video, picture,
        caption or title leaves the store.
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
    before = _listed(target)
    records = {row.source_id: release.pairs(source_id=row.source_id) for row in release.sources()}
    differences = {row.degraded_clip: row.difference for row in release.degraded_clips()}
    made: set[str] = set()
    folders: dict[str, SourceFolder] = {}
    done, total = 0, sum(map(len, records.values()))
    # an interrupted run may leave files that no list names: name them before they are made
    for row in release.sources():
        folder = source_folder(release, row, private)
        if not folder.hidden:
            names = set(_media_names(folder, records[row.source_id]))
            _write_list(target, before | made | names)
            try:
                for what in _write_media(store, release, folder, records[row.source_id], target, settings):
                    done += 1
                    if progress is not None:
                        progress(done, total, what)
                made |= names
            except StoreError as problem:
                folder = SourceFolder(row, folder.slug, hidden=f"There are no videos: {problem}")
        folders[row.source_id] = folder
    pages = {f"assets/{name}": files(__package__).joinpath("assets", name).read_bytes() for name in ASSETS}
    for folder in folders.values():
        data = page_data(release, folder, private, differences)
        pages[folder.page] = _page("pair.html.j2", data, root="../", title=data["source"]["title"])
    data = index_data(store, release, folders, private)
    pages["index.html"] = _page("index.html.j2", data, root="", title=release.name)
    _write_list(target, before | made | set(pages))
    for name, content in pages.items():
        write_atomic(target / name, content)
    _remove(target, before - made - set(pages))
    _write_list(target, made | set(pages))
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


def _page(template: str, data: dict[str, Any], root: str, title: str) -> bytes:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tasks.publish.gallery"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # the one string that goes in as it is: every "<" of it is escaped by script_json
    embedded = Markup(script_json(data))
    page = environment.get_template(template).render(
        data=embedded, root=root, title=title, release=data["release"]
    )
    return page.encode("utf-8", "replace")


def _listed(target: Path) -> set[str]:
    """Return the names of an earlier gallery's files in `target`."""
    path = target / LIST_NAME
    if path.is_file():
        try:
            return {str(name) for name in json.loads(path.read_text(encoding="utf-8"))["files"]}
        except (ValueError, KeyError, TypeError) as problem:
            raise UserInputError(f"{path} is damaged ({problem}): remove the folder {target}") from problem
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserInputError(f"{target} holds something else than a gallery: choose an empty or new folder")
    return set()


def _write_list(target: Path, names: set[str]) -> None:
    write_atomic(target / LIST_NAME, json.dumps({"files": sorted(names)}, indent=0).encode())


def _remove(target: Path, names: set[str]) -> None:
    root = target.resolve()
    for name in sorted(names):
        path = (root / name).resolve()
        if path.is_relative_to(root) and path != root:
            path.unlink(missing_ok=True)
    for folder in sorted((target / "media").glob("*")):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
