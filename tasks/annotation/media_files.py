"""MP4 files that are alike in everything but their pictures; each is complete or absent."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
from av.video.stream import VideoStream

from storage_schemas.commit import storage_errors, sync_path
from storage_schemas.errors import IntegrityError
from tasks.annotation.tasks import ByteIndex

#: Every file says that it is this old (seconds since 1970): when it was made would tell videos apart.
_MADE_AT = 946_684_800
#: NAL units in which an encoder says what it is (H.264, table 7-1). They stand where it began, which in a low
#: side is the first damage.
_SUPPLEMENTAL = 6


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


def share(own: Path, target: Path) -> None:
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


def byte_index(video: Path, most_rows: int = 300) -> ByteIndex:
    """Return rows of (second, byte): from the second on, pictures lie at or after that byte of the file.

    Where there would be more than `most_rows`, only key frames have one: a browser that jumps asks for the
    bytes from the last key frame on, so that a row which begins before it would never be sent whole.

    Raises
    ------
    IntegrityError
        If the file cannot be read.
    """
    try:
        with av.open(str(video), options={"protocol_whitelist": "file"}) as file:
            stream = file.streams.video[0]
            # the file's own index, so that of a long video only its beginning is read
            entries = stream.index_entries
            chosen = entries if len(entries) <= most_rows else [one for one in entries if one.is_keyframe]
            rows = [(float(one.timestamp * (stream.time_base or 0)), one.pos) for one in chosen]
    except av.FFmpegError as problem:
        raise IntegrityError(f"{video} is not a video: remove it and run this again ({problem})") from problem
    return tuple(rows)


def clear_old_drafts(folders: Iterable[Path], older_s: float = 86_400.0) -> int:
    """Remove what killed processes left half-written so many seconds ago, and return how many files."""
    left = 0
    for folder in folders:
        for path in folder.glob(".*.mp4"):
            # not the time that the file says, which is the same for all
            if time.time() - path.stat().st_ctime > older_s:
                path.unlink(missing_ok=True)
                left += 1
    return left


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
