"""Verify pairs by reading them back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from storage_schemas.errors import IntegrityError, Reason, SetAside, StoreError
from storage_schemas.frames import FrameReader
from storage_schemas.ids import artifact_id, digest_frame, digest_frames
from storage_schemas.pair import Interval, PairRecord, Segment
from storage_schemas.provenance import provenance
from storage_schemas.release import clip_path, frames_path
from storage_schemas.store import DEGRADED_CLIP, FRAMES, PAIR, VERIFIED, Store, check_files
from storage_schemas.store_check import artifact_problems
from tasks.aspects.base import FrameMapOperation, PixelOperation
from tasks.aspects.registry import aspect as find_aspect
from tasks.pairs.degrade import low_checksum, read_pair, shown_frames
from tasks.pairs.degrade_clip import absolute_difference
from tasks.pairs.excerpts import excerpt_problems, rebased_record
from tasks.pairs.intervals import degraded_intervals
from tasks.pairs.view import Side, open_record

#: Part of a verification's inputs: increasing it makes every pair be verified again.
VERIFIER_VERSION = 1

_BATCH = 32


def verified_consumes(pair_id: str) -> dict[str, str | int]:
    """Return the inputs of a pair's verification."""
    return {"pair": pair_id, "verifier": VERIFIER_VERSION}


@dataclass
class SourceCheck:
    """The frames of one source, read back once for all of its pairs."""

    reader: FrameReader
    wrong: set[int] = field(default_factory=set)

    @classmethod
    def read(cls, store: Store, frames_id: str) -> SourceCheck:
        """Read every frame of a source and compare it with its checksum."""
        reader = FrameReader(frames_path(store, frames_id))
        return cls(reader, set(reader.check()))


def verify_pairs(
    store: Store, pair_ids: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> dict[str, SetAside]:
    """Verify the pairs of one source and record the valid ones; return the reasons for the others.

    The source's frames are read once. For each pair, the edit list must have the right segments in the right
    order and number; untouched frames must be the source's; every degraded clip must match its checksums and
    differ from its source by at least the operation's threshold; and the frames must give the checksum of the
    low side.
    """
    failed: dict[str, SetAside] = {}
    unverified = []
    for pair_id in pair_ids:
        consumes = verified_consumes(pair_id)
        if not store.has(VERIFIED, artifact_id(VERIFIED, consumes)):
            unverified.append(pair_id)
    sources: dict[str, SourceCheck | str] = {}
    for done, pair_id in enumerate(unverified, 1):
        started = time.monotonic()
        try:
            record = read_pair(store, pair_id)
        except IntegrityError as problem:
            store.discard(PAIR, pair_id, problem)
            failed[pair_id] = SetAside(Reason.DAMAGED_ARTIFACT, str(problem))
            continue
        if record.frames_id not in sources:
            sources[record.frames_id] = _source_check(store, record.frames_id)
        source = sources[record.frames_id]
        problems = [source] if isinstance(source, str) else pair_problems(store, record, source)
        if problems:
            damaged = _discard_damaged(store, record)
            reason = Reason.DAMAGED_ARTIFACT if damaged else Reason.VERIFICATION_FAILED
            failed[pair_id] = SetAside(reason, f"{record.aspect}: {'; '.join(problems)}")
            continue
        with store.stage(VERIFIED, verified_consumes(pair_id)) as staged:
            staged.content_checksum = record.low_checksum
            staged.content = {"pair": pair_id, "frames_read": record.low_frames}
            staged.provenance = provenance(started)
        if progress is not None:
            progress(done, len(unverified))
    return failed


def _discard_damaged(store: Store, record: PairRecord) -> bool:
    """Discard what is damaged of that which a pair shows, and the pair with it; return whether anything was.

    The next build makes it again. Intact parts stay, since they would be identical.
    """
    clips = [(DEGRADED_CLIP, s.degraded_clip) for s in record.segments if s.degraded_clip is not None]
    damaged = []
    for kind, id_ in dict.fromkeys([(FRAMES, record.frames_id), *clips]):
        if problems := artifact_problems(store, kind, id_):
            store.discard(kind, id_, IntegrityError("; ".join(problems)))
            damaged.append(kind)
    if DEGRADED_CLIP in damaged:
        store.discard(PAIR, record.pair_id, IntegrityError(f"pair {record.pair_id} shows a damaged clip"))
    return bool(damaged)


def _source_check(store: Store, frames_id: str) -> SourceCheck | str:
    """Read the frames of a source; return the problem if they exist but are not a frame array."""
    try:
        return SourceCheck.read(store, frames_id)
    except StoreError as problem:
        if not store.has(FRAMES, frames_id):
            raise
        return str(problem)


def pair_problems(store: Store, record: PairRecord, source: SourceCheck) -> list[str]:
    """Return the problems of a pair as messages; empty if it is valid.

    Raises
    ------
    OSError
        If its file system does not answer; so do the other functions that return problems.
    """
    problems: list[str] = []
    reader = source.reader
    if reader.count != record.source_frames:
        problems.append(f"the source has {reader.count} frames, the pair says {record.source_frames}")
    problems += excerpt_problems(record, reader.count)
    shown = reader.digests[record.first_frame : record.first_frame + record.high_frames]
    if digest_frames(shown) != record.high_checksum:
        problems.append("the source's frames are not those that the pair was made from")
    if source.wrong:
        problems.append(f"{len(source.wrong)} stored frames of the source are damaged")
    problems += edit_list_problems(record)
    if problems:
        return problems
    try:
        read: dict[str | None, list[int]] = {}
        for segment in record.segments:
            if segment.kind == "degraded":
                problems += _degraded_problems(store, record, segment, reader, read)
        checksum = "" if problems else low_checksum(store, reader.digests.tolist(), record.segments, read)
        if not problems and checksum != record.low_checksum:
            problems.append("the low side's checksum does not follow from its frames")
    except StoreError as problem:
        # a degraded clip is damaged or missing; the source's other pairs may still be valid
        problems.append(str(problem))
    return problems


def edit_list_problems(record: PairRecord) -> list[str]:
    """Return the problems of a pair's edit list: counts, order, overlaps and intervals."""
    whole, record = record, rebased_record(record)
    problems: list[str] = []
    if sum(segment.frame_count for segment in record.segments) != record.low_frames:
        problems.append("the edit list does not have as many frames as the pair says")
    spans = sorted((s.first_frame, s.first_frame + s.frame_count) for s in record.segments)
    if any(end > start for (_, end), (start, _) in pairwise(spans)):
        problems.append("segments of the edit list overlap in the source")
    if any(segment.frame_count < 1 for segment in record.segments):
        problems.append("a segment of the edit list has no frames")
    if any(s.kind != "degraded" and (s.degraded_clip or s.frame_map is not None) for s in record.segments):
        problems.append("a segment that was not degraded has other frames")
    if spans and (spans[0][0] < 0 or spans[-1][1] > record.high_frames):
        problems.append("the edit list leaves the source")
    drawn = set(record.drawn_clips)
    degraded = {s.clip for s in record.segments if s.kind == "degraded"}
    moved = {s.clip for s in record.segments if s.moved}
    present = {s.clip for s in record.segments}
    removed = drawn - present
    trimmed = _trimmed(record)
    if degraded | moved | removed | trimmed != drawn:
        problems.append("the degraded, moved, trimmed or removed clips are not those that were drawn")
    if not trimmed <= _before_holes(record):
        problems.append("a trimmed clip has all of its frames")
    if len(drawn) != record.clips_degraded:
        problems.append(f"{len(drawn)} clips are concerned, the pair records {record.clips_degraded}")
    in_order = [s.first_frame for s in record.segments if s.kind != "gap" and not s.moved]
    in_source = sorted(record.segments, key=lambda s: s.first_frame)
    if in_order != sorted(in_order) or _gaps(record.segments) != _gaps(in_source):
        problems.append("clips that were not moved are out of order")
    if not removed and not trimmed and record.low_frames != record.high_frames:
        problems.append("nothing was removed, yet the sides have different lengths")
    if not record.high_intervals or not record.low_intervals:
        problems.append("no degraded interval is marked")
    if not problems and (record.high_intervals, record.low_intervals) != expected_intervals(whole):
        problems.append("the degraded intervals are not those of the edit list")
    return problems


def _trimmed(record: PairRecord) -> set[int | None]:
    return {segment.clip for segment in record.segments if segment.kind == "trimmed"}


def _before_holes(record: PairRecord) -> set[int | None]:
    """Return the clips after which frames of the source are missing."""
    in_source = sorted(record.segments, key=lambda segment: segment.first_frame)
    starts = [*(segment.first_frame for segment in in_source[1:]), record.high_frames]
    ends = [segment.first_frame + segment.frame_count for segment in in_source]
    return {one.clip for one, end, start in zip(in_source, ends, starts, strict=True) if end < start}


def _gaps(segments: Sequence[Segment]) -> list[int | None]:
    """Return the first frame of the gap at each place, None for a clip; gaps must keep their places."""
    return [s.first_frame if s.kind == "gap" else None for s in segments]


def expected_intervals(record: PairRecord) -> tuple[tuple[Interval, ...], tuple[Interval, ...]]:
    """Compute the degraded intervals of both sides from the edit list alone.

    Source frames without a segment belong to removed clips.
    """
    record = rebased_record(record)
    segments = sorted(record.segments, key=lambda s: s.first_frame)
    source_units: list[Segment] = []
    removed: list[int] = []
    start = 0
    for first, segment in [*((s.first_frame, s) for s in segments), (record.high_frames, None)]:
        if first > start:
            removed.append(-1 - len(removed))
            hole = Segment(kind="source", clip=removed[-1], first_frame=start, frame_count=first - start)
            source_units.append(hole)
        if segment is not None:
            source_units.append(segment)
            start = first + segment.frame_count
    present = {segment.clip for segment in segments}
    whole = present - _trimmed(record)
    drawn = [clip for clip in record.drawn_clips if clip in whole]
    return degraded_intervals(source_units, record.segments, [*drawn, *removed], record.fps)


def _degraded_problems(
    store: Store,
    record: PairRecord,
    segment: Segment,
    source: FrameReader,
    read: dict[str | None, list[int]],
) -> list[str]:
    """Return the problems of a degraded clip; add the checksums of the frames that it has to `read`."""
    aspect = find_aspect(record.aspect)
    operation = aspect.operation(record.operation, record.control)
    most = aspect.control.max_difference if record.control and aspect.control else math.inf
    if not isinstance(operation, PixelOperation | FrameMapOperation):
        return [f"clip {segment.clip}: {record.operation} degrades no single clip"]
    total, size = 0, 0
    if segment.degraded_clip is not None:
        clip = FrameReader(clip_path(store, segment.degraded_clip))
        if clip.count != segment.frame_count:
            return [f"clip {segment.clip}: {clip.count} degraded frames for {segment.frame_count}"]
        digests = read[segment.degraded_clip] = []
        for start in range(0, clip.count, _BATCH):
            count = min(_BATCH, clip.count - start)
            after = clip.read(start, count)
            digests += [digest_frame(planes) for planes in after]
            if digests[start:] != clip.digests[start : start + count].tolist():
                return [f"clip {segment.clip}: degraded frames are damaged"]
            before = source.read(segment.first_frame + start, count)
            total, size = total + absolute_difference(before, after), size + before.size
    else:
        own = range(segment.first_frame, segment.first_frame + segment.frame_count)
        indices = shown_frames(segment)
        if len(indices) != segment.frame_count or any(shown not in own for shown in indices):
            return [f"clip {segment.clip}: its frame map leaves the clip"]
        frame = lru_cache(maxsize=1)(source.read)  # neighbours show the same
        for start in range(0, len(indices), _BATCH):
            before = source.read(segment.first_frame + start, min(_BATCH, len(indices) - start))
            for planes, shown in zip(before, indices[start:], strict=False):
                total += absolute_difference(planes, frame(shown)[0])
            size += before.size
    if total / size < operation.threshold:
        return [f"clip {segment.clip}: mean difference {total / size:.2f} is below {operation.threshold:g}"]
    if total / size > most:
        return [f"clip {segment.clip}: mean difference {total / size:.2f} is above {most:g}"]
    return []


def high_problems(store: Store, record: PairRecord) -> list[str]:
    """Read the high side of a pair frame by frame, as a judge would; all pairs of a source have the same."""
    try:
        high = open_record(store, record, "").high
        if digest_frames(_digests(high, 0, len(high))) != record.high_checksum:
            return ["the high side's frames do not match their checksum"]
    except StoreError as problem:
        return [str(problem)]
    return []


def low_problems(store: Store, record: PairRecord, source: SourceCheck) -> list[str]:
    """Read the low side of a pair frame by frame, as a judge would; untouched frames must be the source's.

    The source's frames were compared with its checksums before.
    """
    problems: list[str] = []
    try:
        low = open_record(store, record, "").low
        digests: list[int] = []
        for segment in record.segments:
            some = _digests(low, len(digests), segment.frame_count)
            digests += some
            first = segment.first_frame
            of_source = source.reader.digests[first : first + segment.frame_count].tolist()
            if segment.kind != "degraded" and some != of_source:
                problems.append(f"untouched frames of clip {segment.clip} differ between the sides")
        if digest_frames(digests) != record.low_checksum:
            problems.append("the low side's frames do not match their checksum")
    except StoreError as problem:
        problems.append(str(problem))
    return problems


def _digests(side: Side, first: int, count: int) -> list[int]:
    batches = (range(n, min(n + _BATCH, first + count)) for n in range(first, first + count, _BATCH))
    return [digest_frame(planes) for batch in batches for planes in side.planes(batch)]


def verify_deep(store: Store, record: PairRecord) -> list[str]:
    """Read both sides of a pair frame by frame, and check every file's checksum.

    Returns
    -------
    list of str
        Problems as messages; empty if the pair is valid.
    """
    artifacts = [store.artifact_path(PAIR, record.pair_id)]
    artifacts += [
        store.artifact_path(DEGRADED_CLIP, s.degraded_clip) for s in record.segments if s.degraded_clip
    ]
    problems: list[str] = []
    for artifact in artifacts:
        try:
            check_files(artifact)
        except StoreError as problem:
            problems.append(str(problem))
    try:
        source = SourceCheck(FrameReader(frames_path(store, record.frames_id)))
    except StoreError as problem:
        return [*problems, str(problem)]
    return problems + high_problems(store, record) + low_problems(store, record, source)
