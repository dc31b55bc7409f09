"""Degrade a source for all its aspects in one read and write its pairs."""

from __future__ import annotations

import logging
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from storage_schemas.away import is_away
from storage_schemas.errors import (
    IntegrityError,
    PrerequisiteError,
    Reason,
    SetAside,
    UserInputError,
)
from storage_schemas.frames import FrameReader
from storage_schemas.ids import canonical_json, digest_frames
from storage_schemas.pair import PairRecord, Segment
from storage_schemas.provenance import provenance
from storage_schemas.release import clip_path, frames_path
from storage_schemas.store import PAIR, Store
from storage_schemas.value_problems import problem_text
from tasks.aspects.base import ClipNotDegradable, ClipSpan, OrderOperation
from tasks.media.large_blocks import keep_large_blocks
from tasks.models.base import Models
from tasks.pairs.clip_frames import ClipFrames, reading_thread
from tasks.pairs.degrade_clip import DegradedClip, degrade_clip, needs_frames, pair_failure
from tasks.pairs.draw import PairJob
from tasks.pairs.excerpts import cut_excerpt, rebased, within
from tasks.pairs.facts import SourceFacts
from tasks.pairs.intervals import cut_units, degraded_intervals, reordered, replaced, trimmed, units

log = logging.getLogger(__name__)

#: Minimum seconds between two progress lines of one clip.
EVERY_S = 30.0


class FrameProgress:
    """Logs a line about a clip at most every 30 s, and one at its end.

    A clip that takes less time is not logged unless `always` is set: most operations take milliseconds.

    Parameters
    ----------
    what
        Aspect and source, as shown in the log line.
    clip, clips
        Number of this clip within the pair, from 1, and the total.
    frames, frames_after
        Frame counts of this clip and of the pair's clips after it.
    always
        Log the end of every clip.
    clock
        Monotonic clock, in seconds.
    """

    def __init__(
        self,
        what: str,
        clip: int,
        clips: int,
        frames: int,
        frames_after: int,
        *,
        always: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._clip, self._clips = what, clip, clips
        self._frames, self._after, self._always, self._clock = frames, frames_after, always, clock
        self._began = self._said = clock()
        self._done = 0

    def add(self, frames: int) -> None:
        """Record that this many more frames were made."""
        self._done += frames
        now = self._clock()
        ended = self._done >= self._frames
        due = now - self._said >= EVERY_S
        if (ended and (self._always or now - self._began >= EVERY_S)) or (due and not ended):
            self._said = now
            log.info("%s", self._line(now - self._began))

    def _line(self, seconds: float) -> str:
        speed = self._done / max(seconds, 1e-6)
        left = self._frames - self._done + self._after
        remaining = (
            f"{left} frames of the pair left, about {_time(left / speed)}" if left else "the pair's last"
        )
        return (
            f"{self._what}: clip {self._clip} of {self._clips}, {self._done} of {self._frames} frames, "
            f"{speed:.3g} frames/s, {remaining}"
        )


def _time(seconds: float) -> str:
    """Format a duration for display."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@dataclass
class _Progress:
    """Progress of one pair that needs new frames."""

    job: PairJob
    taken: dict[int, DegradedClip] = field(default_factory=dict)
    passed_over: dict[int, ClipNotDegradable] = field(default_factory=dict)
    broken: SetAside | None = None
    #: Clips being tried now, in clip order.
    wave: list[ClipSpan] = field(default_factory=list)

    def next_clips(self) -> list[ClipSpan]:
        if self.broken is not None:
            return []
        tried = len(self.taken) + len(self.passed_over)
        drawn = self.job.draw[tried : tried + self.job.clips - len(self.taken)]
        self.wave = sorted(drawn, key=lambda span: span.index)
        return self.wave

    def frames(self, span: ClipSpan, title: str) -> FrameProgress:
        """Return the progress logger for a clip of the current wave."""
        later = [other for other in self.wave if other.index > span.index]
        return FrameProgress(
            f"{self.job.aspect.name} of {title}",
            self.job.clips - len(later),
            self.job.clips,
            span.frame_count,
            sum(other.frame_count for other in later),
            always=self.job.operation.hardware != "cpu",
        )


@dataclass(frozen=True)
class DegradeResult:
    """Ids of the pairs that exist now; the reason for each missing pair, by pair id."""

    built: tuple[str, ...]
    set_aside: dict[str, SetAside]


def degrade_source(
    store: Store,
    facts: SourceFacts,
    jobs: Sequence[PairJob],
    models: Models,
    progress: Callable[[int, int], None] | None = None,
) -> DegradeResult:
    """Make the pairs of a source; each clip's frames are read once for all aspects that drew it.

    Existing pairs are left unchanged. A clip that cannot be degraded is replaced by the next of the draw; a
    pair that runs out of clips is set aside without affecting the others.

    Parameters
    ----------
    progress
        Called with (clips degraded so far, clips to degrade).
    """
    missing = [job for job in jobs if not store.has(PAIR, job.pair_id)]
    set_aside: dict[str, SetAside] = {}
    states = []
    for job in missing:
        if isinstance(job.operation, OrderOperation):
            try:
                _write_order_pair(store, facts, job)
            except SetAside as reason:
                set_aside[job.pair_id] = reason
        else:
            states.append(_Progress(job))
    _degrade_clips(store, facts, states, models, progress)
    for state in states:
        if state.broken is not None:
            set_aside[state.job.pair_id] = state.broken
        elif len(state.taken) < state.job.least:
            set_aside[state.job.pair_id] = pair_failure(state.job, state.passed_over, facts.source.title)
        else:
            try:
                _write_clip_pair(store, facts, state)
            except SetAside as reason:
                # the clips that could be degraded leave no room for an excerpt
                set_aside[state.job.pair_id] = reason
    return DegradeResult(
        built=tuple(job.pair_id for job in jobs if job.pair_id not in set_aside), set_aside=set_aside
    )


def _degrade_clips(
    store: Store,
    facts: SourceFacts,
    states: Sequence[_Progress],
    models: Models,
    progress: Callable[[int, int], None] | None,
) -> None:
    if not states:
        return
    keep_large_blocks()
    reader = FrameReader(frames_path(store, states[0].job.consumes["frames"]))
    done = 0
    with reading_thread() as thread:
        while wave := [(span, state) for state in states for span in state.next_clips()]:
            by_clip: dict[ClipSpan, list[_Progress]] = defaultdict(list)
            for span, state in wave:
                by_clip[span].append(state)
            spans = sorted(by_clip, key=lambda span: span.index)
            clips = [ClipFrames(reader, span, thread) for span in spans]
            _read_ahead(store, facts, clips[0], by_clip[spans[0]])
            for index, frames in enumerate(clips):
                if index + 1 < len(clips):
                    _read_ahead(store, facts, clips[index + 1], by_clip[spans[index + 1]])
                for state in by_clip[frames.span]:
                    _degrade(store, facts, state, frames, models)
                    done += 1
                    if progress is not None:
                        progress(done, sum(s.job.clips + len(s.passed_over) for s in states))
                frames.close()


def _read_ahead(store: Store, facts: SourceFacts, frames: ClipFrames, states: Sequence[_Progress]) -> None:
    """Start reading a clip's frames, if any of the pairs needs them."""
    if any(needs_frames(store, facts, state.job, frames.span) for state in states):
        frames.start()


def _degrade(store: Store, facts: SourceFacts, state: _Progress, frames: ClipFrames, models: Models) -> None:
    """Degrade one clip for one pair."""
    span = frames.span
    try:
        made = state.frames(span, facts.source.title).add
        state.taken[span.index] = degrade_clip(store, facts, state.job, frames, models, made)
    except ClipNotDegradable as problem:
        state.passed_over[span.index] = problem
    except (SetAside, UserInputError, PrerequisiteError):
        raise
    except Exception as problem:
        if is_away(problem):
            raise
        # kept as the pair's reason and in the log
        state.broken = _broken(state.job, facts, span, problem)


def _broken(job: PairJob, facts: SourceFacts, span: ClipSpan, problem: Exception) -> SetAside:
    """Log an exception raised by an operation and return it as the reason for setting this pair aside."""
    where = f"{job.operation.name} on clip {span.index} of {facts.source.title}"
    log.error("%s failed:\n%s", where, traceback.format_exc())
    return SetAside(
        Reason.INTERNAL_ERROR, f"{job.aspect.name}: {where} failed: {type(problem).__name__}: {problem}"
    )


def _write_clip_pair(store: Store, facts: SourceFacts, state: _Progress) -> None:
    source_units = units(facts.spans, facts.timeline.count)
    segments = replaced(source_units, {clip: done.segment for clip, done in state.taken.items()})
    _write_pair(
        store,
        facts,
        state.job,
        source_units,
        segments,
        low_checksum(
            store,
            facts.timeline.digests,
            segments,
            {done.segment.degraded_clip: done.digests for done in state.taken.values()},
        ),
        drawn=list(state.taken),
        choices={str(clip): done.choice for clip, done in sorted(state.taken.items()) if done.choice},
        passed_over={str(clip): str(problem) for clip, problem in state.passed_over.items()},
    )


def _write_order_pair(store: Store, facts: SourceFacts, job: PairJob) -> None:
    source_units = units(facts.spans, facts.timeline.count)
    operation: OrderOperation[Any] = job.operation  # type: ignore[assignment]
    arrangement = operation.rearrange(facts.clips_with_frames, job.clips, job.seed, job.parameters)
    removed = None
    if arrangement.trimmed:
        source_units, removed = cut_units(source_units, arrangement.trimmed)
        segments = trimmed(source_units, arrangement.trimmed)
    else:
        segments = reordered(source_units, arrangement.order, arrangement.drawn)
    checksum = low_checksum(store, facts.timeline.digests, segments)
    _write_pair(store, facts, job, source_units, segments, checksum, list(arrangement.drawn), {}, {}, removed)


def _write_pair(
    store: Store,
    facts: SourceFacts,
    job: PairJob,
    source_units: Sequence[Segment],
    segments: Sequence[Segment],
    checksum: str,
    drawn: list[int],
    choices: dict[str, Any],
    passed_over: dict[str, str],
    removed: Sequence[int] | None = None,
) -> None:
    """Write a pair; `removed` are the units that differ, by default the drawn clips."""
    started = time.monotonic()
    fps = float(job.fps)
    excerpt, begin, count = None, 0, facts.timeline.count
    if job.length is not None:
        excerpt = cut_excerpt(source_units, segments, job.length, job.what)
        begin, count = excerpt.first_frame, excerpt.frame_count
        source_units, segments = within(source_units, excerpt), within(segments, excerpt)
        checksum = low_checksum(store, facts.timeline.digests, segments)
    concerned = drawn if removed is None else removed
    high, low = degraded_intervals(rebased(source_units, begin), segments, concerned, fps)
    record = PairRecord(
        pair_id=job.pair_id,
        source_id=facts.source.id,
        aspect=job.aspect.name,
        dimension=job.aspect.dimension,
        category=job.aspect.category,
        operation=job.operation.name,
        operation_version=job.operation.version,
        parameters=job.parameters.model_dump(mode="json"),
        strength=job.strength,
        clips_degraded=len(drawn),
        fps=fps,
        frames_id=job.consumes["frames"],
        segments=tuple(segments),
        drawn_clips=tuple(drawn),
        choices=choices,
        passed_over=passed_over,
        high_frames=count,
        low_frames=sum(segment.frame_count for segment in segments),
        high_checksum=digest_frames(facts.timeline.digests[begin : begin + count]),
        low_checksum=checksum,
        high_intervals=high,
        low_intervals=low,
        seed=str(job.consumes["seed"]),
        control=job.control is not None,
        excerpt=excerpt,
    )
    with store.stage(PAIR, job.consumes) as staged:
        staged.content_checksum = record.low_checksum
        staged.content = record.content()
        staged.provenance = provenance(started)


def low_checksum(
    store: Store,
    source_digests: Sequence[int],
    segments: Sequence[Segment],
    stored: Mapping[str | None, Sequence[int]] = MappingProxyType({}),
) -> str:
    """Return the checksum of the low-quality side, computed from its frames' checksums in order.

    Parameters
    ----------
    stored
        Checksums of frames by the id of their degraded clip; those of others are read.
    """
    digests: list[int] = []
    for segment in segments:
        if segment.degraded_clip is not None:
            clip = stored.get(segment.degraded_clip)
            if not clip:
                clip = FrameReader(clip_path(store, segment.degraded_clip)).digests.tolist()
            digests += clip
        else:
            digests += [source_digests[frame] for frame in shown_frames(segment)]
    return digest_frames(digests)


def shown_frames(segment: Segment) -> Sequence[int]:
    """Return the source's frames that a segment without new pixels shows, in order."""
    if segment.frame_map is not None:
        return segment.frame_map
    return range(segment.first_frame, segment.first_frame + segment.frame_count)


def read_pair(store: Store, pair_id: str) -> PairRecord:
    """Read a pair from its artifact.

    Raises
    ------
    StoreError
        If the pair is not in the store.
    IntegrityError
        If the artifact is damaged.
    """
    try:
        return PairRecord.model_validate_json(canonical_json(store.manifest(PAIR, pair_id).content))
    except ValidationError as problem:
        raise IntegrityError(
            f"the record of pair {pair_id} does not fit: {problem_text(problem)}"
        ) from problem
