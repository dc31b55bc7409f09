"""The videos that workers see: two files for each pair that differ only in their pictures.

A file's name is a keyed hash, so it reveals neither the pair nor the side. Each side of each pair is a file
of its own, even if two sides show the same: a recurring one would reveal that it is the source. A file
is complete or absent, and a name stands for one content, so several processes may write to the same folder;
an existing file is not written again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import av

from storage_schemas.commit import private_folder, storage_errors, sync_path
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.ids import artifact_id, digest_value
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import ENCODED, Store
from storage_schemas.votes import Check, check_id, check_of
from tasks.annotation.alike import write_alike
from tasks.annotation.installation import derived_key, media_folder
from tasks.annotation.pair_task import ByteIndex, PairMedia, first_look, must_see
from tasks.annotation.shown_quality import FINEST, encode_shown
from tasks.media.encode import DEFAULT_SETTINGS
from tasks.publish.frame_restore import needs_frames, restore_frames
from tasks.publish.pair_videos import (
    SIDES,
    encode_source,
    encoded_color,
    encoded_consumes,
    unit_starts,
    write_low,
)

#: Modification time of every file (seconds since 1970): real times would distinguish the videos.
_MADE_AT = 946_684_800


def byte_index(video: Path, most_rows: int = 300) -> ByteIndex:
    """Return rows of (second, byte): frames from that second on are at or after that byte of the file.

    If there would be more than `most_rows` rows, only key frames get one: a browser that seeks requests the
    bytes from the last key frame on, so an earlier row would never be sent completely.

    Raises
    ------
    IntegrityError
        If the file cannot be read.
    """
    try:
        with av.open(str(video), options={"protocol_whitelist": "file"}) as file:
            stream = file.streams.video[0]
            # the file's own index, so that only the beginning of a long video is read
            entries = stream.index_entries
            indexed = entries if len(entries) <= most_rows else [one for one in entries if one.is_keyframe]
            rows = [(float(one.timestamp * (stream.time_base or 0)), one.pos) for one in indexed]
    except av.FFmpegError as problem:
        raise IntegrityError(f"{video} is not a video: remove it and run this again ({problem})") from problem
    return tuple(rows)


def clear_old_drafts(folders: Iterable[Path], older_s: float = 86_400.0) -> int:
    """Remove incomplete files that killed processes left at least `older_s` ago, and return their number."""
    removed = 0
    for folder in folders:
        for path in folder.glob(".*.mp4"):
            # not the modification time, which is the same for all files
            if time.time() - path.stat().st_ctime > older_s:
                path.unlink(missing_ok=True)
                removed += 1
    return removed


def _make_folder(media: Path) -> None:
    """Create the folder of videos, which lies beside workers' answers."""
    private_folder(media.parent, media.parent.parent)
    media.mkdir(exist_ok=True)


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a temporary name next to `path`, and rename it to `path` on success."""
    with storage_errors(path.parent):
        _make_folder(path.parent)
        draft = path.with_name(f".{uuid.uuid4().hex}.mp4")
        try:
            yield draft
            os.utime(draft, (_MADE_AT, _MADE_AT))
            sync_path(draft)
            draft.replace(path)
            sync_path(path.parent)
        finally:
            draft.unlink(missing_ok=True)


#: Increases when the same frames result in a different file.
FORMAT = 4


@dataclass(frozen=True)
class PairFiles:
    """Files of the videos of a pair, relative to the media folder, and the key of all draws in them."""

    pair_id: str
    high: str
    low: str
    key: str


@dataclass(frozen=True)
class MediaWork:
    """What all sources of a campaign share: the store and the release."""

    store: str
    release: str
    version: int


@dataclass(frozen=True)
class MediaTask:
    """One source by id and title, and its pairs whose videos are needed."""

    id: str
    title: str
    pairs: tuple[PairFiles, ...]


@dataclass(frozen=True)
class MediaOutcome:
    """The result for one source: the number of files written, or in `rows` why there are none."""

    source_id: str
    written: int = 0
    rows: tuple[str, ...] = ()


def media_tasks(
    release: Release, records: Sequence[PairRecord], key: bytes, equal: Collection[str] = ()
) -> list[MediaTask]:
    """Return a task for each source of the given pairs; nothing is written.

    Parameters
    ----------
    equal
        Ids of the pairs of which a check task with two equal videos is made as well.
    key
        The installation's key, from which file names are derived.
    """
    secret = derived_key(key, "media")
    by_source: dict[str, list[PairRecord]] = {}
    for record in records:
        by_source.setdefault(record.source_id, []).append(record)
    tasks = []
    for source_id, some in by_source.items():
        row = release.source(source_id)
        encoded = _encoded_id(release, source_id, some[0].fps)
        tasks.append(
            MediaTask(
                source_id,
                row.title,
                tuple(_pair_files(secret, record, encoded) for record in some)
                + tuple(_equal_files(secret, one.pair_id, encoded) for one in some if one.pair_id in equal),
            )
        )
    return tasks


def _pair_files(secret: bytes, record: PairRecord, encoded: str) -> PairFiles:
    # both files depend on both sides
    content = digest_value([encoded, list(record.segments)])
    return _files(secret, record.pair_id, content)


def _equal_files(secret: bytes, pair_id: str, encoded: str) -> PairFiles:
    return _files(secret, check_id(pair_id, Check.EQUAL), digest_value([encoded]))


def _files(secret: bytes, pair_id: str, content: str) -> PairFiles:
    high, low, draws = (_hash(secret, pair_id, use, content) for use in (*SIDES, "draws"))
    return PairFiles(pair_id, f"{high}.mp4", f"{low}.mp4", draws)


def media_stage(work: MediaWork, task: MediaTask, aspects: tuple[str, ...] = ()) -> MediaOutcome:
    """Write the missing videos of one source; a failure of this source is returned, not raised.

    Raises
    ------
    SetAside
        If the disk is full or cannot be written, which concerns every source.
    """
    release = _release(work)
    try:
        return MediaOutcome(task.id, write_media(release, task))
    except (StoreError, av.FFmpegError) as problem:
        return MediaOutcome(task.id, rows=(str(problem),))


@cache
def _release(work: MediaWork) -> Release:
    """Return the release; its tables are read once per process."""
    return Release.open(Store.open(Path(work.store)), work.release, work.version)


def write_media(release: Release, task: MediaTask) -> int:
    """Write the missing videos of one source and return their number.

    Raises
    ------
    StoreError
        If needed frames are gone and cannot be recreated.
    SetAside
        If the disk is full or cannot be written.
    """
    store, media = release.store, media_folder(release.store.root)
    records = {record.pair_id: record for record in release.pairs(source_id=task.id)}
    missing = [pair for pair in task.pairs if not _exist(media, pair)]
    if not missing:
        return 0
    if needs_frames(release, task.id, [records[check_of(pair.pair_id)[0]] for pair in missing]):
        problems = restore_frames(release, [task.id])
        if problems:
            raise StoreError(problems[task.id])
    row, clips = release.source(task.id), release.clips(task.id)
    fps = records[task.pairs[0].pair_id].fps
    encoded = encode_source(store, row.frames_id, row.frame_count, clips, fps)
    for pair in missing:
        pair_id, check = check_of(pair.pair_id)
        record = records[pair_id]
        shown = first_look(pair_id, must_see(record, clips), clips, record.fps)
        with _drafts(media, 5) as (plain, *alike):
            if check is not Check.EQUAL:
                write_low(store, record, encoded, plain)
            sides = encoded, encoded if check is Check.EQUAL else plain
            drafts, finest = (alike[0], alike[1]), (alike[2], alike[3])
            color = encoded_color(store, encoded)
            encode_shown(sides, drafts, shown, pair.key, color)
            encode_shown(sides, finest, shown, pair.key, color, FINEST)
            with draft_of(media / pair.high) as high, draft_of(media / pair.low) as low:
                write_alike(drafts, (high, low), pair.key, finest)
    return 2 * len(missing)


@contextmanager
def _drafts(media: Path, count: int) -> Iterator[list[Path]]:
    """Yield names for temporary files, which are removed afterwards."""
    drafts = [media / f".{uuid.uuid4().hex}.mp4" for _ in range(count)]
    try:
        with storage_errors(media):
            _make_folder(media)
            yield drafts
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _exist(media: Path, pair: PairFiles) -> bool:
    return (media / pair.high).is_file() and (media / pair.low).is_file()


def _encoded_id(release: Release, source_id: str, fps: float) -> str:
    row = release.source(source_id)
    starts = unit_starts(release.clips(source_id), row.frame_count)
    return artifact_id(ENCODED, encoded_consumes(row.frames_id, starts, fps, DEFAULT_SETTINGS))


def _hash(secret: bytes, pair_id: str, use: str, content: str) -> str:
    text = f"{FORMAT}\n{pair_id}\n{use}\n{content}"
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()[:32]


def pair_media(root: Path, files: PairFiles) -> PairMedia:
    """Return the two files of a pair with sizes and byte indexes.

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
    """Return whether all videos of a source exist."""
    folder = media_folder(root)
    return all(_exist(folder, pair) for pair in task.pairs)


def clear_drafts(root: Path) -> int:
    """Remove incomplete files that killed processes left long ago, and return their number."""
    return clear_old_drafts([media_folder(root)])
