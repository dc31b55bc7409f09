"""Tables `pairs`, `edits` and `degraded_clips`.

What a low-quality video is made of; and the plan of a build.

The plan says what would be made of each source, before any pixel changes.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from storage_schemas.errors import Reason
from storage_schemas.model import Frozen

SegmentKind = Literal["source", "gap", "degraded"]

PAIRS = pa.schema(
    [
        ("pair_id", pa.string()),
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("dimension", pa.string()),
        ("category", pa.string()),
        ("operation", pa.string()),
        ("operation_version", pa.int32()),
        ("parameters", pa.string()),
        ("strength", pa.string()),
        ("clips_degraded", pa.int32()),
        ("fps", pa.float64()),
        ("high_frames", pa.int64()),
        ("low_frames", pa.int64()),
        ("high_checksum", pa.string()),
        ("low_checksum", pa.string()),
        ("high_intervals", pa.list_(pa.list_(pa.float64(), 2))),
        ("low_intervals", pa.list_(pa.list_(pa.float64(), 2))),
        ("drawn_clips", pa.list_(pa.int32())),
        ("choices", pa.string()),
        ("passed_over", pa.string()),
        ("frames_id", pa.string()),
        ("bin_s", pa.int64()),
        ("seed", pa.string()),
    ]
)

EDITS = pa.schema(
    [
        ("pair_id", pa.string()),
        ("position", pa.int32()),
        ("kind", pa.string()),
        ("clip", pa.int32()),
        ("first_frame", pa.int64()),
        ("frame_count", pa.int64()),
        ("degraded_clip", pa.string()),
        ("frame_map", pa.list_(pa.int64())),
        ("moved", pa.bool_()),
    ]
)

DEGRADED_CLIPS = pa.schema(
    [
        ("degraded_clip", pa.string()),
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("operation", pa.string()),
        ("clip", pa.int32()),
        ("first_frame", pa.int64()),
        ("frame_count", pa.int64()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("difference", pa.float64()),
        ("content_checksum", pa.string()),
        ("bytes", pa.int64()),
        ("path", pa.string()),
        ("choice", pa.string()),
        ("provenance", pa.string()),
    ]
)

Interval = tuple[float, float]


class Segment(Frozen):
    """One stretch of the low-quality video.

    Parameters
    ----------
    kind
        ``source`` for a clip as it was, ``gap`` for an uncaptioned interval kept in place, ``degraded``
        for a clip with other frames.
    clip
        Index of the clip in the source; None for a gap.
    first_frame, frame_count
        The source's frames that this segment stands for.
    degraded_clip
        Id of the artifact that holds the changed frames, or None.
    frame_map
        Where no new pixels are needed: the source frame shown at each place, or None.
    moved
        Whether the clip stands at another place than in the source because the operation moved it.
    """

    kind: SegmentKind
    clip: int | None
    first_frame: int
    frame_count: int
    degraded_clip: str | None = None
    frame_map: tuple[int, ...] | None = None
    moved: bool = False


class PairRecord(Frozen):
    """Everything that a pair is, apart from pixels; the payload of a `pair` artifact.

    Intervals are seconds in the time line of their own side, ``[start, end)``. `choices` says by clip
    index what the operation chose (a style, a subject, a colour), `passed_over` which clips were drawn
    but could not be degraded, and why. `parameters` is the operation's full parameter set, `bin_s` the
    lower edge of the source's duration bin in seconds (filled in by the release).
    """

    pair_id: str
    source_id: str
    aspect: str
    dimension: str
    category: str
    operation: str
    operation_version: int
    parameters: dict[str, Any]
    strength: str
    clips_degraded: int
    fps: float
    frames_id: str
    segments: tuple[Segment, ...]
    drawn_clips: tuple[int, ...]
    choices: dict[str, Any]
    passed_over: dict[str, str]
    high_frames: int
    low_frames: int
    high_checksum: str
    low_checksum: str
    high_intervals: tuple[Interval, ...]
    low_intervals: tuple[Interval, ...]
    seed: str
    bin_s: int = 0


class DegradedClipRow(Frozen):
    """Index row of one degraded clip; `path` is relative to the store."""

    degraded_clip: str
    source_id: str
    aspect: str
    operation: str
    clip: int
    first_frame: int
    frame_count: int
    height: int
    width: int
    difference: float
    content_checksum: str
    bytes: int
    path: str
    choice: dict[str, Any]
    provenance: dict[str, Any]


class PlannedPair(Frozen):
    """One pair of the plan.

    `new_frames` are the frames with new pixels that it needs, `done` says whether the pair is in the
    store and verified.
    """

    pair_id: str
    aspect: str
    operation: str
    strength: str
    clips: int
    main: bool
    new_frames: int
    pool: str
    done: bool


class NoPair(Frozen):
    """Why a source has no pair for an aspect."""

    aspect: str
    reason: Reason
    message: str


class SourceReport(Frozen):
    """What a build could make of one source.

    `exact` says whether the frames are known from ingest rather than predicted from the packets.
    """

    source_id: str
    title: str
    duration_s: float
    frames: int
    width: int
    height: int
    exact: bool
    has_frames: bool
    pairs: tuple[PlannedPair, ...]
    no_pair: tuple[NoPair, ...]

    @property
    def aspects(self) -> tuple[str, ...]:
        """The aspects for which the source can give a pair at the recipe's main severity."""
        return tuple(pair.aspect for pair in self.pairs if pair.main)


class ReleasePlan(Frozen):
    """All pairs of a release to be, and what making them takes (bytes and frames)."""

    sources: int
    planned: dict[str, int]
    missing_pairs: int
    missing_sources: int
    frames_to_decode: int
    frames_to_degrade: dict[str, int]
    bytes_frames: int
    bytes_degraded: int
    bytes_free: int
    not_drawn: dict[str, int]
