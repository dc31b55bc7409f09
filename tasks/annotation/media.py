"""The videos that workers are shown: both sides of each pair as MP4, alike in everything but their pictures.

A file's name is a keyed hash, so it tells neither the pair nor the side. Each side of each pair has a name of
its own, also where two are the same video: a video that comes back would tell that it is the source. On the
disk such videos are one file with several names. A file is complete or absent, a name stands for one content,
and whoever finds it there makes nothing: several processes may write the same folder.
"""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import av

from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.ids import artifact_id, digest_value
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import ENCODED, Store
from tasks.annotation.media_files import byte_index, clear_old_drafts, share, write_alike
from tasks.annotation.places import annotation_folder, derived_key, media_folder
from tasks.annotation.tasks import PairMedia
from tasks.media.encode import DEFAULT_SETTINGS
from tasks.publish.frame_restore import needs_frames, restore_frames
from tasks.publish.pair_videos import SideName, encode_source, encoded_consumes, unit_starts, write_low

#: Goes up when the same pictures are put into another file than before.
FORMAT = 1


@dataclass(frozen=True)
class PairFiles:
    """Where the videos of a pair lie, relative to the media folder."""

    pair_id: str
    high: str
    low: str


@dataclass(frozen=True)
class MediaWork:
    """What all sources of a campaign share: the store, and the release that is shown."""

    store: str
    release: str
    version: int


@dataclass(frozen=True)
class MediaTask:
    """One source, and the pairs of it whose videos are wanted.

    Parameters
    ----------
    id, title
        The source's.
    source
        Path of the source's own video, relative to the folder :func:`sources_folder`.
    pairs
        Its pairs.
    """

    id: str
    title: str
    source: str
    pairs: tuple[PairFiles, ...]


@dataclass(frozen=True)
class MediaOutcome:
    """What became of one source: how many files were written, or in `rows` why there are none."""

    source_id: str
    written: int = 0
    rows: tuple[str, ...] = ()


def sources_folder(root: Path) -> Path:
    """Return the folder of the sources' own videos, of which the high sides are further names."""
    return annotation_folder(root) / "sources"


def media_tasks(release: Release, records: Sequence[PairRecord], key: bytes) -> list[MediaTask]:
    """Return what is to be written for some pairs, a task for each source; nothing is written.

    Parameters
    ----------
    key
        The installation's key, with which names are made.
    """
    secret = derived_key(key, "media")
    by_source: dict[str, list[PairRecord]] = {}
    for record in records:
        by_source.setdefault(record.source_id, []).append(record)
    tasks = []
    for source_id, some in by_source.items():
        row = release.source(source_id)
        encoded = _encoded_id(release, source_id, some[0].fps)
        pairs = tuple(
            PairFiles(
                record.pair_id,
                _name(secret, record.pair_id, "high", encoded),
                _name(secret, record.pair_id, "low", digest_value([encoded, list(record.segments)])),
            )
            for record in some
        )
        tasks.append(MediaTask(source_id, row.title, _name(secret, "", "high", encoded), pairs))
    return tasks


def media_stage(work: MediaWork, task: MediaTask, aspects: tuple[str, ...] = ()) -> MediaOutcome:
    """Write the videos of one source that are not there; a failure of its own is said, not raised.

    Raises
    ------
    SetAside
        If the disk is full or cannot be written: that concerns every source.
    """
    release = _release(work)
    try:
        return MediaOutcome(task.id, write_media(release, task))
    except (StoreError, av.FFmpegError) as problem:
        return MediaOutcome(task.id, rows=(str(problem),))


@cache
def _release(work: MediaWork) -> Release:
    """Return the release; its tables are read once a process."""
    return Release.open(Store.open(Path(work.store)), work.release, work.version)


def write_media(release: Release, task: MediaTask) -> int:
    """Write the videos of one source that are not there, and return how many were written.

    Raises
    ------
    StoreError
        If frames are gone that are needed and cannot be made again.
    SetAside
        If the disk is full or cannot be written.
    """
    store = release.store
    media, own = media_folder(store.root), sources_folder(store.root) / task.source
    records = {record.pair_id: record for record in release.pairs(source_id=task.id)}
    lows = [pair for pair in task.pairs if not (media / pair.low).is_file()]
    highs = [pair for pair in task.pairs if not (media / pair.high).is_file()]
    if not lows and not highs:
        return 0
    if needs_frames(release, task.id, [records[pair.pair_id] for pair in lows]):
        problems = restore_frames(release, [task.id])
        if problems:
            raise StoreError(problems[task.id])
    row, clips = release.source(task.id), release.clips(task.id)
    fps = records[task.pairs[0].pair_id].fps
    encoded = encode_source(store, row.frames_id, row.frame_count, clips, fps)
    if highs and not own.is_file():
        write_alike(encoded, own)
    for pair in highs:
        share(own, media / pair.high)
    for pair in lows:
        plain = media / f".{uuid.uuid4().hex}.mp4"
        try:
            write_low(store, records[pair.pair_id], encoded, plain)
            write_alike(plain, media / pair.low)
        finally:
            plain.unlink(missing_ok=True)
    return len(lows) + len(highs)


def _encoded_id(release: Release, source_id: str, fps: float) -> str:
    row = release.source(source_id)
    starts = unit_starts(release.clips(source_id), row.frame_count)
    return artifact_id(ENCODED, encoded_consumes(row.frames_id, starts, fps, DEFAULT_SETTINGS))


def _name(secret: bytes, pair_id: str, side: SideName, content: str) -> str:
    said = f"{FORMAT}\n{pair_id}\n{side}\n{content}"
    return hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()[:32] + ".mp4"


def pair_media(root: Path, files: PairFiles) -> PairMedia:
    """Return the two files of a pair with their sizes, and where in them their seconds lie.

    Raises
    ------
    IntegrityError
        If one of them is missing or cannot be read.
    """
    high, low = media_folder(root) / files.high, media_folder(root) / files.low
    for path in (high, low):
        if not path.is_file():
            raise IntegrityError(f"{path} is missing: run `slvmeval annotate publish` again")
    return PairMedia(
        high_file=files.high,
        low_file=files.low,
        high_bytes=high.stat().st_size,
        low_bytes=low.stat().st_size,
        high_index=byte_index(high),
        low_index=byte_index(low),
    )


def is_written(root: Path, task: MediaTask) -> bool:
    """Return whether all videos of a source are there."""
    folder = media_folder(root)
    return all((folder / name).is_file() for pair in task.pairs for name in (pair.high, pair.low))


def clear_drafts(root: Path) -> int:
    """Remove what killed processes left half-written long ago, and return how many files."""
    return clear_old_drafts([media_folder(root), sources_folder(root)])
