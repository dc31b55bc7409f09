"""Tables `pairs`, `edits` and `degraded_clips`, and the plan of a build.

The tables describe how each low-quality video is assembled. The plan lists what each source will provide,
before any pixel changes.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from storage_schemas.errors import Reason
from storage_schemas.model import Frozen
from storage_schemas.placement import Hardware
from storage_schemas.source import Damage

SegmentKind = Literal["source", "gap", "degraded", "trimmed"]

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

#: The table of a release that has controls.
PAIRS_WITH_CONTROLS = PAIRS.append(pa.field("control", pa.bool_()))

#: The column of a release that has excerpts.
EXCERPT_FIELD = pa.field(
    "excerpt",
    pa.struct(
        [
            ("share", pa.float64()),
            ("position", pa.string()),
            ("first_frame", pa.int64()),
            ("frame_count", pa.int64()),
            ("source_frames", pa.int64()),
            ("damage_at", pa.float64()),
        ]
    ),
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
#: Where damage is within an excerpt: at the same relative position as in the source, or in a third of it.
Position = Literal["own", "early", "middle", "late"]


class Segment(Frozen):
    """One segment of the low-quality video.

    Parameters
    ----------
    kind
        ``source`` for an unchanged clip, ``gap`` for an uncaptioned interval kept in place, ``degraded`` for
        a clip with changed frames, ``trimmed`` for a clip that ends early.
    clip
        Index of the clip in the source; None for a gap.
    first_frame, frame_count
        The source's frames that this segment represents.
    degraded_clip
        Id of the artifact that holds the changed frames, or None.
    frame_map
        For a degradation without new pixels, the source frame shown at each position; otherwise None.
    moved
        Whether the operation moved the clip.
    """

    kind: SegmentKind
    clip: int | None
    first_frame: int
    frame_count: int
    degraded_clip: str | None = None
    frame_map: tuple[int, ...] | None = None
    moved: bool = False


class LengthPoint(Frozen):
    """The share of a source in an excerpt, and the position of the damage.

    Parameters
    ----------
    share
        Share of the source's length; 1 is all of it.
    position
        ``own`` is the same relative position as in the source.
    """

    share: float
    position: Position = "own"

    @property
    def text(self) -> str:
        """The point in words."""
        where = "" if self.position == "own" else f", damage {self.position}"
        return f"{self.share:g}{where}"


class Excerpt(LengthPoint):
    """The part of a source that both videos of a pair show.

    Parameters
    ----------
    first_frame, frame_count
        Frames of the source.
    source_frames
        All frames of the source.
    damage_at
        Where the middle of the damage is, as a share of the excerpt.
    """

    first_frame: int
    frame_count: int
    source_frames: int
    damage_at: float


class PairRecord(Frozen):
    """A pair without its pixels; the payload of a `pair` artifact.

    Intervals are seconds in the timeline of their own side, ``[start, end)``. `choices` contains the
    operation's random choices (a style, a subject, a colour) by clip index, `passed_over` the clips that
    were drawn but could not be degraded, with the reason. `parameters` is the operation's full parameter
    set, `bin_s` the lower edge of the source's duration bin in seconds (set by the release). `control` marks
    a control, whose edit makes neither side better: its "low" side is the edited one. `excerpt` is the part
    of the source that both sides show; None for all of it. Segments still count frames of the source.
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
    control: bool = False
    excerpt: Excerpt | None = None

    @property
    def first_frame(self) -> int:
        """The source's frame with which the high side begins."""
        return 0 if self.excerpt is None else self.excerpt.first_frame

    @property
    def source_frames(self) -> int:
        """The number of frames of the source."""
        return self.high_frames if self.excerpt is None else self.excerpt.source_frames

    def content(self) -> dict[str, Any]:
        """Return it JSON-serialisable, as stored, omitting `control` and `excerpt` if they do not apply."""
        unset = {"control"} if not self.control else set()
        return self.model_dump(
            mode="json", exclude=unset | ({"excerpt"} if self.excerpt is None else set()) or None
        )


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

    `new_frames` is the number of frames with new pixels; `done` is True if the pair is stored and verified;
    `control` marks the control of the main pair, `length` is that of an excerpt.
    """

    pair_id: str
    aspect: str
    operation: str
    strength: str
    clips: int
    main: bool
    new_frames: int
    hardware: Hardware
    done: bool
    control: bool = False
    length: LengthPoint | None = None


class NoPair(Frozen):
    """Why a source has no pair for an aspect, or no control for its pair."""

    aspect: str
    reason: Reason
    message: str
    control: bool = False


class ClipCount(Frozen):
    """Number of a source's clips that an aspect can use for its main pair, and the number needed."""

    aspect: str
    eligible: int
    needed: int

    @property
    def enough(self) -> bool:
        """Whether the source can have a pair."""
        return self.eligible >= self.needed


class SourceReport(Frozen):
    """The pairs that one source can provide.

    `exact` is True if the frames are known from ingest, False if predicted from the packets. `spans` are the
    first frame and the number of frames of each clip, `frames_checksum` is the checksum of all frames, empty
    if they are predicted. `damage` says how a damaged video was used; clips past its end have no spans.
    `clips` counts the eligible clips of each aspect.
    """

    source_id: str
    title: str
    duration_s: float
    frames: int
    width: int
    height: int
    exact: bool
    has_frames: bool
    spans: tuple[tuple[int, int], ...]
    frames_checksum: str
    pairs: tuple[PlannedPair, ...]
    no_pair: tuple[NoPair, ...]
    damage: Damage = ""
    clips: tuple[ClipCount, ...] = ()

    @property
    def aspects(self) -> tuple[str, ...]:
        """The aspects for which the source can provide a pair at the recipe's main severity."""
        return tuple(pair.aspect for pair in self.pairs if pair.main)


class ReleasePlan(Frozen):
    """All pairs of a planned release, and the bytes and frames required."""

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
