"""The videos that workers are shown: both sides of each pair as MP4, alike in everything but their pictures.

A file's name is a keyed hash, so it tells neither the pair nor the side. Each side of each pair has a name of
its own, also where two are the same video: a video that comes back would tell that it is the source. On the
disk such videos are one file with several names. A file is complete or absent, a name stands for one content,
and whoever finds it there makes nothing: several processes may write the same folder.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import av
from av.video.stream import VideoStream

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.ids import artifact_id, digest_value
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import ENCODED, Store
from tasks.annotation.places import annotation_folder, derived_key, media_folder
from tasks.annotation.tasks import ByteIndex, PairMedia
from tasks.media.encode import DEFAULT_SETTINGS
from tasks.publish.frames import needs_frames, restore_frames
from tasks.publish.materialise import SideName, encode_source, encoded_consumes, unit_starts, write_low

#: Goes up when the same pictures are put into another file than before.
FORMAT = 1
#: Every file says that it is this old (seconds since 1970): when it was made would tell videos apart.
_MADE_AT = 946_684_800
#: NAL units in which an encoder says what it is (H.264, table 7-1). They stand where it began, which in a low
#: side is the first damage.
_SUPPLEMENTAL = 6


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
        _share(own, media / pair.high)
    for pair in lows:
        plain = media / f".{uuid.uuid4().hex}.mp4"
        try:
            write_low(store, records[pair.pair_id], encoded, plain)
            write_alike(plain, media / pair.low)
        finally:
            plain.unlink(missing_ok=True)
    return len(lows) + len(highs)


def write_alike(video: Path, target: Path) -> None:
    """Write the pictures of an MP4 into another that tells nothing else: no tags, no encoder's marks.

    The index stands before the pictures, so that a browser plays it while it comes.

    Raises
    ------
    IntegrityError
        If `video` cannot be read.
    SetAside
        If `target` cannot be written.
    """
    try:
        origin = av.open(str(video), options={"protocol_whitelist": "file"})
    except av.FFmpegError as problem:
        raise IntegrityError(f"{video} is not a video: remove it and run this again ({problem})") from problem
    options = {"movflags": "+faststart", "fflags": "+bitexact"}
    with origin, _draft(target) as draft, av.open(str(draft), "w", format="mp4", options=options) as made:
        stream = origin.streams.video[0]
        out = made.add_stream_from_template(stream)
        out.metadata.clear()
        for packet in origin.demux(stream):
            if packet.size:
                made.mux(_without_marks(packet, out))


def _without_marks(packet: av.Packet[Any], stream: VideoStream) -> av.Packet[Any]:
    """Return the same coded picture without what the encoder says of itself."""
    data, at, kept = bytes(packet), 0, []
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if data[at + 4] & 31 != _SUPPLEMENTAL:
            kept.append(data[at:end])
        at = end
    made: av.Packet[Any] = av.Packet(b"".join(kept))
    made.time_base = packet.time_base
    made.pts, made.dts, made.duration = packet.pts, packet.dts, packet.duration
    made.is_keyframe = packet.is_keyframe
    made.stream = stream
    return made


def _encoded_id(release: Release, source_id: str, fps: float) -> str:
    row = release.source(source_id)
    starts = unit_starts(release.clips(source_id), row.frame_count)
    return artifact_id(ENCODED, encoded_consumes(row.frames_id, starts, fps, DEFAULT_SETTINGS))


def _name(secret: bytes, pair_id: str, side: SideName, content: str) -> str:
    said = f"{FORMAT}\n{pair_id}\n{side}\n{content}"
    return hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()[:32] + ".mp4"


def _share(own: Path, target: Path) -> None:
    """Give a file a further name, or copy it where the file system has no such names."""
    with storage_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        named = target.with_name(f".{uuid.uuid4().hex}.mp4")
        try:
            os.link(own, named)
        except OSError:
            with _draft(target) as draft:
                shutil.copyfile(own, draft)
            return
        try:
            named.replace(target)
        finally:
            # where both are the same file already, renaming does nothing
            named.unlink(missing_ok=True)
        sync_path(target.parent)


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Give a name beside `path` to write to, and rename it to `path` when all went well."""
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{uuid.uuid4().hex}.mp4")
        try:
            yield draft
            os.utime(draft, (_MADE_AT, _MADE_AT))
            sync_path(draft)
            draft.replace(path)
            sync_path(path.parent)
        finally:
            draft.unlink(missing_ok=True)


def clear_drafts(root: Path, older_s: float = 86_400.0) -> int:
    """Remove what killed processes left half-written so many seconds ago, and return how many files."""
    left = 0
    for folder in (media_folder(root), sources_folder(root)):
        for path in folder.glob(".*.mp4"):
            # not the time that the file says, which is the same for all
            if time.time() - path.stat().st_ctime > older_s:
                path.unlink(missing_ok=True)
                left += 1
    return left


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


def byte_index(video: Path, most_rows: int = 300) -> ByteIndex:
    """Return rows of (second, byte): from the second on, pictures lie at or after that byte of the file.

    Raises
    ------
    IntegrityError
        If the file cannot be read.
    """
    try:
        with av.open(str(video), options={"protocol_whitelist": "file"}) as file:
            rows = [
                (float(packet.pts * packet.time_base), packet.pos)
                for packet in file.demux(video=0)
                if packet.size and packet.pts is not None and packet.pos is not None
            ]
    except av.FFmpegError as problem:
        raise IntegrityError(f"{video} is not a video: remove it and run this again ({problem})") from problem
    return tuple(rows[:: -(-len(rows) // most_rows) or 1])
