"""The videos of a pair as MP4 files.

A source is encoded once, in units that begin where a clip or an uncaptioned interval begins. The high
side is that file. A low side reuses the same packets, except for degraded frames, which are encoded;
everything else is copied.

With an encoder of the site's ffmpeg command, whose packets cannot be mixed, each side is encoded whole.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol

import av

from storage_schemas.commit import refuse_special_target, storage_errors, sync_path
from storage_schemas.errors import IntegrityError
from storage_schemas.frames import ColorSpec, FrameReader, Planes
from storage_schemas.ids import artifact_id, digest_value
from storage_schemas.pair import PairRecord, Segment
from storage_schemas.release import clip_path, frames_path
from storage_schemas.store import ENCODED, FRAMES, Store
from tasks.media.encode import (
    DEFAULT_SETTINGS,
    ENCODER_VERSION,
    EncoderSettings,
    UnitFile,
    UnitWriter,
    encode_units,
)
from tasks.media.ffmpeg_command import Encoder, FfmpegCommand
from tasks.pairs.view import high_segment

SideName = Literal["high", "low"]

SIDES: tuple[SideName, ...] = ("high", "low")

_VIDEO = "video.mp4"


class Span(Protocol):
    """The frames of a clip; rows of the table `clips` implement it."""

    @property
    def first_frame(self) -> int:
        """First frame of the clip in the source."""

    @property
    def frame_count(self) -> int:
        """Number of frames; clips without frames are skipped."""


def unit_starts(clips: Iterable[Span], frame_count: int) -> list[int]:
    """Return the frames at which a clip or an uncaptioned interval begins, in order, starting with 0."""
    starts = {0}
    for clip in clips:
        if clip.frame_count:
            starts |= {clip.first_frame, clip.first_frame + clip.frame_count}
    return sorted(start for start in starts if 0 <= start < frame_count)


def encoded_consumes(
    frames_id: str, starts: Sequence[int], fps: float, settings: EncoderSettings
) -> dict[str, Any]:
    """Return the inputs of the id of a source's encoded video."""
    return {
        "frames": frames_id,
        "units": digest_value(list(starts)),
        "fps": fps,
        "encoder": {"name": "libx264", "version": ENCODER_VERSION, **settings.model_dump(exclude_none=True)},
    }


def encode_source(
    store: Store,
    frames_id: str,
    frame_count: int,
    clips: Iterable[Span],
    fps: float,
    settings: EncoderSettings = DEFAULT_SETTINGS,
) -> Path:
    """Return the encoded video of a source, encoding it if the store does not have it yet.

    Parameters
    ----------
    store
        Store of the frames and of the encoded video.
    frames_id, frame_count
        The source's frames, and their number.
    clips
        All clips of the source.
    fps
        Frames per second.
    settings
        How to encode.

    Raises
    ------
    StoreError
        If the frames were evicted and there is no encoded video yet.
    SetAside
        If the store is full or cannot be written.
    """
    starts = unit_starts(clips, frame_count)
    consumes = encoded_consumes(frames_id, starts, fps, settings)
    id_ = artifact_id(ENCODED, consumes)
    if not store.has(ENCODED, id_):
        reader = FrameReader(frames_path(store, frames_id))
        if reader.count != frame_count:
            raise IntegrityError(f"{reader.path} has {reader.count} frames, {frame_count} were promised")
        units = (_read(reader, first, end - first) for first, end in pairwise([*starts, frame_count]))
        with store.stage(ENCODED, consumes) as staged, storage_errors(store.root):
            encode_units(
                staged.path / _VIDEO, units, reader.width, reader.height, reader.color, fps, settings, id_
            )
            # the content is the frames; their encoding is not part of it
            staged.content_checksum = store.manifest(FRAMES, frames_id).content_checksum
            staged.content = {
                "frames": frame_count,
                "units": starts,
                "width": reader.width,
                "height": reader.height,
                "matrix": reader.color.matrix,
                "full_range": reader.color.full_range,
            }
            staged.provenance = {"pyav": av.__version__, "libraries": _library_versions()}
    return store.artifact_path(ENCODED, id_) / _VIDEO


def encoded_color(store: Store, encoded: Path) -> ColorSpec:
    """Return the colours of a video from :func:`encode_source`."""
    source = store.manifest(ENCODED, encoded.parent.name).content
    return ColorSpec(matrix=source["matrix"], full_range=source["full_range"])


def materialise_pair(
    store: Store,
    record: PairRecord,
    clips: Sequence[Span],
    folder: Path,
    sides: Sequence[SideName] = SIDES,
    settings: EncoderSettings = DEFAULT_SETTINGS,
    progress: Callable[[int], None] | None = None,
) -> dict[SideName, Path]:
    """Write the sides of a pair as ``high.mp4`` and ``low.mp4`` into `folder` and return the paths.

    A file is complete or absent. An existing file of this pair is left alone.

    Parameters
    ----------
    store
        Where frames and degraded clips are.
    record
        The pair.
    clips
        All clips of its source.
    folder
        Where the files go; made if needed.
    sides
        Which sides are wanted.
    settings
        How to encode.
    progress
        Called with the number of frames written, after each segment.

    Raises
    ------
    StoreError
        If frames were evicted that are needed.
    IntegrityError
        If the edit list does not give the frames that the record promises.
    SetAside
        If `folder` is full or cannot be written.
    """
    encoded = encode_source(store, record.frames_id, record.source_frames, clips, record.fps, settings)
    paths: dict[SideName, Path] = {}
    for side in sides:
        path = folder / f"{side}.mp4"
        if side == "high":
            write_high_of(store, record, encoded, path, settings)
        else:
            write_low(store, record, encoded, path, settings, progress)
        paths[side] = path
    return paths


def write_high(encoded: Path, path: Path) -> bool:
    """Copy the encoded video of a source to `path`; return False if it already exists."""
    if _comment(path) == encoded.parent.name:
        return False
    with _draft(path) as draft:
        shutil.copyfile(encoded, draft)
    return True


def write_high_of(
    store: Store,
    record: PairRecord,
    encoded: Path,
    path: Path,
    settings: EncoderSettings = DEFAULT_SETTINGS,
) -> bool:
    """Write the high side of a pair to `path`, which may be an excerpt; return False if it already exists."""
    if record.excerpt is None:
        return write_high(encoded, path)
    whole = {"segments": (high_segment(record),), "low_frames": record.high_frames}
    return write_low(store, record.model_copy(update=whole), encoded, path, settings)


def write_low(
    store: Store,
    record: PairRecord,
    encoded: Path,
    path: Path,
    settings: EncoderSettings = DEFAULT_SETTINGS,
    progress: Callable[[int], None] | None = None,
) -> bool:
    """Write the low side of a pair to `path`; return False if it already exists.

    `encoded` is what :func:`encode_source` gave for the pair's source.
    """
    comment = digest_value({"encoded": encoded.parent.name, "segments": record.segments})
    if _comment(path) == comment:
        return False
    color = encoded_color(store, encoded)
    with (
        _draft(path) as draft,
        UnitFile(encoded) as origin,
        UnitWriter(draft, origin, color, settings, comment) as writer,
    ):
        for segment in record.segments:
            if segment.kind == "degraded":
                writer.encode(_degraded(store, record, segment))
            elif segment.kind == "trimmed":
                # its last packets may refer to frames that are cut off
                source = FrameReader(frames_path(store, record.frames_id))
                writer.encode(_read(source, segment.first_frame, segment.frame_count))
            else:
                writer.copy(segment.first_frame, segment.frame_count)
            if progress is not None:
                progress(segment.frame_count)
        if writer.count != record.low_frames:
            raise IntegrityError(
                f"pair {record.pair_id}: the edit list gave {writer.count} frames, "
                f"the record promises {record.low_frames}"
            )
    return True


def encode_pair(
    store: Store,
    record: PairRecord,
    folder: Path,
    command: FfmpegCommand,
    encoder: Encoder,
    sides: Sequence[SideName] = SIDES,
    same: Path | None = None,
) -> dict[SideName, Path]:
    """Write the sides of a pair as :func:`materialise_pair` does, each encoded whole by the ffmpeg command.

    Parameters
    ----------
    store, record, folder, sides
        As in :func:`materialise_pair`.
    command, encoder
        The program and its encoder.
    same
        The high side of another pair of the same source, if there is one: it is copied.

    Raises
    ------
    StoreError
        If frames were evicted.
    IntegrityError
        If the edit list or the encoder does not give the frames that the record promises.
    PrerequisiteError
        If the command fails, with what it says.
    SetAside
        If `folder` is full or cannot be written.
    """
    paths: dict[SideName, Path] = {}
    for side in sides:
        path = paths[side] = folder / f"{side}.mp4"
        comment = _encoded_comment(record, encoder, side)
        if _comment(path) == comment:
            continue
        with _draft(path) as draft:
            if side == "high" and same is not None and _comment(same) == comment:
                shutil.copyfile(same, draft)
                continue
            reader = FrameReader(frames_path(store, record.frames_id))
            frames = _side_frames(store, record, reader, side)
            given = command.encode(draft, encoder, frames, reader.color, record.fps, comment)
            promised = record.high_frames if side == "high" else record.low_frames
            with av.open(str(draft)) as container:
                encoded = container.streams.video[0].frames
            if not given == encoded == promised:
                raise IntegrityError(
                    f"pair {record.pair_id}, {side} side: the record promises {promised} frames, "
                    f"the edit list gave {given}, {encoder.name} of {command.words} wrote {encoded}"
                )
    return paths


def is_encoded(record: PairRecord, folder: Path, encoder: Encoder, sides: Sequence[SideName] = SIDES) -> bool:
    """Return whether :func:`encode_pair` has nothing to do for a pair."""
    return all(_comment(folder / f"{side}.mp4") == _encoded_comment(record, encoder, side) for side in sides)


def _encoded_comment(record: PairRecord, encoder: Encoder, side: SideName) -> str:
    options = dict(encoder.options)
    frames = {"frames": record.frames_id, "fps": record.fps, "encoder": encoder.name, "options": options}
    if record.excerpt is not None:
        frames["excerpt"] = [record.first_frame, record.high_frames]
    return digest_value(frames if side == "high" else {**frames, "segments": record.segments})


def _side_frames(store: Store, record: PairRecord, reader: FrameReader, side: SideName) -> Iterator[Planes]:
    """Yield all frames of a side."""
    if side == "high":
        yield from _read(reader, record.first_frame, record.high_frames)
        return
    for segment in record.segments:
        if segment.kind == "degraded":
            yield from _degraded(store, record, segment)
        else:
            yield from _read(reader, segment.first_frame, segment.frame_count)


def _degraded(store: Store, record: PairRecord, segment: Segment) -> Iterator[Planes]:
    """Yield the frames of a degraded segment, one at a time."""
    if segment.degraded_clip is not None:
        reader = FrameReader(clip_path(store, segment.degraded_clip))
        if reader.count != segment.frame_count:
            raise IntegrityError(
                f"degraded clip {segment.degraded_clip} has {reader.count} frames, "
                f"pair {record.pair_id} expects {segment.frame_count}: remove it and build again"
            )
        yield from _read(reader, 0, reader.count)
        return
    if segment.frame_map is None:
        raise IntegrityError(f"pair {record.pair_id}: clip {segment.clip} has no degraded frames")
    reader = FrameReader(frames_path(store, record.frames_id))
    shown, planes = -1, None
    for index in segment.frame_map:
        if planes is None or index != shown:
            shown, planes = index, reader.read(index)[0]
        yield planes


def _read(reader: FrameReader, first: int, count: int) -> Iterator[Planes]:
    for batch in reader.batches(first, count):
        yield from batch


def _library_versions() -> dict[str, str]:
    return {name: ".".join(map(str, version)) for name, version in sorted(av.library_versions.items())}


def _comment(path: Path) -> str | None:
    """Return a video's comment tag, which identifies its content; None if there is no video."""
    if not path.is_file():
        return None
    try:
        with av.open(str(path), options={"protocol_whitelist": "file"}) as container:
            return container.metadata.get("comment")
    except av.FFmpegError:
        return None


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Yield a temporary name next to `path`, and rename it to `path` on success."""
    refuse_special_target(path)
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.stem}.{uuid.uuid4().hex}{path.suffix}")
        try:
            yield draft
            sync_path(draft)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
