"""Frames are a cache: make those of a release again where they were evicted and are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slvmeval.commands import shared
from storage_schemas.errors import StoreError
from storage_schemas.ids import artifact_id
from storage_schemas.release import Release
from storage_schemas.source import Clip, Source
from storage_schemas.store import FRAMES
from tasks.pairs.facts import frames_consumes
from tasks.recipe import recipe_from


def restore_frames(
    release: Release, source_ids: Iterable[str] | None = None, *, quiet: bool = False
) -> list[str]:
    """Ingest again the sources of a release whose frames are gone; return their ids.

    Parameters
    ----------
    source_ids
        Which sources are wanted; all by default.

    Raises
    ------
    StoreError
        If the video of such a source is gone too.
    SetAside
        If it changed, or cannot be decoded.
    """
    wanted = set(source_ids) if source_ids is not None else None
    gone = [
        row
        for row in release.sources()
        if (wanted is None or row.source_id in wanted) and not release.store.has(FRAMES, row.frames_id)
    ]
    if not gone:
        return []
    from tasks.media.ingest import ingest_source

    recipe = recipe_from(release.recipe)
    for row in gone:
        source = source_of(release, row.source_id)
        if artifact_id(FRAMES, frames_consumes(source, recipe)) != row.frames_id:
            raise StoreError(
                f"the frames of {row.title} were evicted, and were sampled by another version of this "
                "program: run `slvmeval build` again"
            )
        if not Path(row.video).is_file():
            raise StoreError(
                f"the frames of {row.title} were evicted, and its video is not at {row.video} any more: "
                "put it back, or build again from where it is now"
            )
        if not quiet:
            shared.tell(f"making the frames of {row.title} again")
        ingest_source(release.store, source, recipe)
    return [row.source_id for row in gone]


def source_of(release: Release, source_id: str) -> Source:
    """Return a source as the release knows it."""
    row = release.source(source_id)
    return Source(
        id=row.source_id,
        adapter=row.adapter,
        title=row.title,
        video=row.video,
        content_sha256=row.content_sha256,
        clips=tuple(
            Clip(index=clip.clip, start_s=clip.start_s, end_s=clip.end_s, caption=clip.caption)
            for clip in release.clips(source_id)
        ),
        licence=row.licence,
        redistributable=row.redistributable,
        credit=row.credit,
    )
