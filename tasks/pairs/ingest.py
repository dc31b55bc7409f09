"""Ingest: sample a source's frames and store them while decoding."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from storage_schemas.errors import Reason, SetAside
from storage_schemas.frames import ColorSpec, FrameWriter
from storage_schemas.ids import digest_file
from storage_schemas.provenance import provenance
from storage_schemas.release import FRAMES_FOLDER
from storage_schemas.source import TIMELINE_FILE, Source, write_timeline_file
from storage_schemas.store import FRAMES, TIMELINE, Store
from tasks.media.large_blocks import return_large_blocks
from tasks.pairs.facts import frames_consumes, frames_id, timeline_id, video_sampler
from tasks.recipe import Recipe

log = logging.getLogger(__name__)

_REPORT_EVERY_S = 10.0


def ingest_source(
    store: Store,
    source: Source,
    recipe: Recipe,
    progress: Callable[[int, int], None] | None = None,
    threads: int = 1,
) -> str:
    """Store the frames and the timeline of a source; return the frames' id.

    Makes one pass over the packets; memory does not depend on the length. Does nothing if both artifacts
    exist.

    Parameters
    ----------
    progress
        Called with (frames so far, frames expected or 0).
    threads
        Threads that decode; see :class:`tasks.media.decode.FrameSampler`.

    Raises
    ------
    SetAside
        If the video cannot be decoded to its end as the recipe's rule for damage demands, or changed since it
        was catalogued.
    """
    id_ = frames_id(source, recipe)
    if store.has(FRAMES, id_) and store.has(TIMELINE, timeline_id(source, recipe)):
        return id_
    started, reported = time.monotonic(), time.monotonic()
    return_large_blocks()
    consumes = frames_consumes(source, recipe)
    sampler = video_sampler(source.video, recipe.fps, recipe.long_side, recipe.damaged, threads)
    info, (width, height) = sampler.info, sampler.size
    expected = sampler.frame_count or 0
    color = ColorSpec(info.matrix, info.full_range)
    with store.stage(FRAMES, consumes) as staged:
        writer = FrameWriter(staged.path / FRAMES_FOLDER, width, height, color, expected or None)
        for frame in sampler:
            writer.append(frame.planes, frame.pts_s)
            if progress is not None:
                progress(writer.count, expected)
            if time.monotonic() - reported > _REPORT_EVERY_S:
                reported = time.monotonic()
                log.info("ingest %s: %d of %s frames", source.title, writer.count, expected or "?")
        if not writer.count:
            raise SetAside(Reason.NO_FRAMES, f"{source.video} has no frame to sample")
        written = writer.finish()
        _check_unchanged(store, source, recipe, written.checksum)
        staged.content_checksum = written.checksum
        staged.content = {"frames": written.count, "width": width, "height": height}
        staged.provenance = provenance(
            started,
            packages=("av",),
            decoder=sampler.mode,
            threads=threads,
            fallback_reason=sampler.fallback_reason,
            matrix_assumed=info.matrix_assumed,
            damage=sampler.damage,
        )
    with store.stage(TIMELINE, consumes) as staged:
        write_timeline_file(staged.path / TIMELINE_FILE, writer.pts_s, writer.digests)
        staged.content_checksum = written.checksum
        staged.content = {
            "frames": written.count,
            "width": width,
            "height": height,
            "color": {"matrix": color.matrix, "full_range": color.full_range},
            "duration_s": sampler.duration_s,
            "damage": sampler.damage,
        }
        staged.provenance = provenance(started, packages=("av",), decoder=sampler.mode)
    return id_


def _check_unchanged(store: Store, source: Source, recipe: Recipe, checksum: str) -> None:
    """Refuse to commit frames under the id of a catalogued file that has changed."""
    if digest_file(Path(source.video)) != source.content_sha256:
        raise SetAside(
            Reason.VIDEO_CHANGED,
            f"{source.video} changed since it was catalogued: restore it, or build again",
        )
    id_ = timeline_id(source, recipe)
    if store.has(TIMELINE, id_) and store.manifest(TIMELINE, id_).content_checksum != checksum:
        raise SetAside(
            Reason.CHECKSUM_MISMATCH,
            f"{source.video} decodes to frames that differ from those its pairs were made from: use the "
            "versions in the lock file, on the same class of processor",
        )
