"""Frames are a cache: make a release's evicted frames again when they are needed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from storage_schemas.errors import SetAside, StoreError
from storage_schemas.ids import artifact_id
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.source import Clip, Source, SourceRow
from storage_schemas.store import ENCODED, FRAMES
from tasks.pairs.facts import frames_consumes
from tasks.recipe import Recipe, recipe_from

log = logging.getLogger(__name__)


def restore_frames(
    release: Release, source_ids: Iterable[str] | None = None, tell: Callable[[str], None] = log.info
) -> dict[str, str]:
    """Re-ingest the sources of a release whose frames were evicted.

    Parameters
    ----------
    source_ids
        Which sources are needed; all by default.
    tell
        Called with one line for each source whose frames are made.

    Returns
    -------
    dict
        By source id, why its frames could not be restored: its video is missing, changed or undecodable. A
        failing source does not affect the others; the caller decides what a failure means.
    """
    wanted = set(source_ids) if source_ids is not None else None
    gone = [
        row
        for row in release.sources()
        if (wanted is None or row.source_id in wanted) and not release.store.has(FRAMES, row.frames_id)
    ]
    problems: dict[str, str] = {}
    if not gone:
        return problems
    recipe = recipe_from(release.recipe, stored=True)
    for row in gone:
        try:
            _restore(release, row, recipe, tell)
        except (StoreError, SetAside) as problem:
            problems[row.source_id] = str(problem)
    return problems


def _restore(release: Release, row: SourceRow, recipe: Recipe, tell: Callable[[str], None]) -> None:
    from tasks.pairs.ingest import ingest_source

    source = source_of(release, row.source_id)
    if artifact_id(FRAMES, frames_consumes(source, recipe)) != row.frames_id:
        raise StoreError(
            f"the frames of {row.title} were evicted, and were sampled by another version of this "
            "program: run `slvmeval build` again"
        )
    if not Path(row.video).is_file():
        raise StoreError(
            f"the frames of {row.title} were evicted, and its video is no longer at {row.video}: "
            "put it back, build again from where it is now, or pull the release again if it was pulled"
        )
    tell(f"making the frames of {row.title} again")
    ingest_source(release.store, source, recipe)


def needs_frames(
    release: Release, source_id: str, low: Sequence[PairRecord], pictures: Iterable[Path] = ()
) -> bool:
    """Return whether a source's videos and pictures need its frames.

    Parameters
    ----------
    low
        The pairs of the source whose low side is to be written; one that repeats frames of the source
        needs them, the others have their degraded frames and take the rest from the encoded video.
    pictures
        Folder for the source's pictures; existing ones are not rewritten.
    """
    from tasks.media.encode import DEFAULT_SETTINGS
    from tasks.publish.pair_videos import encoded_consumes, unit_starts

    row = release.source(source_id)
    records = release.pairs(source_id=source_id)
    if not records:
        return False
    starts = unit_starts(release.clips(source_id), row.frame_count)
    encoded = encoded_consumes(row.frames_id, starts, records[0].fps, DEFAULT_SETTINGS)
    return (
        not release.store.has(ENCODED, artifact_id(ENCODED, encoded))
        or any(segment.frame_map is not None for record in low for segment in record.segments)
        or any(not path.exists() for path in pictures)
    )


class WithoutSources(Release):
    """A view of a release without some of its sources and their pairs."""

    def __init__(self, release: Release, left_out: Iterable[str]) -> None:
        super().__init__(release.store, release.name, release.version, release.manifest)
        self._left_out = frozenset(left_out)

    def sources(self) -> list[SourceRow]:
        """Return the remaining sources by id."""
        return [row for row in super().sources() if row.source_id not in self._left_out]

    def pairs(self, aspect: str | None = None, source_id: str | None = None) -> list[PairRecord]:
        """Return the pairs of the remaining sources."""
        records = super().pairs(aspect, source_id)
        return [record for record in records if record.source_id not in self._left_out]


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
