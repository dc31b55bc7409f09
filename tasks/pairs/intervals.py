"""Edit lists, and the degraded intervals in the timeline of each side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from storage_schemas.pair import Interval, Segment
from tasks.aspects.base import ClipSpan

#: Seconds before and after a join at which clips were removed that count as degraded.
JOIN_MARGIN_S = 2.0


def units(spans: Sequence[ClipSpan], frame_count: int) -> list[Segment]:
    """Return the unchanged source as segments: clips with frames and the gaps between them, in order."""
    segments: list[Segment] = []
    position = 0
    for span in spans:
        if not span.frame_count:
            continue
        if span.first_frame > position:
            segments.append(_gap(position, span.first_frame))
        segments.append(
            Segment(
                kind="source", clip=span.index, first_frame=span.first_frame, frame_count=span.frame_count
            )
        )
        position = span.first_frame + span.frame_count
    if position < frame_count:
        segments.append(_gap(position, frame_count))
    return segments


def _gap(first: int, end: int) -> Segment:
    return Segment(kind="gap", clip=None, first_frame=first, frame_count=end - first)


def replaced(source_units: Sequence[Segment], changed: Mapping[int, Segment]) -> list[Segment]:
    """Return the edit list with some clips, given by index, replaced in place."""
    return [changed.get(unit.clip, unit) if unit.clip is not None else unit for unit in source_units]


def reordered(source_units: Sequence[Segment], order: Sequence[int], drawn: Sequence[int]) -> list[Segment]:
    """Return the edit list with the clips in another order; gaps keep their places.

    If `order` names every clip, the clip segments are filled with the clips of `order` one after the other.
    If it names fewer, the missing clips are removed and the others keep their places.
    """
    by_clip = {unit.clip: unit for unit in source_units if unit.clip is not None}
    if len(order) < len(by_clip):
        remaining = set(order)
        return [unit for unit in source_units if unit.clip is None or unit.clip in remaining]
    waiting = iter(order)
    moved = set(drawn)
    result = []
    for unit in source_units:
        if unit.clip is None:
            result.append(unit)
            continue
        clip = next(waiting)
        result.append(by_clip[clip].model_copy(update={"moved": clip in moved}))
    return result


def cut_units(source_units: Sequence[Segment], trimmed: Mapping[int, int]) -> tuple[list[Segment], list[int]]:
    """Return the source with each trimmed clip in two, and the numbers of the parts that are cut off.

    Parameters
    ----------
    trimmed
        Number of frames left, by clip.

    Returns
    -------
    tuple of list and list
        The units; the second part of a clip has a negative number in place of a clip's index.
    """
    cut: list[Segment] = []
    removed: list[int] = []
    for unit in source_units:
        left = None if unit.clip is None else trimmed.get(unit.clip)
        if left is None:
            cut.append(unit)
            continue
        removed.append(-1 - len(removed))
        cut.append(unit.model_copy(update={"frame_count": left}))
        rest = {"first_frame": unit.first_frame + left, "frame_count": unit.frame_count - left}
        cut.append(unit.model_copy(update={**rest, "clip": removed[-1]}))
    return cut, removed


def trimmed(cut: Sequence[Segment], trimmed_clips: Collection[int]) -> list[Segment]:
    """Return the edit list of :func:`cut_units`, without the parts that are cut off."""
    return [
        unit.model_copy(update={"kind": "trimmed"}) if unit.clip in trimmed_clips else unit
        for unit in cut
        if unit.clip is None or unit.clip >= 0
    ]


def merged(intervals: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return intervals in order, joining those that touch or overlap."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        elif end > start:
            result.append((start, end))
    return tuple(result)


def degraded_intervals(
    source_units: Sequence[Segment], segments: Sequence[Segment], drawn: Sequence[int], fps: float
) -> tuple[tuple[Interval, ...], tuple[Interval, ...]]:
    """Return the degraded intervals of the high and the low side, in seconds of each side's own timeline.

    High side: the drawn clips at their places in the source. Low side: the degraded or moved clips at their
    places in the edit list; if clips were removed, the joins ± `JOIN_MARGIN_S`.
    """
    drawn_clips = set(drawn)
    high = [
        (unit.first_frame / fps, (unit.first_frame + unit.frame_count) / fps)
        for unit in source_units
        if unit.clip in drawn_clips
    ]
    low: list[Interval] = []
    position = 0
    for segment in segments:
        if segment.kind == "degraded" or segment.moved:
            low.append((position / fps, (position + segment.frame_count) / fps))
        position += segment.frame_count
    duration = position / fps
    present = {segment.clip for segment in segments}
    if drawn_clips - present:
        low += [
            (max(join - JOIN_MARGIN_S, 0.0), min(join + JOIN_MARGIN_S, duration))
            for join in _joins(source_units, present, fps)
        ]
    return merged(high), merged(low)


def _joins(source_units: Sequence[Segment], present: set[int | None], fps: float) -> list[float]:
    joins, position = [], 0
    for unit in source_units:
        if unit.clip is not None and unit.clip not in present:
            joins.append(position / fps)
        else:
            position += unit.frame_count
    return joins
